from __future__ import annotations

from dataclasses import replace

import pytest

from h3probe.wire.quic.versions import V2
from tests.diagnose.scenario import CHROMIUM, CLIENT, FIREFOX, JDK, Network
from tests.wire import quic_builder as packets


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


def test_quic_to_another_port_is_named() -> None:
    """An alternative on another port is another origin's story, and is pointed to."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic(port=8443).connects(1.0)
    network.quic(port=9443, sni="other.example").connects(2.0)
    sentences = {verdict.origin: verdict.sentence for verdict in network.explain().verdicts}
    assert sentences["example.org:443"].endswith("went to port 8443.")


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


def test_quic_from_before_the_capture_is_not_denied() -> None:
    """A QUIC connection under way and a TCP connection that is new: what went over which is not known."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(1.0)
    sentence = network.explain(seen=lambda packet: packet.at > 0.020_05).sentence
    assert "not HTTP/3" not in sentence
    assert "cannot be told" in sentence


def test_quic_beside_tcp_on_which_nothing_was_asked() -> None:
    """A TCP connection that was given up at once carried nothing beside HTTP/3."""
    network = Network()
    network.quic().connects(0.0)
    tcp = network.tcp()
    tcp.opens(2.0)
    tcp.fin(2.2)
    sentence = network.explain().sentence
    assert sentence.startswith("HTTP/3 ")
    assert sentence.endswith("TCP was closed with nothing asked on it.")


def test_firefox_makes_quic_before_it_needs_it() -> None:
    """After an Alt-Svc record it opens QUIC beside TCP, also where one of its TCP connections is gone by then."""
    network = Network()
    spare, tcp = network.tcp(software=FIREFOX), network.tcp(software=FIREFOX)
    spare.connects(0.0)
    spare.fin(0.1)
    tcp.connects(0.01)
    network.quic(software=FIREFOX).connects(0.2)
    assert "and HTTP/3 beside it" in network.explain().sentence


def test_an_attempt_that_failed_after_quic_had_worked() -> None:
    """An outage later on is told, where no TCP took over."""
    network = Network()
    network.tcp(sni="other.example", server="198.51.100.7").connects(0.0)
    quic = network.quic()
    quic.connects(0.0)
    quic.again()
    quic.initials(40.0, 41.0, 43.0, 47.0)
    sentence = next(v.sentence for v in network.explain().verdicts if v.origin == "example.org:443")
    assert sentence.startswith("HTTP/3 from the first request")
    assert sentence.endswith(" A later attempt failed: QUIC was not answered (4 Initials over 7.00 s).")


def test_a_servers_other_port_is_not_the_first() -> None:
    """QUIC at the port of an Alt-Svc record comes after TCP for the same name, which was seen."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic(port=8443).connects(1.0)
    sentence = next(v.sentence for v in network.explain().verdicts if v.origin == "example.org:8443")
    assert sentence == "HTTP/3, ready after 21 ms; TCP for the same name went to port 443."


def test_tls_that_carried_nothing_is_told_as_that() -> None:
    """A server that sent nothing after its handshake has answered no request."""
    network = Network()
    network.tcp().opens(0.0)
    assert network.explain().sentence.endswith(" Too little followed to tell whether a request was answered.")


def test_0_rtt_data_may_be_the_request() -> None:
    """TCP that is ready first is not alone in having carried something by then."""
    network = Network()
    quic = network.quic(psk=True)
    quic.initial(0.0)
    early = packets.opaque("zero-rtt", bytes(400), dcid=quic.dcid, scid=quic.client_scid)
    quic.datagram(0.000_1, "client", early)
    network.tcp().connects(0.005)
    quic.completes(0.1)
    assert network.explain().sentence.endswith("QUIC had sent 0-RTT data by then, which may have been the request.")


def test_equal_times_order_nothing() -> None:
    """Where all packets have one time, nobody was first."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(0.0)
    network.sent = [replace(packet, at=0.0) for packet in sorted(network.sent, key=lambda packet: packet.at)]
    assert network.explain().sentence.startswith("Both HTTP/3 and HTTP/2 or HTTP/1.1 were ready")


def test_connections_of_several_versions_are_all_named() -> None:
    """The version of the first TCP connection is not told of the others, which may be of another one."""
    network = Network()
    for number, alpn in enumerate([("http/1.1",), ("h2",), ("http/1.1",)]):
        network.tcp(alpn=alpn).opens(float(number))
    said = network.explain().sentence
    assert said.startswith("HTTP/1.1 on 2 connections and HTTP/2 on 1 connection: no QUIC packet was sent")


def test_another_version_than_the_races_is_named_beside_it() -> None:
    """Where the sentence is about one TCP connection, those of other versions have one of their own."""
    network = Network()
    network.tcp(alpn=("http/1.1",)).opens(0.0)
    network.quic().connects(1.0)
    network.tcp(alpn=("h2",)).opens(2.0)
    said = network.explain().sentence
    assert said.startswith("HTTP/1.1 first, then HTTP/3:")
    assert said.endswith(" Over other TCP connections: HTTP/2.")
