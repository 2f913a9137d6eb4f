from __future__ import annotations

import pytest

from h3probe.engine import Engine
from h3probe.events import Frame
from h3probe.records import FindingRecord, VerdictRecord
from h3probe.wire.quic.versions import V2
from tests.diagnose.scenario import CHROMIUM, CLIENT, JDK, ROUTER, SERVER, Network, Packet, Quic, Tcp, explain

PROXY = "192.0.2.3"


def test_the_good_case_is_told() -> None:
    """HTTP/3 from the first request is a verdict too, without a finding."""
    network = Network()
    network.quic().connects(0.0)
    explained = network.explain()
    assert explained.sentence.startswith("HTTP/3 from the first request, ready after 21 ms")
    assert explained.verdicts[0].rules == []
    assert explained.verdicts[0].versions is None
    assert explained.verdicts[0].origin == "example.org:443"
    assert explained.verdicts[0].client == CLIENT


def test_names_that_only_tcp_tells_keep_quic_from_being_the_first() -> None:
    """QUIC that names no origin, beside TCP to the same address for two, is not said to be alone."""
    network = Network()
    network.tcp(sni="one.example").connects(0.0)
    network.tcp(sni="two.example").connects(0.1)
    network.quic(sni=None).connects(0.2)
    (told,) = [verdict.sentence for verdict in network.explain().verdicts if verdict.sentence.startswith("HTTP/3")]
    assert "from the first request" not in told
    assert told.endswith("TCP to the same address is for names, which no QUIC packet tells here.")


def test_what_a_snaplen_cut_of_tcp_is_not_judged() -> None:
    """TCP whose hellos were cut may have got ready: nothing is said of its failure, and QUIC is not the first."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic().connects(0.1)
    frames = [event for event in network.events() if isinstance(event, Frame)]
    told = explain(Frame(f.number, f.time_ns, f.link_type, f.data[:100], f.length) for f in frames).sentence
    assert "from the first request" not in told
    assert "did not get ready" not in told


def test_a_retry_does_not_spoil_the_good_case() -> None:
    """A server that wants the address proven costs a round trip, no more."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.retry(0.02)
    quic.initial(0.021)
    quic.completes(0.04)
    explained = network.explain()
    assert explained.sentence.startswith("HTTP/3 from the first request, ready after 41 ms")
    assert explained.findings == []


def test_a_connection_that_is_used_again_is_one_story() -> None:
    """Request after request on one connection changes nothing."""
    network = Network()
    quic = network.quic(version=V2)
    quic.connects(0.0)
    for at in range(1, 30):
        quic.request(float(at))
        quic.response(at + 0.02)
    assert network.explain().sentence.startswith("HTTP/3 from the first request")


def test_another_protocol_over_quic_is_not_called_http3() -> None:
    """What was offered is named where it is not h3."""
    network = Network()
    network.quic(alpn=("smb",)).connects(0.0)
    assert "HTTP/3" not in network.explain().sentence
    assert "smb" in network.explain().sentence


def test_tcp_alone_says_that_no_quic_was_sent() -> None:
    """A client without HTTP/3, and what its handshake tells of the version."""
    network = Network()
    network.tcp().connects(0.0)
    network.bystander(0.5)
    assert network.explain().sentence == "HTTP/2 or HTTP/1.1: no QUIC packet was sent to this origin."


def test_a_capture_without_any_udp_may_have_left_it_out() -> None:
    """A filter of TCP alone hides QUIC: the claim says how far it reaches."""
    network = Network()
    network.tcp().connects(0.0)
    assert network.explain().sentence.endswith("as far as a capture without any UDP can show.")


def test_a_capture_that_lost_packets_shows_no_absence() -> None:
    """That no QUIC was sent is said with its limits, where packets were lost."""
    network = Network()
    network.quic(sni="other.example", server="198.51.100.9").connects(0.0)
    network.tcp().connects(1.0)
    assert "HTTP/2 or HTTP/1.1: no QUIC packet was sent to this origin." in [
        v.sentence for v in network.explain().verdicts
    ]
    network.lost(2.0, 3)
    sentences = [verdict.sentence for verdict in network.explain().verdicts]
    assert any(s.endswith("to this origin, as far as a capture that lost packets can show.") for s in sentences)


