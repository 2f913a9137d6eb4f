from __future__ import annotations

import pytest

from h3probe.diagnose.conclusion import conclude
from h3probe.diagnose.fallback import wait_of
from tests.diagnose.scenario import JDK, Network, Quic, Tcp

RULE = "fallback-delay"
REASON = b"No response from peer for 3 seconds"


def opened(network: Network) -> Tcp:
    """A TCP connection that carried request 1."""
    tcp = network.tcp(software=JDK)
    tcp.connects(-1.0)
    network.told(-0.9, tcp, "HTTP/2", began=-1.1)
    return tcp


def gives_up(network: Network) -> Quic:
    """The attempt of request 2, which nobody answers."""
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(3.0, 0xC, REASON)
    return quic


def test_a_request_that_goes_on_over_an_open_connection_waited() -> None:
    """No SYN follows: that the request was there before the attempt is the log's word, when it left is the wire's."""
    network = Network()
    tcp = opened(network)
    gives_up(network)
    tcp.exchanges(3.01)
    network.told(3.04, tcp, "HTTP/2", began=-0.02)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "problem"
    assert finding.cost == pytest.approx(3.01)
    assert finding.connections == ["quic-1", "tcp-1"]
    assert all(row.frame is not None for row in finding.evidence if "leaves on the TCP connection" in row.what)
    assert finding.summary.startswith("Request 2 to example.org:443 waited for QUIC: 3.01 s passed")
    assert "-Djdk.httpclient.quic.maxInitialTimeout" in finding.advice
    assert " Request 2 waited 3.01 s for QUIC before it fell back to TCP" in explained.sentence


def test_a_log_of_whole_seconds_will_do() -> None:
    """The cost is the packets'; the log only says that the request began with the attempt and ended after it."""
    network = Network()
    tcp = opened(network)
    gives_up(network)
    tcp.exchanges(3.01)
    network.told(3.0, tcp, "HTTP/2", began=-1.0, within=1.0)
    finding = network.explain().the(RULE)
    assert finding.cost == pytest.approx(3.01)
    assert not any("by the client's log" in evidence.what for evidence in finding.evidence)


def test_without_the_log_nobody_knows_of_a_request() -> None:
    """The next request may just as well begin when the last one's attempt is over."""
    network = Network()
    tcp = network.tcp(software=JDK)
    tcp.connects(-1.0)
    gives_up(network)
    tcp.exchanges(3.01)
    assert network.explain().found(RULE) == []


def test_a_request_that_begins_after_the_attempt_waited_for_nothing() -> None:
    """A request of its own, over the connection that is there."""
    network = Network()
    tcp = opened(network)
    gives_up(network)
    tcp.exchanges(3.01)
    network.told(3.04, tcp, "HTTP/2", began=3.0)
    assert network.explain().found(RULE) == []


def test_a_slow_server_is_no_wait_for_quic() -> None:
    """A request that left over TCP before the attempt, and was answered after it, waited for its server."""
    network = Network()
    tcp = opened(network)
    gives_up(network)
    tcp.request(-0.01)
    tcp.response(3.01)
    network.told(3.02, tcp, "HTTP/2", began=-0.02)
    assert network.explain().found(RULE) == []


def test_requests_that_go_on_over_tcp_meanwhile_wait_for_nothing() -> None:
    """With TCP in use, an attempt in the background keeps nobody waiting."""
    network = Network()
    tcp = opened(network)
    gives_up(network)
    for at in (0.5, 1.5, 3.01):
        tcp.exchanges(at)
    network.told(3.04, tcp, "HTTP/2", began=-0.02)
    assert network.explain().found(RULE) == []


def test_a_request_that_failed_did_not_go_on() -> None:
    """No answer, no fallback."""
    network = Network()
    tcp = opened(network)
    gives_up(network)
    tcp.exchanges(3.01)
    network.told(3.04, None, None, began=-0.02)
    assert network.explain().found(RULE) == []


def test_the_end_of_an_idle_connection_is_no_request() -> None:
    """A client that says goodbye on the connection it has not used gets a close_notify back, and no answer."""
    network = Network()
    tcp = opened(network)
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0, 3.0, 7.0, 15.0)
    quic.close(30.0, 0xC, b"No response from peer for 30 seconds")
    tcp.request(29.0, size=60)
    tcp.response(29.001, size=19)
    tcp.fin(29.002)
    again = network.tcp(software=JDK)
    again.connects(30.01)
    network.told(30.1, again, "HTTP/2", began=-0.02)
    explained = network.explain()
    assert explained.the(RULE).cost == pytest.approx(30.01)
    assert explained.the(RULE).summary.startswith("Request 2 to example.org:443 waited for QUIC")


def test_a_syn_names_no_request_without_a_log() -> None:
    """Which request a new connection is for no packet tells."""
    network = Network()
    gives_up(network)
    network.tcp(software=JDK).connects(3.01)
    (story,) = network.explain().stories
    conclude(story)
    wait = wait_of(story, story.quic[0])
    assert wait is not None
    assert (wait.request, wait.reused) == (None, False)


def test_a_slow_machines_race_is_no_fallback() -> None:
    """A JDK falls back when its attempt is over: one that goes on with it after the SYN was racing."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    network.tcp(software=JDK).connects(1.2)
    assert network.explain().found(RULE) == []
