from __future__ import annotations

from typing import Any

import pytest

from tests.diagnose.scenario import CURL, JDK, SERVER, STRANGER, Network, Quic, Software, Tcp

RULE = "stale-alt-svc"
REASON = b"No response from peer for 30 seconds"
OFFER = 'h3=":443"; ma=3600'


def waits(quic: Quic, at: float, reason: bytes = REASON) -> None:
    """An attempt that runs into the JDK's 30 s timer."""
    quic.initials(*(at + after for after in (0.0, 1.0, 3.0, 7.0, 15.0)))
    quic.close(at + 30.0, 0xC, reason)


def after_a_record(sni: str = "localhost", software: Software = JDK, *, psk: bool = True) -> tuple[Network, Tcp, Quic]:
    """TCP carries the first request, and QUIC is tried for the second one, in vain; TCP follows."""
    network = Network()
    tcp = network.tcp(sni=sni, software=software)
    tcp.connects(0.0)
    tcp.fin(30.2)
    quic = network.quic(sni=sni, software=software, psk=psk)
    waits(quic, 0.3)
    network.tcp(sni=sni, software=software).connects(30.29)
    return network, tcp, quic


def test_a_record_that_leads_nowhere_is_told() -> None:
    """From the wire alone: the name that gives the record away, the wait, and that another rule has its cost."""
    network, _, _ = after_a_record()
    said = network.explain()
    finding = said.the(RULE)
    assert finding.severity == "problem"
    assert "SNI localhost" in finding.summary
    assert "does not answer QUIC" in finding.summary
    assert "TCP works, and a new TCP connection was tried only 30.0 s later" in finding.summary
    assert finding.cost is None
    assert said.the("fallback-delay").cost == pytest.approx(29.99)
    assert "alt-svc: clear" in finding.advice


def test_a_refused_alternative_is_told_as_such() -> None:
    """An ICMP error is an answer of a kind: the alternative refuses."""
    network, _, quic = after_a_record()
    quic.unreachable(0.301)
    assert "refuses QUIC" in network.explain().the(RULE).summary


def test_a_name_with_a_dot_needs_the_session_and_the_timer() -> None:
    """Such a name is sent without a record too; a resumed session and the 30 s before TCP leave no doubt."""
    network, _, _ = after_a_record("example.org")
    assert "a session to resume, and 30.0 s until TCP" in network.explain().the(RULE).summary


def test_a_direct_attempt_is_none() -> None:
    """Without a session to resume, or with the timer of direct attempts, nothing says that there was a record."""
    network, _, _ = after_a_record("example.org", psk=False)
    assert network.explain().found(RULE) == []
    network = Network()
    quic = network.quic(software=JDK, psk=True)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    network.tcp(software=JDK).connects(2.76)
    said = network.explain()
    assert said.found(RULE) == []
    assert said.found("fallback-delay")


def test_another_client_gives_nothing_away() -> None:
    """What the JDK's name means says nothing of a client that always sends one."""
    for software in (CURL, STRANGER):
        network, _, _ = after_a_record(software=software)
        assert network.explain().found(RULE) == []


def test_an_offer_that_was_seen_is_proof_for_any_client() -> None:
    """TCP, a response that offers h3, then QUIC for the first time: the record is known, and the client's reason."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    network.told_alt_svc(0.1, OFFER)
    quic = network.quic()
    quic.initials(0.3, 1.3, 3.3)
    quic.close(5.0, 0)
    network.tcp().connects(5.01)
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert OFFER in finding.summary


@pytest.mark.parametrize(
    "lines", [('h3=":444"; ma=3600',), ('h3=":443"; ma=0',), ("clear",), ('h2=":443"; ma=60',), ()]
)
def test_an_offer_of_something_else_is_none(lines: tuple[str, ...]) -> None:
    """Another port, one that was stale at once, one taken back, another protocol: QUIC to 443 has another reason."""
    network = Network()
    network.tcp().connects(0.0)
    if lines:
        network.told_alt_svc(0.1, *lines)
    quic = network.quic()
    quic.initials(0.3, 1.3, 3.3)
    quic.close(5.0, 0)
    network.tcp().connects(5.01)
    assert network.explain().found(RULE) == []


def test_an_offer_taken_back_or_run_out_is_none() -> None:
    """The latest lines replace the ones before, and none lasts longer than its ma."""
    for lines, at in ((("clear",), 0.2), (('h3=":443"; ma=1',), 0.2)):
        network = Network()
        network.tcp().connects(0.0)
        network.told_alt_svc(0.1, OFFER)
        network.told_alt_svc(at, *lines)
        quic = network.quic()
        quic.initials(2.0, 3.0, 5.0)
        quic.close(7.0, 0)
        network.tcp().connects(7.01)
        assert network.explain().found(RULE) == []


def test_a_client_that_tried_before_the_offer_is_none() -> None:
    """It does not need the offer to try QUIC, so the attempt need not be due to it."""
    network = Network()
    early = network.quic()
    early.initials(0.0, 1.0)
    early.close(2.0, 0)
    network.tcp().connects(2.01)
    network.told_alt_svc(2.1, OFFER)
    late = network.quic()
    late.initials(3.0, 4.0, 6.0)
    late.close(8.0, 0)
    network.tcp().connects(8.01)
    assert network.explain().found(RULE) == []


def test_a_race_costs_nothing() -> None:
    """TCP that left beside the attempt carries its request: the record hurts nobody."""
    network = Network()
    network.tcp(sni="localhost", software=JDK).connects(0.0)
    waits(network.quic(sni="localhost", software=JDK, psk=True), 31.0)
    network.tcp(sni="localhost", software=JDK).connects(31.02)
    assert network.explain().found(RULE) == []


def test_requests_that_go_on_over_tcp_are_not_held_up() -> None:
    """Answers over TCP all the while say that nobody waits for the attempt."""
    network = Network()
    tcp = network.tcp(sni="localhost", software=JDK)
    tcp.connects(0.0)
    waits(network.quic(sni="localhost", software=JDK, psk=True), 0.3)
    for second in range(1, 30, 5):
        tcp.exchanges(float(second))
    assert network.explain().found(RULE) == []


def test_a_server_that_is_down_has_no_stale_record() -> None:
    """Where TCP does not work either, the offer is the least of its faults."""
    network = Network()
    waits(network.quic(sni="localhost", software=JDK, psk=True), 0.0)
    tcp = network.tcp(sni="localhost", software=JDK)
    tcp.syn(30.01)
    tcp.refuse(30.02)
    assert network.explain().found(RULE) == []


def test_an_answer_is_an_answer() -> None:
    """An attempt that stalls after the server's first packets was answered: other rules are about that."""
    network = Network()
    network.tcp(sni="localhost", software=JDK).connects(0.0)
    quic = network.quic(sni="localhost", software=JDK, psk=True)
    quic.initial(0.3)
    quic.answers(0.32)
    quic.acknowledges(1.4)
    quic.acknowledges(2.4)
    network.tcp(sni="localhost", software=JDK).connects(10.0)
    assert network.explain().found(RULE) == []