@pytest.mark.parametrize(("chosen", "name"), [("h2", "HTTP/2"), ("http/1.1", "HTTP/1.1")])
def test_tls_1_2_tells_the_version(chosen: str, name: str) -> None:
    """The server's choice stands in the clear in TLS 1.2."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.02)
    tcp.hello(0.03)
    tcp.server_flight_12(0.05, chosen)
    tcp.exchanges(0.06)
    explained = network.explain()
    assert explained.sentence.startswith(f"{name}: ")
    assert explained.tcp[0].alpn_chosen == chosen


def test_quic_that_names_no_host_may_be_the_origins() -> None:
    """Two names live at one address, and a QUIC connection to it names neither: none of them had no QUIC for sure."""
    network = Network()
    network.tcp(sni="one.example").connects(0.0)
    network.tcp(sni="two.example").connects(1.0)
    network.quic(sni=None).connects(2.0)
    sentences = {verdict.origin: verdict.sentence for verdict in network.explain().verdicts}
    assert "no QUIC packet was sent to this origin" not in sentences["one.example:443"]
    assert "no QUIC packet was sent to this origin" not in sentences["two.example:443"]
    assert sentences["198.51.100.1:443"].startswith("HTTP/3")


def test_quic_from_before_the_capture_is_quic() -> None:
    """A capture that starts while requests go over QUIC, and sees a new TCP connection, cannot say there was none."""
    network = Network()
    quic = network.quic()
    quic.connects(0.0)
    for at in range(10, 20):
        quic.request(float(at))
        quic.response(at + 0.02)
    network.tcp().connects(15.0)
    sentence = network.explain(seen=lambda packet: packet.at > 1.0).sentence
    assert "no QUIC packet was sent" not in sentence


def test_a_fallback_names_wait_and_reason() -> None:
    """TCP after a wait for QUIC."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    network.tcp(software=JDK).connects(2.78)
    sentence = network.explain().sentence
    assert sentence.startswith("HTTP/2 or HTTP/1.1, not HTTP/3")
    assert "2.78 s" in sentence
    assert "not answered" in sentence


def test_http2_then_http3() -> None:
    """A client that learned of HTTP/3 from the first response."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic().connects(0.2)
    assert network.explain().sentence.startswith("HTTP/2 or HTTP/1.1 first, then HTTP/3")


@pytest.mark.parametrize(("ends", "words"), [(None, "and HTTP/3 beside it"), (0.15, "first, then HTTP/3")])
def test_a_connection_that_may_be_for_nothing_claims_no_request(ends: float | None, words: str) -> None:
    """Chromium opens QUIC beside TCP that it uses: that requests went over it is said only where TCP was gone."""
    network = Network()
    tcp = network.tcp(software=CHROMIUM)
    tcp.connects(0.0)
    if ends is not None:
        tcp.fin(ends)
    network.quic(software=CHROMIUM).connects(0.2)
    assert words in network.explain().sentence


def test_http3_then_tcp_claims_no_request_on_it() -> None:
    """A TCP connection that got ready and carried nothing is not said to have carried."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().opens(1.0)
    sentence = network.explain().sentence
    assert sentence.startswith("HTTP/3 first")
    assert "carried" not in sentence


def test_a_race_without_a_known_winner_says_so() -> None:
    """Both ready: who carried is encrypted, and the vantage point that settles it is named."""
    network = Network()
    network.quic().connects(0.0, rtt=0.1)
    network.tcp().connects(0.01)
    sentence = network.explain().sentence
    assert "TCP was ready" in sentence
    assert "encrypted" in sentence
    assert "log" in sentence


