from __future__ import annotations

import pytest

from tests.diagnose.scenario import JDK, SERVER, Network


def test_a_wait_of_the_first_request_is_not_called_a_later_ones() -> None:
    """QUIC failed first, TCP took over, and QUIC came up afterwards: it was the first request that waited."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    network.tcp().connects(2.78)
    quic.again()
    quic.connects(10.0)
    sentence = network.explain().sentence
    assert "2.78 s" in sentence
    assert "later request" not in sentence


@pytest.mark.parametrize("server", [SERVER, "198.51.100.7"])
def test_quic_that_had_worked_before_is_remembered(server: str) -> None:
    """A later wait for the same server's QUIC is told apart from one for a server that was new."""
    network = Network()
    network.quic(server=server).connects(0.0, rtt=0.2)
    network.tcp().connects(0.01)
    quic = network.quic()
    quic.initials(50.0, 51.0)
    quic.close(52.75, 0xC)
    network.tcp().connects(52.8)
    sentence = network.explain().sentence
    assert "waited 2.80 s" in sentence
    assert ("which had worked before" in sentence) is (server == SERVER)


def test_a_wait_after_the_race_is_a_later_ones() -> None:
    """After a race that TCP won, the next request waited for QUIC."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    network.tcp(software=JDK).connects(0.05)
    quic.again()
    quic.initials(4.0, 5.0, 7.0, 11.0, 19.0)
    network.tcp(software=JDK).connects(34.0)
    quic.close(34.01, 0xC)
    sentence = network.explain().sentence
    assert "won the race" in sentence
    assert "A later request waited 30.0 s" in sentence


def test_the_longest_wait_is_the_one_that_is_told() -> None:
    """Of several fallbacks the verdict names the first request's and the one that cost most."""
    network = Network()
    for at, wait in ((0.0, 2.0), (100.0, 8.0), (200.0, 3.0)):
        network.quic().initials(at, at + 1.0, at + wait - 0.5)
        tcp = network.tcp()
        tcp.connects(at + wait)
        tcp.fin(at + wait + 1.0)
    sentence = network.explain().sentence
    assert "after 2.00 s of waiting" in sentence
    assert "A later request waited 8.00 s" in sentence
    assert "3.00 s" not in sentence
