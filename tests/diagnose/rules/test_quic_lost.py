from __future__ import annotations

import pytest

from tests.diagnose.scenario import Network, Quic

RULE = "quic-lost"


def in_use(network: Network) -> Quic:
    """A connection that has carried an exchange."""
    quic = network.quic()
    quic.connects(0.0)
    return quic


def refused(quic: Quic, *times: float) -> None:
    """The client sends something each time, and is told that nobody takes it."""
    for at in times:
        quic.request(at)
        quic.unreachable(at + 0.000_1)


def test_a_server_that_went_away() -> None:
    """A client that goes on though it is refused waits for nothing."""
    network = Network()
    refused(in_use(network), 3.0, 3.5, 5.0, 9.0)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "problem"
    assert "had been ready for 2.98 s when its packets were refused: 4 ICMP errors, port unreachable" in finding.summary
    assert finding.summary.endswith("The client went on for 6.00 s.")
    assert [moment.text for moment in explained.moments].count("ICMP port unreachable") == 1
    assert explained.sentence.startswith("HTTP/3")


@pytest.mark.parametrize("times", [(3.0,), (3.0, 3.1, 3.2)])
def test_a_good_bye_to_a_server_that_is_gone(times: tuple[float, ...]) -> None:
    """A few packets to a closed port, all at once, cost nothing."""
    network = Network()
    refused(in_use(network), *times)
    assert network.explain().found(RULE) == []


def test_an_attempt_that_was_refused_is_another_rules() -> None:
    """A connection that never was ready was not lost."""
    network = Network()
    quic = network.quic()
    for at in (0.0, 1.0, 3.0):
        quic.initial(at)
        quic.unreachable(at + 0.000_1)
    assert "quic-lost" not in network.explain().rules