def test_a_race_that_quic_won_is_told() -> None:
    """TCP was refused, QUIC carried."""
    network = Network()
    network.quic().connects(0.0)
    tcp = network.tcp(sni=None)
    tcp.syn(0.001)
    tcp.refuse(0.002)
    assert network.explain().sentence.startswith("HTTP/3 won the race")


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


def test_what_failed_before_it_is_told() -> None:
    """HTTP/3 at the second address, after the first one's refusal."""
    network = Network()
    quic = network.quic(server="198.51.100.7")
    quic.initial(0.0)
    quic.unreachable(0.01)
    network.quic().connects(0.1)
    sentence = network.explain().sentence
    assert "198.51.100.7:443 before it" in sentence
    assert "from the first request" not in sentence


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


@pytest.mark.parametrize("how", ["refused", "before"])
def test_tcp_that_was_seen_is_not_denied(how: str) -> None:
    """HTTP/3 beside a TCP connection that was refused, or had begun before the capture: TCP was seen."""
    network = Network()
    tcp = network.tcp()
    if how == "refused":
        tcp.syn(5.0)
        tcp.refuse(5.01)
    else:
        tcp.connects(-10.0)
        tcp.exchanges(5.0)
    network.quic().connects(0.0)
    sentence = network.explain(seen=lambda packet: packet.at >= 0).sentence
    assert sentence.startswith("HTTP/3")
    assert "no TCP was" not in sentence
    assert "from the first request" not in sentence or how == "refused"


def test_no_connection_at_all() -> None:
    """Neither way led anywhere."""
    network = Network()
    quic, tcp = network.quic(), network.tcp(sni=None)
    quic.initial(0.0)
    quic.unreachable(0.01, code=(3, 13), sender=ROUTER)
    tcp.syn(0.02)
    tcp.refuse(0.03)
    sentence = network.explain().sentence
    assert sentence.startswith("No connection")
    assert "TCP was refused" in sentence


def test_a_connection_from_before_the_capture_may_carry() -> None:
    """QUIC failed beside a TCP connection that the capture found under way: that is no `No connection`."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(-10.0)
    tcp.exchanges(3.5)
    network.quic().initials(0.0, 1.0, 3.0)
    sentence = network.explain(seen=lambda packet: packet.at >= 0).sentence
    assert not sentence.startswith("No connection")


def test_quic_from_before_the_capture_is_not_denied() -> None:
    """A QUIC connection under way and a TCP connection that is new: what went over which is not known."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(1.0)
    sentence = network.explain(seen=lambda packet: packet.at > 0.020_05).sentence
    assert "not HTTP/3" not in sentence
    assert "cannot be told" in sentence


def test_a_pending_race_is_no_failure() -> None:
    """A capture that ends while both are being tried does not claim that there was no connection."""
    network = Network()
    network.quic().initial(0.0)
    network.tcp().syn(0.1)
    assert not network.explain().sentence.startswith("No connection")


def test_only_a_refused_tcp() -> None:
    """A server that is not there."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.refuse(0.01)
    explained = network.explain()
    assert explained.sentence == "No connection is seen: TCP was refused, and the capture holds no UDP at all."
    network.bystander(0.5)
    assert network.explain().sentence == "No connection: TCP was refused, and no QUIC packet was sent."


def test_a_failed_tls_handshake_is_no_connection() -> None:
    """An alert, and the end."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.hello(0.02)
    tcp.alert(0.03, 40)
    tcp.fin(0.04, "server")
    assert network.explain().sentence.startswith("No connection")


def test_quic_from_before_the_capture_is_told_as_that() -> None:
    """A handshake whose beginning is missing."""
    network = Network()
    network.quic().connects(0.0)

    def late(packet: Packet) -> bool:
        return packet.at > 0.020_05

    sentence = network.explain(seen=late).sentence
    assert "before the capture began" in sentence


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_attempt_without_an_end_is_left_open(*, goes_on: bool) -> None:
    """One Initial, and nothing more: neither a failure nor, when the capture goes on, its end."""
    network = Network()
    network.quic().initial(0.0)
    if goes_on:
        network.bystander(100.0)
    sentence = network.explain().sentence
    assert "capture ends" not in sentence
    assert not sentence.startswith("No connection")


