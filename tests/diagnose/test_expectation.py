from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import pytest

from h3probe.diagnose.conclusion import conclude
from h3probe.diagnose.expectation import Account, Weighing, judge
from h3probe.filters import Filters
from h3probe.wire.packet import ACK
from tests.diagnose.scenario import CHROMIUM, CLIENT6, JDK, SERVER6, Explained, Network, Packet

if TYPE_CHECKING:
    from h3probe.records import ExpectationRecord, HttpVersion


def expected(network: Network, version: HttpVersion = "HTTP/3", **how: Any) -> Explained:  # noqa: ANN401 - explain's
    """What comes of a network with an expectation; the last record and the exit status must agree with it."""
    said = network.explain(expects=version, **how)
    expectations = said.engine.expectations
    assert expectations
    assert said.records[-1 - len(expectations) : -1] == expectations
    problem = any(finding.severity == "problem" for finding in said.findings)
    assert said.summary.exit_status == int(problem or not all(expectation.met for expectation in expectations))
    return said


def the(said: Explained) -> ExpectationRecord:
    """The one expectation."""
    (expectation,) = said.engine.expectations
    return expectation


def test_without_an_expectation_there_is_no_record() -> None:
    """Nobody who does not ask is told."""
    network = Network()
    network.tcp().connects(0.0)
    said = network.explain()
    assert said.engine.expectations == []
    assert said.summary.exit_status == 0


# -- of the wire alone


def test_quic_with_no_tcp_at_all_is_http3() -> None:
    """An exchange over QUIC that offered h3 only, and no TCP to the origin: nothing is left open."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp(server="198.51.100.9", sni="other.example", port=25, alpn=()).connects(0.0)
    judged = the(expected(network, filters=Filters(frozenset({"example.org"}))))
    assert (judged.met, judged.origin, judged.versions) == (True, "example.org:443", None)
    assert judged.reason.startswith("HTTP/3 from the first request")
    assert "no TCP packet" not in judged.reason


def test_a_capture_without_any_tcp_says_so() -> None:
    """A filter may have left TCP out; whoever reads the reason learns of it."""
    network = Network()
    network.quic().connects(0.0)
    judged = the(expected(network))
    assert judged.met
    assert "holds no TCP packet at all" in judged.reason


def test_tcp_that_failed_carried_nothing() -> None:
    """A refused SYN is no exchange."""
    network = Network()
    network.quic().connects(0.0)
    tcp = network.tcp()
    tcp.syn(0.01)
    tcp.refuse(0.02)
    assert the(expected(network)).met


@pytest.mark.parametrize("version", ["HTTP/3", "HTTP/2", "HTTP/1.1"])
def test_a_race_that_both_finished_is_not_known(version: HttpVersion) -> None:
    """What carried the requests is encrypted: whatever is expected, it is not certain."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(0.01)
    judged = the(expected(network, version))
    assert not judged.met
    assert "is encrypted" in judged.reason
    assert judged.reason.endswith("do not tell of every request which version it was.")


@pytest.mark.parametrize(
    ("alpn", "version", "met"),
    [
        (("h2", "http/1.1"), "HTTP/3", False),
        (("h2", "http/1.1"), "HTTP/2", False),
        (("h2", "http/1.1"), "HTTP/1.1", False),
        (("http/1.1",), "HTTP/1.1", True),
        (("http/1.1",), "HTTP/2", False),
        (("h2",), "HTTP/2", True),
        ((), "HTTP/1.1", False),
    ],
)
def test_tcp_is_known_by_what_it_offers(alpn: tuple[str, ...], version: HttpVersion, *, met: bool) -> None:
    """With TLS 1.3 the choice is encrypted: only one that has no rival is certain."""
    network = Network()
    network.tcp(alpn=alpn).connects(0.0)
    judged = the(expected(network, version))
    assert judged.met is met
    # Which of the two TCP protocols it was is open; that it was not HTTP/3 is not.
    assert ("do not tell" in judged.reason) == (not met and version != "HTTP/3" and alpn != ("http/1.1",))


@pytest.mark.parametrize(("version", "met"), [("HTTP/2", True), ("HTTP/1.1", False), ("HTTP/3", False)])
def test_tls12_shows_the_choice(version: HttpVersion, *, met: bool) -> None:
    """Its ServerHello is in the clear."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.hello(0.02)
    tcp.server_flight_12(0.03, "h2")
    tcp.finished(0.04)
    tcp.exchanges(0.05)
    assert the(expected(network, version)).met is met


def test_a_fallback_is_not_http3() -> None:
    """QUIC that failed carried nothing, TCP did."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0)
    quic.close(2.0, 0)
    network.tcp(alpn=("http/1.1",)).connects(2.01)
    assert not the(expected(network)).met
    assert the(expected(network, "HTTP/1.1")).met


