from __future__ import annotations

from tests.diagnose.scenario import Network, Quic

PROBES = (5.0, 5.1, 5.3, 5.9, 7.1, 9.5)


def cut_off(network: Network) -> Quic:
    """A connection that has carried something, whose path dies after 5 s."""
    quic = network.quic()
    quic.connects(0.0)
    for at in PROBES:
        quic.request(at, size=40)
    return quic


def test_a_path_that_dies_is_said_to() -> None:
    """The client asks on and on, ever later, and the server's side is silent."""
    network = Network()
    cut_off(network)
    network.tcp().connects(10.0)
    explained = network.explain()
    finding = explained.the("quic-cut-off")
    assert finding.severity == "problem"
    assert "the client tried 4 times over 4.50 s" in finding.summary
    assert "It began anew over TCP 5.00 s after" in finding.summary
    assert (
        "QUIC fell silent 4.98 s after it was ready: the client tried 4 times over 4.50 s in vain."
        in explained.sentence
    )
    assert explained.quic[0].outcome == "established"


def test_nobody_went_on_is_a_notice() -> None:
    """What was not answered may have been keep-alives."""
    network = Network()
    cut_off(network)
    assert network.explain().the("quic-cut-off").severity == "notice"


def test_an_answer_in_the_end_is_one() -> None:
    """A path that is slow, or gone for a while, has carried all the same."""
    network = Network()
    cut_off(network).response(9.6)
    assert network.explain().rules == []


def test_a_request_after_a_rest_is_none() -> None:
    """An acknowledgement, hours, a burst of packets, and a close: that needs no answer, or gets it a moment later."""
    network = Network()
    quic = network.quic()
    quic.connects(0.0)
    quic.request(0.05, size=30)
    for at in (3600.0, 3600.01, 3600.02, 3600.03, 3603.0):
        quic.request(at)
    assert network.explain().rules == []


def test_lost_packets_leave_it_open() -> None:
    """Where the capture lost any, the server's may be among them."""
    network = Network()
    cut_off(network)
    network.lost(8.0, 5)
    assert "quic-cut-off" not in network.explain().rules


def test_a_client_that_is_gone_has_ended_it() -> None:
    """A closed port, or a refusal, says more than silence."""
    network = Network()
    cut_off(network).unreachable(9.51)
    assert "quic-cut-off" not in network.explain().rules