def through(network: Network, target: str = "example.org:443") -> Tcp:
    """A connection to a proxy, and CONNECT on it."""
    tcp = network.tcp(server=PROXY, port=8888)
    tcp.asks_proxy(0.0, target)
    return tcp


def test_a_proxy_that_does_not_answer() -> None:
    """A CONNECT without an answer is no connection."""
    network = Network()
    through(network)
    assert network.explain().sentence == (
        f"CONNECT example.org:443 was asked of the proxy {PROXY}:8888; its answer is not in the capture."
    )


@pytest.mark.parametrize("status", [403, 407, 418, 502, 503, 504])
def test_a_proxy_that_declines(status: int) -> None:
    """The proxy's answer is quoted with its number."""
    network = Network()
    through(network).proxy_answers(0.1, status)
    assert f"answered {status} to CONNECT" in network.explain().sentence


def test_hostile_names_are_harmless() -> None:
    """A name with control characters reaches no terminal as they are."""
    network = Network()
    network.quic(sni="a\x1b[2Jb.example").connects(0.0)
    (verdict,) = network.explain().verdicts
    assert verdict.origin is not None
    assert verdict.origin.isprintable()


def test_dns_alone_has_no_verdict() -> None:
    """A name that was looked up and not gone to."""
    network = Network()
    network.dns(0.0, "example.org", SERVER)
    network.https_record(0.001, "example.org", "h3", "h2")
    explained = network.explain()
    assert explained.verdicts == []
    assert [record.type for record in explained.records] == ["capture", "dns", "summary"]


@pytest.mark.parametrize("port", [22, 25, 853, 5432])
def test_other_protocols_have_no_verdict(port: int) -> None:
    """A mail or database server is nobody's HTTP."""
    network = Network()
    network.tcp(port=port, alpn=()).connects(0.0)
    assert network.explain().verdicts == []


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


@pytest.mark.parametrize(("answered", "words"), [(True, "was not ready"), (False, "had got no answer")])
def test_quic_that_was_still_pending_is_told_as_that(words: str, *, answered: bool) -> None:
    """What TCP overtook had not failed: it was not answered yet, or not ready yet."""
    network = Network()
    quic, tcp = network.quic(), network.tcp()
    quic.initial(0.0)
    if answered:
        quic.answers(0.1)
    tcp.connects(0.01)
    tcp.fin(0.2)
    assert words in network.explain().sentence