def test_no_exchange_is_not_as_expected() -> None:
    """A handshake, an attempt that failed, nothing at all: there was none."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0)
    quic.close(2.0, 0)
    assert not the(expected(network)).met
    network = Network()
    network.bystander(0.0)
    judged = the(expected(network))
    assert (judged.met, judged.origin) == (False, None)
    network = Network()
    tcp = network.tcp(alpn=("http/1.1",))
    tcp.opens(0.0)
    assert not the(expected(network, "HTTP/1.1")).met


def test_an_origin_that_was_asked_for_and_is_not_there() -> None:
    """`--origin` names what must be seen."""
    network = Network()
    network.quic().connects(0.0)
    said = expected(network, filters=Filters(frozenset({"example.org", "absent.example:443"})))
    assert [(e.origin, e.met) for e in said.engine.expectations] == [
        ("example.org:443", True),
        ("absent.example:443", False),
    ]


def test_each_origin_is_judged_by_itself() -> None:
    """One that met it does not speak for another."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp(sni="other.example", server="198.51.100.2").connects(0.0)
    said = expected(network)
    assert {e.origin: e.met for e in said.engine.expectations} == {"example.org:443": True, "other.example:443": False}


def test_every_client_of_an_origin_counts() -> None:
    """Another host's HTTP/2 is an exchange with the origin too."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp(client="192.0.2.77").connects(0.0)
    assert not the(expected(network)).met


def _all_but_start(packet: Packet) -> bool:
    return packet.at > 0.03


def test_what_began_before_the_capture_is_not_known() -> None:
    """A connection of which the start is missing may have carried anything."""
    network = Network()
    quic = network.quic()
    quic.connects(0.0)
    quic.request(1.0)
    assert not the(expected(network, seen=_all_but_start)).met
    network = Network()
    network.quic().connects(5.0)
    network.tcp().connects(0.0)
    assert not the(expected(network, seen=lambda packet: packet.at > 0.03)).met


def test_lost_packets_leave_it_open() -> None:
    """Where packets are known to be missing, that no TCP was seen proves nothing."""
    network = Network()
    network.quic().connects(0.0)
    network.lost(0.5, 3)
    judged = the(expected(network))
    assert not judged.met
    assert "missing from the capture" in judged.reason
    network = Network()
    network.quic().connects(0.0)
    assert not the(expected(network, truncated=True)).met


def test_quic_that_is_not_http3() -> None:
    """A client that offers other protocols beside h3 may have got one of them."""
    network = Network()
    network.quic(alpn=("h3", "hq-interop")).connects(0.0)
    assert not the(expected(network)).met


def test_a_tunnel_is_not_http3() -> None:
    """What goes through CONNECT is TCP; of the version inside only an offer without a rival is certain."""
    for alpn, version, met in ((("h2", "http/1.1"), "HTTP/3", False), (("http/1.1",), "HTTP/1.1", True)):
        network = Network()
        client = network.tcp(server="192.0.2.99", port=3128, alpn=alpn)
        client.asks_proxy(0.0, "example.org:443")
        client.proxy_answers(0.1, 200)
        client.gets_ready(0.11)
        client.exchanges(0.2)
        judged = the(expected(network, version))  # type: ignore[arg-type]
        assert (judged.origin, judged.met) == ("example.org:443", met)


# -- of exchanges that were seen


def test_the_clients_word() -> None:
    """Each request is counted, and one that went otherwise is enough."""
    network = Network()
    tcp, quic = network.tcp(software=JDK), network.quic(software=JDK)
    quic.connects(0.0)
    network.told(0.1, quic, "HTTP/3")
    assert the(expected(network)).reason == "HTTP/3 for the one request."
    tcp.connects(1.0)
    network.told(1.1, tcp, "HTTP/2")
    judged = the(expected(network))
    assert not judged.met
    assert judged.reason == "Not HTTP/3 for 1 of 2 requests: 1 HTTP/2."
    assert judged.versions == {"HTTP/2": 1, "HTTP/3": 1}


def test_a_race_that_the_client_tells_of_is_known() -> None:
    """The loser of a race was made for nothing: its settings are no request."""
    network = Network()
    quic, tcp = network.quic(software=JDK), network.tcp(software=JDK)
    quic.connects(0.0)
    tcp.connects(0.02)
    network.told(0.2, quic, "HTTP/3")
    assert the(expected(network)).met


def test_tcp_beside_what_the_client_tells_of_leaves_it_open() -> None:
    """A connection that no race explains may be another program's, or carry what is not told."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.connects(0.0)
    network.told(0.2, quic, "HTTP/3")
    network.tcp(software=JDK).connects(20.0)
    judged = the(expected(network))
    assert not judged.met
    assert "cannot be told" in judged.reason