def test_a_capture_that_began_late_proves_nothing() -> None:
    """Without the ClientHello nothing says what the attempt was, nor that it was one."""
    network, _, quic = after_a_record()
    seen = network.explain(seen=lambda packet: packet.flow != quic.number or packet.at > 20.0)
    assert seen.found(RULE) == []


def test_a_request_that_failed_with_it_costs_its_wait() -> None:
    """Without TCP after it the client's log tells that the request failed, and the attempt how long that took."""
    network = Network()
    tcp = network.tcp(sni="localhost", software=JDK)
    tcp.connects(0.0)
    network.told(0.08, tcp, "HTTP/2", origin="https://localhost:443", url="https://localhost/")
    quic = network.quic(sni="localhost", software=JDK, psk=True)
    quic.initial(0.3)
    quic.close(1.3, 0xC, b"No response from peer for 1 seconds")
    told: dict[str, Any] = {"origin": "https://localhost:443", "url": "https://localhost/", "error": "it failed"}
    network.told(1.31, quic, None, began=0.29, scid=quic.client_scid, **told)
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert "1 request failed" in finding.summary
    assert finding.cost == pytest.approx(1.0)


def test_of_the_wire_alone_that_is_a_notice() -> None:
    """Nobody tells that a request failed: the connection over TCP was still open."""
    network = Network()
    network.tcp(sni="localhost", software=JDK).connects(0.0)
    quic = network.quic(sni="localhost", software=JDK, psk=True)
    quic.initial(0.3)
    quic.close(1.3, 0xC, b"No response from peer for 1 seconds")
    finding = network.explain().the(RULE)
    assert (finding.severity, finding.cost) == ("notice", None)


def test_tcp_through_a_proxy_is_no_tcp_to_the_server() -> None:
    """That the proxy reaches the server says nothing of the way that the attempt took."""
    network = Network()
    tunnel = network.tcp(server="192.0.2.99", port=3128, sni="localhost", software=JDK)
    tunnel.asks_proxy(0.0, "localhost:443")
    tunnel.proxy_answers(0.1, 200)
    tunnel.gets_ready(0.11)
    tunnel.exchanges(0.2)
    waits(network.quic(sni="localhost", software=JDK, psk=True), 0.3)
    said = network.explain()
    assert said.found("quic-unanswered")
    assert said.found(RULE) == []


def test_what_is_told_once_is_told_once() -> None:
    """Several attempts of one episode are one finding."""
    network = Network()
    network.tcp(sni="localhost", software=JDK).connects(0.0)
    quic = network.quic(sni="localhost", software=JDK, psk=True, server=SERVER)
    quic.initial(0.3)
    quic.close(1.3, 0xC, b"No response from peer for 1 seconds")
    quic.again()
    quic.initial(5.0)
    quic.close(6.0, 0xC, b"No response from peer for 1 seconds")
    assert network.explain().the(RULE).connections == ["quic-1", "quic-2"]


def test_an_alternative_at_another_port_has_its_cost_here() -> None:
    """Its attempts are a story of their own: TCP to the origin's port follows, and nobody else tells of the wait."""
    network = Network()
    tcp = network.tcp(sni="localhost", software=JDK)
    tcp.connects(0.0)
    tcp.fin(30.2)
    waits(network.quic(sni="localhost", software=JDK, psk=True, port=8443), 0.3)
    network.tcp(sni="localhost", software=JDK).connects(30.29)
    said = network.explain()
    finding = said.the(RULE)
    assert finding.origin == "localhost:8443"
    assert finding.cost == pytest.approx(29.99)
    assert "TCP works, and a new TCP connection was tried only 30.0 s later" in finding.summary
    assert said.found("no-fallback") == []
    assert said.found("fallback-delay") == []