def test_quic_to_another_port_is_named() -> None:
    """An alternative on another port is another origin's story, and is pointed to."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic(port=8443).connects(1.0)
    network.quic(port=9443, sni="other.example").connects(2.0)
    sentences = {verdict.origin: verdict.sentence for verdict in network.explain().verdicts}
    assert sentences["example.org:443"].endswith("went to port 8443.")


def test_one_refusal_of_two_is_not_all_of_tcp() -> None:
    """TCP was refused at one address and reset at the other: that is not `TCP was refused`."""
    network = Network()
    one, two = network.tcp(sni=None), network.tcp()
    one.syn(0.0)
    one.refuse(0.01)
    two.syn(0.1)
    two.accepts(0.11)
    two.hello(0.12)
    two.rst(0.13)
    network.bystander(0.5)
    assert network.explain().sentence.startswith("No connection: TCP ended before it was ready")


# What a proxy reports


def reported(network: Network, *, server: str = "127.0.0.1", port: int = 8899) -> Tcp:
    """A tunnel that the proxy reports, and whose packets are not seen."""
    tcp = network.tcp(server=server, port=port)
    network.proxy().carries(tcp, 0.0)
    return tcp


def test_the_version_at_the_proxy_is_the_verdicts() -> None:
    """Where exchanges are seen, what the handshake leaves open is known."""
    network = Network()
    tcp = reported(network)
    network.proxy().exchange(0.2, tcp)
    network.proxy().exchange(0.3, tcp)
    explained = network.explain()
    assert explained.sentence.startswith("HTTP/2, through a CONNECT tunnel of the proxy 127.0.0.1:8899")
    assert explained.verdict.versions == {"HTTP/2": 2}
    assert "with HTTP/2:" in explained.the("proxy-downgrade").summary


def test_without_exchanges_the_version_is_not_known() -> None:
    """A tunnel that nobody opens leaves `versions` null, and says what the client offered."""
    network = Network()
    reported(network)
    explained = network.explain()
    assert explained.verdict.versions is None
    assert explained.sentence.startswith("HTTP/2 or HTTP/1.1, through a CONNECT tunnel")


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        (["HTTP/2"], "HTTP/2 for the one request, seen at the proxy."),
        (["HTTP/3", "HTTP/3", "HTTP/3"], "HTTP/3 for all 3 requests, seen at the proxy."),
        (["HTTP/2", "HTTP/3", "HTTP/3"], "HTTP/2 for the first request, then HTTP/3 for 2, seen at the proxy."),
        (["HTTP/2", "HTTP/3", "HTTP/2"], "HTTP/2 for the first request, then HTTP/3 for 1 and HTTP/2 for 1"),
    ],
)
def test_a_reverse_proxy_sees_every_exchange(versions: list[str], sentence: str) -> None:
    """The first request's version, and what came after it; counted in `versions`."""
    network = Network()
    proxy = network.proxy()
    tcp, quic = network.tcp(server="127.0.0.1", port=8443), network.quic(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.hello(0.01, quic)
    for number, version in enumerate(versions):
        proxy.exchange(0.1 + number, quic if version == "HTTP/3" else tcp, version)
    explained = network.explain()
    assert explained.sentence.startswith(sentence)
    assert explained.verdict.versions == {version: versions.count(version) for version in sorted(set(versions))}


def test_a_request_without_a_response_used_no_version() -> None:
    """It counts for nothing in `versions`, and the sentence does not hide it."""
    network = Network()
    proxy = network.proxy()
    tcp, quic = network.tcp(server="127.0.0.1", port=8443), network.quic(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.hello(0.01, quic)
    proxy.exchange(0.1, quic, "HTTP/3", status=None)
    proxy.exchange(0.3, tcp)
    explained = network.explain()
    assert explained.verdict.versions == {"HTTP/2": 1}
    text = "HTTP/2 for the one request that was answered, seen at the proxy; 1 request got no response."
    assert explained.sentence.startswith(text)


def test_no_response_at_all_is_no_version() -> None:
    """Exchanges that all failed say nothing of versions."""
    network = Network()
    tcp = network.tcp(server="127.0.0.1", port=8443)
    network.proxy().hello(0.0, tcp)
    network.proxy().exchange(0.1, tcp, status=None)
    assert network.explain().verdict.versions is None


NOTICE = "TLS was intercepted to see this"


@pytest.mark.parametrize("intercepted", [True, False])
def test_a_verdict_that_rests_on_interception_says_so(*, intercepted: bool) -> None:
    """Interception changes what browsers do; without it there is nothing to say."""
    network = Network()
    tcp = reported(network)
    network.proxy().exchange(0.2, tcp, intercepted=intercepted)
    assert (NOTICE in network.explain().sentence) is intercepted


def test_interception_of_another_client_is_not_this_verdicts() -> None:
    """Each verdict rests on its own exchanges."""
    network = Network()
    tcp = reported(network)
    other = network.tcp(client="192.0.2.77", server="127.0.0.1", port=8899)
    network.proxy().carries(other, 0.1)
    network.proxy().exchange(0.2, tcp, intercepted=True)
    sentences = {verdict.client: verdict.sentence for verdict in network.explain().verdicts}
    assert NOTICE in sentences[CLIENT]
    assert NOTICE not in sentences["192.0.2.77"]


def test_a_version_from_a_file_is_made_harmless() -> None:
    """A file of events may come from anyone."""
    network = Network()
    tcp = network.tcp(server="127.0.0.1", port=8443)
    network.proxy().hello(0.0, tcp)
    network.proxy().exchange(0.1, tcp, "HTTP/\x1b[31m")
    explained = network.explain()
    assert explained.sentence.isprintable()
    assert all(version.isprintable() for version in explained.verdict.versions or ())


def test_without_packets_nothing_is_said_of_quic() -> None:
    """A proxy alone does not see what goes past it."""
    network = Network()
    reported(network)
    engine = Engine("proxy", "events", vantage="proxy")
    records = [record for event in network.events() for record in engine.feed(event)] + engine.finish()
    sentences = [r.sentence for r in records if isinstance(r, VerdictRecord)]
    summaries = [r.summary for r in records if isinstance(r, FindingRecord)]
    assert len(sentences) == len(summaries) == 1
    assert not any("no QUIC packet left" in text for text in (*sentences, *summaries))


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (1, "HTTP/2 for the one request over TCP, seen at the proxy."),
        (2, "HTTP/2 for both requests over TCP, seen at the proxy."),
    ],
)
def test_quic_past_a_transparent_proxy(count: int, sentence: str) -> None:
    """What QUIC carried is in nobody's count, and the sentence says so; no tunnel was asked for."""
    network = Network()
    proxy, tcp, quic = network.proxy(), network.tcp(), network.quic()
    proxy.ready("transparent")
    tcp.connects(0.0)
    proxy.hello(0.02, tcp)
    for number in range(count):
        proxy.exchange(0.1 + number / 10, tcp, intercepted=True)
    quic.connects(0.5)
    explained = network.explain()
    past = " QUIC went past the proxy: what it carried is not counted."
    assert explained.sentence.startswith(sentence + past + " TLS over TCP was intercepted to see this, QUIC was not;")
    assert explained.verdict.versions is None
    assert [exchange.known_from for exchange in explained.exchanges] == ["proxy"] * count
    assert {exchange.connection for exchange in explained.exchanges} == {"tcp-1"}
    assert explained.tunnels == []
    assert "proxy-downgrade" not in explained.rules