def test_a_request_that_failed_is_not_as_expected() -> None:
    """No response is not the response expected."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.connects(0.0)
    network.told(0.1, quic, "HTTP/3")
    network.told(0.2, quic, None, scid=quic.client_scid)
    judged = the(expected(network))
    assert not judged.met
    assert judged.reason == "Not HTTP/3 for 1 of 2 requests: 1 got no response."


def test_a_version_that_is_not_known_is_not_as_expected() -> None:
    """Null is never taken for what somebody hopes."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.connects(0.0)
    network.told(0.1, quic, "HTTP/3")
    network.told(0.2, None, None, status=200, local_port=quic.client_end.port, scid=quic.client_scid)
    judged = the(expected(network))
    assert not judged.met
    assert "of a version that is not known" in judged.reason


def test_an_exchange_that_leads_to_no_connection_counts() -> None:
    """What the log tells of, and the capture does not hold, is an exchange all the same."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.connects(0.0)
    network.told(0.1, quic, "HTTP/3")
    network.told(0.2, None, "HTTP/2", local_port=9)
    assert not the(expected(network)).met
    network.told(0.3, None, "HTTP/3", local_port=9, origin="https://elsewhere.example:443")
    assert {e.origin: e.met for e in expected(network).engine.expectations} == {
        "example.org:443": False,
        "elsewhere.example:443": True,
    }


@pytest.mark.parametrize(("known_from", "last", "met"), [
    ("decrypted", 3.0, False),
    ("decrypted", 0.05, True),
    ("client-log", 3.0, True),
])  # fmt: skip
def test_a_request_may_have_failed_with_an_attempt(
    known_from: Literal["client-log", "decrypted"], last: float, *, met: bool
) -> None:
    """Who decrypts sees no request that joined a QUIC attempt and failed with it; the client's log tells of it."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, last)
    tcp = network.tcp()
    tcp.connects(0.01)
    network.bystander(20.0)
    network.told(0.1, tcp, "HTTP/2", known_from=known_from)
    judged = the(expected(network, "HTTP/2"))
    assert judged.met is met
    assert judged.versions == {"HTTP/2": 1}
    if not met:
        assert judged.reason.endswith("and failed with it, cannot be told.")


def test_a_request_may_have_failed_with_an_attempt_unseen() -> None:
    """Nor do packets alone show it, where nothing but HTTP/2 was offered over TCP."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    network.tcp(alpn=("h2",)).connects(0.01)
    network.bystander(20.0)
    assert not the(expected(network, "HTTP/2")).met


def test_an_alternatives_port_has_no_exchange_of_its_own() -> None:
    """What decrypted traffic tells of it is counted at the origin's, and there is a reason for both."""
    network = Network()
    tcp, quic = network.tcp(), network.quic(port=8443)
    tcp.connects(0.0)
    quic.connects(1.0)
    network.told(0.1, tcp, "HTTP/2", known_from="decrypted")
    network.told(1.1, quic, "HTTP/3", known_from="decrypted")
    judged = {each.origin: each for each in expected(network).engine.expectations}
    assert judged["example.org:443"].versions == {"HTTP/2": 1, "HTTP/3": 1}
    assert not judged["example.org:443"].met
    assert judged["example.org:8443"].reason


def test_what_went_past_the_proxy_is_open() -> None:
    """A proxy's word is about what it passed on: QUIC beside it carried nobody knows what."""
    network = Network()
    client = network.tcp(server="127.0.0.1", port=8899, software=CHROMIUM)
    client.asks_proxy(0.0, "example.org:443")
    client.proxy_answers(0.01, 200)
    client.gets_ready(0.02)
    client.exchanges(0.1)
    proxy = network.proxy()
    tunnel = proxy.asked(0.0, client)
    proxy.answered(0.01, tunnel)
    proxy.exchange(0.1, client, "HTTP/2", intercepted=True)
    judged = the(expected(network, "HTTP/2"))
    assert judged.met
    assert judged.reason == "HTTP/2 for the one request."
    other = network.tcp(server="127.0.0.1", port=8899, software=CHROMIUM)
    other.asks_proxy(1.0, "example.org:443")
    other.proxy_answers(1.01, 200)
    other.gets_ready(1.02)
    other.exchanges(1.1)
    assert not the(expected(network, "HTTP/2")).met


