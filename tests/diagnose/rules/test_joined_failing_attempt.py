from __future__ import annotations

import pytest

from tests.diagnose.scenario import JDK, STRANGER, Network, Quic, Software

RULE = "joined-failing-attempt"
ERROR = "java.net.http.HttpConnectTimeoutException: quic handshake timeout"


def race(network: Network, software: Software = JDK) -> Quic:
    """The first request: QUIC, which nobody answers, and TCP, which carries it."""
    quic = network.quic(software=software)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    tcp = network.tcp(software=software)
    tcp.connects(0.02)
    network.told(0.12, tcp, "HTTP/2", began=-0.1)
    return quic


def fails(network: Network, quic: Quic, began: float, ended: float, within: float = 0.0) -> None:
    """A request that fails with an attempt, by the client's log."""
    network.told(ended, quic, None, began=began, within=within, scid=quic.client_scid, error=ERROR)


def test_a_request_that_waits_on_another_ones_attempt_is_told() -> None:
    """Request 2 sends nothing and fails when request 1's attempt does: its wait is its cost, and the timer is named."""
    network = Network()
    quic = race(network)
    fails(network, quic, 0.15, 2.76)
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert finding.cost == pytest.approx(2.61)
    assert "Request 2 to example.org:443" in finding.summary
    assert "an earlier request had begun" in finding.summary
    assert "2750 ms direct timer" in finding.summary
    assert ERROR in finding.summary
    assert "-Djdk.httpclient.http3.maxDirectConnectionTimeout" in finding.advice
    assert finding.connections == ["quic-1"]


def test_a_log_of_whole_seconds_gives_no_cost() -> None:
    """That TCP carried the request which the attempt was for is proof enough; a difference of such times is none."""
    network = Network()
    quic = race(network)
    fails(network, quic, 0.0, 2.0, within=1.0)
    finding = network.explain().the(RULE)
    assert finding.cost is None
    assert not any("by the client's log" in evidence.what for evidence in finding.evidence)


def test_a_later_request_without_a_race() -> None:
    """Where no TCP raced, half a second between the attempt's start and the request's is proof."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    fails(network, quic, 1.2, 2.76)
    network.tcp(software=JDK).connects(2.8)
    assert network.explain().the(RULE).cost == pytest.approx(1.56)


def test_a_requests_own_attempt_is_none() -> None:
    """A request that began before the attempt made it."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    fails(network, quic, -0.1, 2.76)
    assert network.explain().found(RULE) == []


def test_a_second_try_of_its_own_is_none() -> None:
    """A request that tries again began long before its second attempt, not long after it."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0, 3.0)
    quic.close(5.0, 0xC)
    quic.again()
    quic.initials(5.01, 6.0, 8.0)
    quic.close(10.0, 0xC)
    fails(network, quic, -0.1, 10.01)
    assert network.explain().found(RULE) == []


def test_a_request_that_was_answered_is_none() -> None:
    """One that waited and then got its answer over TCP waited, and did not fail."""
    network = Network()
    race(network)
    tcp = network.tcp(software=JDK)
    tcp.connects(2.8)
    network.told(2.9, tcp, "HTTP/2", began=0.15)
    assert network.explain().found(RULE) == []


def test_a_failure_on_a_connection_that_worked_is_none() -> None:
    """A request that fails on an established connection did not wait for an attempt."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.connects(0.0)
    fails(network, quic, 0.1, 0.11)
    assert network.explain().found(RULE) == []


def test_the_wire_alone_never_tells() -> None:
    """The same packets without a log: a request that sends nothing is not seen."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    network.tcp(software=JDK).connects(0.02)
    assert network.explain().found(RULE) == []


def test_a_failure_without_a_connection_is_none() -> None:
    """A request of which the log does not tell what it waited on may have failed for any reason."""
    network = Network()
    race(network)
    network.told(2.76, None, None, began=0.15, error=ERROR)
    assert network.explain().found(RULE) == []


def test_an_unknown_client_gets_plain_advice() -> None:
    """Nobody's properties are named for a client that nobody knows."""
    network = Network()
    quic = race(network, STRANGER)
    fails(network, quic, 0.15, 2.76)
    assert "jdk" not in network.explain().the(RULE).advice


def test_each_request_is_told_of() -> None:
    """Requests that join the same attempt are counted, and their waits are added up."""
    network = Network()
    quic = race(network)
    fails(network, quic, 0.15, 2.76)
    fails(network, quic, 1.15, 2.77)
    finding = network.explain().the(RULE)
    assert "2 requests to example.org:443 (2 and 3) failed" in finding.summary
    assert finding.cost == pytest.approx(2.61 + 1.62)