def at_the_proxy(network: Network) -> str:
    """The one verdict of a proxy that is all that is seen."""
    engine = Engine("proxy", "events", vantage="proxy")
    records = [record for event in network.events() for record in engine.feed(event)] + engine.finish()
    (sentence,) = [record.sentence for record in records if isinstance(record, VerdictRecord)]
    return sentence


@pytest.mark.parametrize(
    ("transports", "names"),
    [("t", "HTTP/2 or HTTP/1.1"), ("q", "HTTP/3"), ("tq", "HTTP/3 and HTTP/2 or HTTP/1.1")],
)
def test_tls_that_passes_a_reverse_proxy_untouched(transports: str, names: str) -> None:
    """What was offered is known, what it carried is not, and no capture is spoken of where there is none."""
    network = Network()
    proxy = network.proxy()
    tcp, quic = network.tcp(server="127.0.0.1", port=8443), network.quic(server="127.0.0.1", port=8443)
    if "t" in transports:
        proxy.hello(0.0, tcp)
        proxy.ended(1.0, tcp, after_hello=400)
    if "q" in transports:
        proxy.hello(0.0, quic)
        proxy.ended(1.0, quic, closed_by="idle")
    what = "was offered in TLS that passed the proxy untouched: what it carried is not seen there."
    assert at_the_proxy(network) == f"{names} {what}"


def test_a_reverse_proxy_whose_server_is_down() -> None:
    """Why there was no connection, with the address that was tried."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.unreached(0.01, tcp, "localhost:443")
    proxy.ended(0.02, tcp, received=0, closed_by="proxy", after_hello=0)
    assert at_the_proxy(network) == "No connection: the proxy could not connect to localhost:443 (connection refused)."


def test_tls_that_fails_at_a_reverse_proxy() -> None:
    """A handshake that the client did not finish carried nothing."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.ended(0.1, tcp, after_hello=30)
    assert at_the_proxy(network).startswith("No connection: TLS ended before it was ready")


