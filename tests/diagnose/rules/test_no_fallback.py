from __future__ import annotations

from typing import Any

import pytest

from tests.diagnose.scenario import CLIENT, CLIENT6, CURL, JDK, SERVER6, STATION, Network

RULE = "no-fallback"


def busy() -> Network:
    """A network with TCP in it, so that no filter can have left all of it out."""
    network = Network()
    network.tcp(server="198.51.100.9", port=25, sni="other.example").connects(0.0)
    return network


def test_a_client_that_never_tries_tcp_is_told() -> None:
    """A failed attempt, 5 s and more of the client's own packets, and no SYN."""
    network = busy()
    network.dns(0.0, "example.org", "198.51.100.1")
    network.quic().initials(0.0, 1.0, 3.0, 7.0)
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert "7.00 s" in finding.summary
    assert finding.connections == ["quic-1"]


def test_the_cost_is_the_time_in_which_an_attempt_was_pending() -> None:
    """Two attempts side by side cost once what they cost, and what nobody waited for costs nothing."""
    network = busy()
    network.quic().initials(0.0, 1.0, 3.0)
    network.quic(server="198.51.100.2").initials(0.1, 1.1, 3.5)
    network.quic().initials(10.0, 11.0, 13.0, 17.0)
    assert network.explain().the(RULE).cost == pytest.approx(10.5)


def test_seconds_are_told_once() -> None:
    """Where another rule has them, or a filter may have left TCP out, this one has none."""
    network = busy()
    quic = network.quic(software=JDK)
    for at in (0.0, 29.99):
        quic.initials(*(at + after for after in (0.0, 1.0, 3.0, 7.0, 15.0)))
        quic.close(at + 30.0, 0xC, b"No response from peer for 30 seconds")
        quic.again()
    said = network.explain()
    assert said.the(RULE).cost is None
    assert said.the("repeated-timeout").cost == pytest.approx(59.99)


def test_a_capture_without_any_tcp_proves_nothing_of_it() -> None:
    """A filter may have left out the very connection: a notice that says so, and no cost."""
    network = Network()
    network.dns(0.0, "example.org", "198.51.100.1")
    network.quic().initials(0.0, 1.0, 3.0, 7.0)
    finding = network.explain().the(RULE)
    assert (finding.severity, finding.cost) == ("notice", None)
    assert "where a filter left it out" in finding.summary


def test_an_outage_has_its_cost_already() -> None:
    """A client that is stuck on QUIC after its TCP connection was closed is told of by both rules, its cost by one."""
    network = Network()
    tcp = network.tcp(sni="localhost", software=JDK)
    tcp.connects(0.0)
    tcp.fin(1.0)
    quic = network.quic(sni="localhost", software=JDK, psk=True)
    for at in (2.0, 22.1, 42.2):
        quic.initials(at, at + 1.0, at + 3.0)
        quic.close(at + 20.0, 0xC)
        quic.again()
    said = network.explain()
    assert {finding.rule: finding.cost for finding in said.findings if finding.rule in (RULE, "stuck-on-quic")} == {
        RULE: None,
        "stuck-on-quic": pytest.approx(60.0),
    }


def test_a_stale_record_has_its_cost_already() -> None:
    """A request that is known to have failed with an alternative is counted there."""
    network = Network()
    tcp = network.tcp(sni="localhost", software=JDK)
    tcp.connects(0.0)
    tcp.fin(1.0)
    where: dict[str, Any] = {"origin": "https://localhost:443", "url": "https://localhost/"}
    network.told(0.08, tcp, "HTTP/2", **where)
    quic = network.quic(sni="localhost", software=JDK, psk=True)
    quic.initials(2.0, 3.0, 5.0, 9.0, 17.0)
    quic.close(32.0, 0xC, b"No response from peer for 30 seconds")
    network.told(32.01, quic, None, began=1.99, scid=quic.client_scid, **where)
    said = network.explain()
    assert {finding.rule: finding.cost for finding in said.findings if finding.rule in (RULE, "stale-alt-svc")} == {
        RULE: None,
        "stale-alt-svc": pytest.approx(30.0),
    }


def test_a_known_client_gets_the_time_that_it_is_known_to_take() -> None:
    """The JDK goes on to TCP after 30 s: before that nothing is said."""
    for last, fires in ((15.0, False), (31.9, True)):
        network = Network()
        network.quic(software=JDK).initials(0.0, 1.0, 3.0, 7.0, last)
        assert bool(network.explain().found(RULE)) is fires


def test_a_second_attempt_is_the_jdks_answer() -> None:
    """A JDK that tries QUIC again after its whole timer has decided against TCP."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0, 3.0, 7.0, 15.0)
    quic.close(30.0, 0xC)
    quic.again()
    quic.initials(30.01, 31.01)
    assert network.explain().found(RULE)


def test_an_unknown_client_gets_five_seconds() -> None:
    """After 3 s a client that nobody knows may still be about to try TCP."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    network.bystander(60.0)
    assert network.explain().found(RULE) == []