def through_the_proxy(network: Network, *, terminated: bool) -> None:
    """A race at a reverse proxy: HTTP/3 for the request, and a TCP connection that was ready and carried none."""
    quic, tcp = network.quic(), network.tcp()
    quic.connects(0.0)
    tcp.connects(0.02)
    proxy = network.proxy()
    for connection in (quic, tcp):
        proxy.hello(0.03, connection)
    proxy.exchange(0.1, quic, "HTTP/3", intercepted=True)
    proxy.ended(1.0, tcp, terminated=terminated)


def test_tcp_that_lost_a_race_at_the_proxy_carried_none() -> None:
    """Where TLS was terminated every exchange is reported: there was none on it, and the rest was HTTP/3."""
    network = Network()
    through_the_proxy(network, terminated=True)
    judged = the(expected(network))
    assert (judged.met, judged.reason) == (True, "HTTP/3 for the one request.")


def test_tcp_that_passed_the_proxy_untouched_leaves_it_open() -> None:
    """What it carried nobody saw."""
    network = Network()
    through_the_proxy(network, terminated=False)
    judged = the(expected(network))
    assert not judged.met
    assert "cannot be told" in judged.reason


@pytest.mark.parametrize("missed", [True, False])
@pytest.mark.parametrize("laid_open", [True, False])
@pytest.mark.parametrize("over", ["tcp", "quic"])
def test_what_was_decrypted_carried_what_it_carried(over: str, *, laid_open: bool, missed: bool) -> None:
    """A connection that was read whole is known to have carried nothing; one with a request unread carried that."""
    network = Network()
    quic, other = network.quic(), network.tcp() if over == "tcp" else network.quic()
    quic.connects(0.0)
    other.connects(1.02)
    network.told(0.1, quic, "HTTP/3", known_from="decrypted", scid=quic.client_scid)
    engine = network.explain(expects="HTTP/3").engine
    (conclusion,) = [conclude(story) for story in engine.stories()]
    carrier = conclusion.story.connections[1]
    carrier.laid_open, conclusion.story.quic[0].missed = laid_open, missed
    weighing = Weighing()
    weighing.add(conclusion)
    (judged,) = judge(weighing, Counter({Account("example.org:443", "HTTP/3", answered=True): 1}), "HTTP/3")
    assert judged.met is (laid_open and not missed)


def test_the_order_of_origins_is_the_one_of_their_stories() -> None:
    """What came first is told first."""
    network = Network()
    for index in range(3):
        network.quic(sni=f"h{index}.example", server=f"198.51.100.{index + 1}").connects(index * 1.0)
    assert [e.origin for e in expected(network).engine.expectations] == [f"h{i}.example:443" for i in range(3)]


def test_a_name_from_the_network_is_harmless() -> None:
    """A control character in a name does not come out as one."""
    network = Network()
    network.quic(sni="bad\x1b[31m.example").connects(0.0)
    judged = the(expected(network))
    assert "\x1b" not in (judged.origin or "") + judged.reason


@pytest.mark.parametrize(("version", "met"), [("HTTP/1.1", True), ("HTTP/3", False)])
def test_http_in_the_clear_counts(version: HttpVersion, *, met: bool) -> None:
    """What stands there for all to read is an exchange like another."""
    network = Network()
    tcp = network.tcp(port=80)
    tcp.syn(0.0)
    tcp.accepts(0.02)
    tcp.segment(0.03, "client", ACK, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    tcp.segment(0.05, "server", ACK, b"HTTP/1.1 200 OK\r\n\r\n" + bytes(100))
    network.dns(0.0, "other.example", "203.0.113.9")
    assert the(expected(network, version)).met is met


def test_an_address_that_nobody_answers_does_not_count() -> None:
    """Of a name with two families only one need be reached: SYNs to the other one were no request."""
    network = Network()
    dead = network.tcp(client=CLIENT6, server=SERVER6)
    dead.syn(0.0)
    for at in (1.0, 3.0):
        dead.syn_again(at)
    network.quic().connects(0.2)
    network.bystander(9.0)
    said = expected(network)
    assert the(said).met
    assert len(said.verdicts) == 2