def test_a_certificate_that_is_refused_at_a_reverse_proxy() -> None:
    """The reason is known there."""
    network = Network()
    proxy, quic = network.proxy(), network.quic(server="127.0.0.1", port=8443)
    proxy.hello(0.0, quic)
    proxy.rejected(0.1, quic)
    assert at_the_proxy(network) == "No request: the client does not take the proxy's certificate."


@pytest.mark.parametrize("again", [True, False])
def test_a_certificate_that_is_refused_after_the_handshake(*, again: bool) -> None:
    """Packets show TLS that got ready, and the client left: only what it then got past the interception counts."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    tcp.connects(0.0)
    tcp.fin(0.1)
    proxy.hello(0.03, tcp)
    proxy.rejected(0.2, tcp, None)
    if again:
        network.tcp(server="127.0.0.1", port=8443).connects(1.0)
    sentence = network.explain().sentence
    assert sentence.startswith("HTTP/2 or HTTP/1.1: no QUIC" if again else "No request: the client does not take")


def test_a_reverse_proxy_that_gets_no_response() -> None:
    """Requests that came to nothing are told with the reason of the first."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.exchange(0.1, tcp, status=None, error="Client disconnected.")
    proxy.exchange(0.2, tcp, status=None)
    assert at_the_proxy(network) == "No response to any of 2 requests, seen at the proxy: Client disconnected."


def test_requests_in_the_clear_need_https_for_http3() -> None:
    """Their version is known, and why it is not HTTP/3."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.plain(0.0, tcp)
    proxy.exchange(0.0, tcp, "HTTP/1.1", origin="http://example.org:80")
    assert at_the_proxy(network).endswith("proxy. That is http://, in the clear; HTTP/3 needs https://.")


def test_an_error_to_a_request_in_the_clear_may_be_a_proxys() -> None:
    """Who answered 403 nobody can tell, and that it was 403 is not kept back."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    for at in (0.0, 1.0):
        proxy.exchange(at, tcp, "HTTP/1.1", status=403, origin="http://example.org:80")
    proxy.plain(0.0, tcp)
    assert " The answer was 403, the server's or that of a proxy before it. " in at_the_proxy(network)


def told_race(network: Network) -> tuple[Quic, Tcp]:
    """A race in which QUIC was ready first and both carried something."""
    quic, tcp = network.quic(software=JDK), network.tcp(software=JDK)
    quic.connects(0.0)
    tcp.connects(0.01, rtt=0.1)
    quic.request(1.0)
    quic.response(1.01)
    return quic, tcp


def test_the_clients_own_log() -> None:
    """The versions are counted, and that the race's winner was not used is said."""
    network = Network()
    quic, tcp = told_race(network)
    network.told(0.5, tcp)
    network.told(1.0, quic, "HTTP/3")
    network.told(1.0, quic, "HTTP/3")
    verdict = network.explain().verdict
    assert verdict.versions == {"HTTP/2": 1, "HTTP/3": 2}
    assert verdict.sentence.startswith("HTTP/2 for the first request, then HTTP/3 for 2, by the client's own log. ")
    assert verdict.sentence.endswith("did not carry the first request: the client lost that race, not the network.")


def test_what_failed_by_the_clients_own_log() -> None:
    """Requests without a response are counted apart, in the client's own words."""
    network = Network()
    _, tcp = told_race(network)
    network.told(0.5, tcp)
    for error in ("java.io.IOException: \x1b", "a second", "a second"):
        network.told(0.6, None, None, error=error)
    verdict = network.explain().verdict
    assert verdict.versions == {"HTTP/2": 1}
    assert "3 requests got no response (java.io.IOException: \\x1b; a second)" in verdict.sentence


def test_nothing_but_failures() -> None:
    """What the wire shows comes first, then what the client says of it."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0, 3.0)
    network.told(4.0, quic, None, error="No response from peer")
    verdict = network.explain().verdict
    assert verdict.versions is None
    assert verdict.sentence.startswith("No connection")
    assert verdict.sentence.endswith("No response to 1 request, by the client's own log (No response from peer).")