def test_curl_that_fails_at_once_is_not_accused() -> None:
    """curl exits milliseconds after a refusal; how it was called is not known."""
    network = Network()
    quic = network.quic(software=CURL)
    quic.initial(0.0)
    quic.unreachable(0.000_1)
    network.bystander(60.0)
    assert network.explain().found(RULE) == []


def test_a_fallback_is_no_missing_one() -> None:
    """A SYN to the origin, however it ends, is a try."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0, 7.0)
    tcp = network.tcp(sni=None)
    tcp.syn(7.5)
    tcp.refuse(7.51)
    assert network.explain().found(RULE) == []


def test_an_open_connection_is_a_fallback() -> None:
    """Requests may go on over a TCP connection that was open already."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic().initials(1.0, 2.0, 4.0, 8.0)
    assert network.explain().found(RULE) == []


def test_a_connection_open_before_the_capture_is_a_fallback() -> None:
    """The same where the capture missed that connection's start."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    network.quic().initials(1.0, 2.0, 4.0, 8.0)
    tcp.exchanges(8.5)
    assert network.explain(seen=lambda packet: packet.at > 0.5).found(RULE) == []


def test_a_fallback_from_the_hosts_other_address_is_a_fallback() -> None:
    """A dual-stack host that tries QUIC over IPv6 and TCP over IPv4 fell back, whatever its addresses."""
    network = Network(stations={CLIENT: STATION, CLIENT6: STATION})
    network.quic(client=CLIENT6, server=SERVER6).initials(0.0, 1.0, 3.0, 7.0)
    network.tcp().connects(7.5)
    assert network.explain().found(RULE) == []


def test_quic_that_works_in_the_end_needs_no_fallback() -> None:
    """One attempt that failed beside one that did not is no story without an end."""
    network = Network()
    network.quic(server="198.51.100.2").initials(0.0, 1.0, 3.0, 7.0)
    network.quic().connects(7.5)
    assert network.explain().found(RULE) == []


def test_a_client_that_is_gone_proves_nothing() -> None:
    """Time that passes after a client's last packet is not time in which it could have tried."""
    network = Network()
    network.quic().initials(0.0, 1.0)
    network.bystander(300.0)
    assert network.explain().found(RULE) == []


def test_a_connection_through_a_proxy_is_no_story_of_its_own() -> None:
    """A client that asked a proxy has another way than TCP to the origin."""
    network = Network()
    tcp = network.tcp(server="192.0.2.3", port=8888)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.1, 200)
    tcp.gets_ready(0.11)
    assert network.explain().found(RULE) == []


def test_a_proxy_is_a_fallback() -> None:
    """A client that is blocked past its proxy and goes on through it did not stop at QUIC."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0, 7.0)
    tcp = network.tcp(server="192.0.2.3", port=8888)
    tcp.asks_proxy(7.5, "example.org:443")
    tcp.proxy_answers(7.6, 200)
    tcp.gets_ready(7.7)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert not any(verdict.sentence.startswith("No connection:") for verdict in explained.verdicts)


def test_a_one_sided_capture_weakens_it() -> None:
    """Where no packet to the client is captured, answers may have come unseen."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0, 7.0)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert "one direction" in finding.summary


def test_dns_over_quic_has_fallbacks_of_its_own() -> None:
    """A resolver's client goes on over UDP port 53; nobody allowed it HTTP/3 only."""
    network = Network()
    network.quic(port=853, alpn=("doq",), sni="dns.example").initials(0.0, 1.0, 3.0, 7.0)
    assert network.explain().findings == []


@pytest.mark.parametrize("outcome", ["closed", "stalled"])
def test_other_failures_count_as_well(outcome: str) -> None:
    """A handshake that was answered and failed leaves the client without a connection too."""
    network = busy()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.02)
    for at in (1.0, 3.0, 6.0):
        quic.acknowledges(at)
    if outcome == "closed":
        quic.close(6.5, 0x128)
    explained = network.explain()
    assert explained.quic[0].outcome == outcome
    assert explained.the(RULE).severity == "problem"


def test_a_close_that_the_client_sent_proves_more_than_silence() -> None:
    """In a capture of one direction, an attempt that its client gave up did fail."""
    network = busy()
    for at in (0.0, 10.0):
        quic = network.quic()
        quic.initials(at, at + 1.0, at + 3.0)
        if at:
            quic.close(at + 6.0, 0)
    assert network.explain().the(RULE).severity == "problem"


@pytest.mark.parametrize(("last", "fires"), [(0.3, False), (1.5, True)])
def test_curl_is_known_to_be_quick(last: float, *, fires: bool) -> None:
    """curl --http3 tries TCP within 200 ms: a second and a half without a SYN are its answer."""
    network = Network()
    network.quic(software=CURL).initials(0.0, 0.2, last)
    assert bool(network.explain().found(RULE)) is fires


def test_what_is_not_http3_gets_no_advice_about_it() -> None:
    """SMB over QUIC has no request that was allowed HTTP/3 only."""
    network = Network()
    network.dns(0.0, "example.org", "198.51.100.1")
    network.quic(alpn=("smb",)).initials(0.0, 1.0, 3.0, 7.0)
    advice = network.explain().the("no-fallback").advice
    assert "HTTP/3" not in advice
    assert advice.startswith("What speaks smb here")
