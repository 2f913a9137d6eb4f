from __future__ import annotations

import json
from typing import TYPE_CHECKING, get_args

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.engine import Engine
from h3probe.events import (
    AltSvcSeen,
    CaRejected,
    ClientHelloSeen,
    ConnectionEnded,
    Endpoint,
    Exchange,
    Frame,
    OnwardConnection,
    PlainRequest,
    ProxyDied,
    ProxyEvent,
    ProxyLog,
    ProxyReady,
    TunnelAnswered,
    TunnelAsked,
    UpstreamTrouble,
)
from h3probe.show.ndjson import to_json
from h3probe.show.schema import json_schema
from h3probe.track import proxied
from h3probe.track.clock import Clock
from h3probe.track.quic_tracker import CONNECTIONS_PER_FLOW
from h3probe.track.tracker import Tracker
from h3probe.track.tunnel import TUNNELS_PER_CONNECTION
from tests.diagnose.scenario import CURL, START_NS, Network, Quic, Tcp, explain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.events import Event
    from tests.diagnose.scenario import Explained

PROXY, PORT = "192.0.2.3", 3128
BEGINNING = Clock.rfc3339(START_NS)
CLIENT_END, PROXY_END = Endpoint(bytes([192, 0, 2, 10]), 50_001), Endpoint(bytes([192, 0, 2, 3]), PORT)


def tracked(events: Iterable[ProxyEvent]) -> Tracker:
    """A tracker that took the proxy's events."""
    tracker = Tracker()
    for event in events:
        tracker.feed_proxy(event)
    return tracker


def asked(number: int, *, connection: str = "c", port: int = 50_001) -> TunnelAsked:
    """One of many tunnels."""
    client = Endpoint(CLIENT_END.host, port)
    return TunnelAsked(number, f"t{number}", connection, client, PROXY_END, f"host{number}.example", 443, "CONNECT")


# Whatever order the two come in

choices = st.lists(st.booleans(), max_size=40)


def interleaved(events: list[Event], frames_first: list[bool]) -> list[Event]:
    """The packets in their order and the reports in theirs, one or the other next as is told."""
    frames = [event for event in events if isinstance(event, Frame)]
    reports = [event for event in events if not isinstance(event, Frame)]
    mixed: list[Event] = []
    for frame_first in frames_first:
        if not (frames and reports):
            break
        mixed.append(frames.pop(0) if frame_first else reports.pop(0))
    return mixed + frames + reports


def tunnel_seen_twice() -> Network:
    """A tunnel after a 407 on the same connection: its packets, and the proxy's report."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
    tcp.asks_proxy(0.0, "example.org:443")
    first = proxy.asked(0.002, tcp)
    proxy.answered(0.01, first, 407, by="upstream", error="407 Proxy Authentication Required")
    tcp.proxy_answers(0.01, 407, fields="Content-Length: 0\r\n")
    tcp.asks_again(0.02, "example.org:443")
    second = proxy.asked(0.021, tcp)
    proxy.answered(0.03, second)
    tcp.proxy_answers(0.031, 200)
    tcp.gets_ready(0.04)
    proxy.hello(0.041, tcp, second)
    tcp.exchanges(0.1)
    proxy.exchange(0.1, tcp, intercepted=True)
    tcp.fin(0.5)
    proxy.ended(0.5, tcp, second)
    return network


def same_tunnel(explained: Explained) -> None:
    """What the output must be in any order."""
    (tcp,) = explained.tcp
    assert (tcp.outcome, tcp.first_packet, tcp.time, tcp.sni) == ("established", 1, BEGINNING, "example.org")
    assert tcp.ready_at is not None
    assert [(t.status, t.target, t.connection) for t in explained.tunnels] == [
        (407, "example.org:443", "tcp-1"),
        (200, "example.org:443", "tcp-1"),
    ]
    assert [(e.connection, e.version, e.known_from) for e in explained.exchanges] == [("tcp-1", "HTTP/2", "proxy")]
    assert explained.verdict.versions == {"HTTP/2": 1}
    assert explained.sentence.startswith("HTTP/2, through a CONNECT tunnel")
    assert [(f.rule, f.severity) for f in explained.findings] == [
        ("proxy-refused", "info"),
        ("proxy-downgrade", "info"),
    ]


@given(choices)
@settings(max_examples=150, deadline=None)
def test_a_tunnel_seen_twice_is_one(frames_first: list[bool]) -> None:
    """Packets and reports of one connection make one connection and one record per tunnel, in any order."""
    same_tunnel(explain(interleaved(tunnel_seen_twice().events(), frames_first)))


def test_all_reports_before_the_first_packet() -> None:
    """The order that is furthest from the usual one."""
    same_tunnel(explain(interleaved(tunnel_seen_twice().events(), [False] * 60)))


def test_all_packets_before_the_first_report() -> None:
    """A pipe that is read late."""
    same_tunnel(explain(interleaved(tunnel_seen_twice().events(), [True] * 60)))


def quic_seen_twice() -> Network:
    """HTTP/3 to a reverse proxy: its packets, and the proxy's report."""
    network = Network()
    proxy, quic = network.proxy(), network.quic(server="127.0.0.1", port=8443, software=CURL)
    quic.connects(0.0)
    proxy.hello(0.001, quic)
    proxy.exchange(0.03, quic, "HTTP/3", intercepted=True)
    proxy.alt_svc(0.04, quic, 'h3=":8443"')
    proxy.ended(0.2, quic, closed_by="idle")
    return network


@given(choices)
@settings(max_examples=60, deadline=None)
def test_a_quic_connection_seen_twice_is_one(frames_first: list[bool]) -> None:
    """The connection IDs in the report join it with its packets, in any order."""
    explained = explain(interleaved(quic_seen_twice().events(), frames_first))
    (quic,) = explained.quic
    assert (quic.outcome, quic.first_packet, quic.time, quic.initials_sent) == ("established", 1, BEGINNING, 1)
    assert quic.client_guess == "curl or another ngtcp2 client"  # The packets tell more than the report.
    assert [(e.connection, e.version) for e in explained.exchanges] == [("quic-1", "HTTP/3")]
    assert explained.tcp == []
    assert explained.verdict.versions == {"HTTP/3": 1}


def reverse_seen_twice() -> Network:
    """TLS to a reverse proxy: its packets, and the proxy's report."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    tcp.connects(0.0)
    proxy.hello(0.03, tcp)
    proxy.exchange(0.05, tcp)
    return network


@given(choices)
@settings(max_examples=60, deadline=None)
def test_a_connection_to_a_reverse_proxy_seen_twice_is_one(frames_first: list[bool]) -> None:
    """No tunnel, and the same ClientHello told twice."""
    explained = explain(interleaved(reverse_seen_twice().events(), frames_first))
    (tcp,) = explained.tcp
    assert (tcp.outcome, tcp.first_packet, tcp.client_guess) == ("established", 1, None)
    assert explained.tunnels == []
    assert explained.verdict.versions == {"HTTP/2": 1}
    assert sum("ClientHello" in moment.text for moment in explained.moments) == 1


def test_each_step_is_said_once() -> None:
    """The timeline does not repeat what packets and reports both tell."""
    texts = [moment.text for moment in tunnel_seen_twice().explain().moments]
    assert sum(text.startswith("CONNECT ") for text in texts) == 2
    assert sum("answered 407" in text for text in texts) == 1
    assert sum("answered 200" in text for text in texts) == 1
    assert sum("ClientHello" in text for text in texts) == 1
    assert sum("closed by the client" in text for text in texts) == 1


def test_a_capture_that_began_late_does_not_make_a_reported_tunnel_fail() -> None:
    """Of a connection that the proxy told of, only the last packets are seen."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
    proxy.carries(tcp, 0.0)
    tcp.exchanges(0.5)
    tcp.fin(0.6)
    explained = network.explain()
    assert [t.outcome for t in explained.tcp] == ["mid-stream"]
    assert "TLS failed" not in explained.sentence


# Reports alone


def test_a_tunnel_known_from_the_report_alone() -> None:
    """Everything that the proxy says, and no frame number."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
    proxy.carries(tcp, 0.0)
    explained = network.explain()
    (tunnel,) = explained.tunnels
    assert (tunnel.target, tunnel.status, tunnel.bytes, tunnel.closed_by) == ("example.org:443", 200, 5700, "client")
    assert (tunnel.sni, tunnel.alpn, tunnel.ended_at) == ("example.org", ["h2", "http/1.1"], 1.0)
    (record,) = explained.tcp
    assert (record.outcome, record.first_packet, record.ready_at) == ("established", None, None)
    assert explained.summary.packets == 0


def test_ports_used_again_are_another_connection() -> None:
    """A SYN with another sequence number, where the connection before was seen in packets too."""
    network = Network()
    proxy = network.proxy()
    for at in (0.0, 100.0):
        tcp = network.tcp(server=PROXY, port=PORT, client_port=50_500)
        tcp.client_seq += round(at)
        tcp.asks_proxy(at, "example.org:443")
        tunnel = proxy.asked(at + 0.01, tcp)
        tcp.proxy_answers(at + 0.05, 200)
        proxy.answered(at + 0.05, tunnel)
        tcp.fin(at + 1)
        proxy.ended(at + 1, tcp, tunnel)
    explained = network.explain()
    assert [t.connection for t in explained.tunnels] == ["tcp-1", "tcp-2"]


def test_an_exchange_belongs_to_the_tunnel_that_was_open() -> None:
    """One connection, refused for one host and then open for another: the exchange is the other's."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
    proxy.answered(0.05, proxy.asked(0.0, tcp, "denied.example"), 403)
    proxy.answered(0.15, proxy.asked(0.1, tcp))
    proxy.exchange(0.2, tcp, intercepted=True)
    versions = {verdict.origin: verdict.versions for verdict in network.explain().verdicts}
    assert versions == {"denied.example:443": None, "example.org:443": {"HTTP/2": 1}}


def test_what_is_known_of_no_connection_is_kept_from_none() -> None:
    """Answers, ends, refusals and trouble of ids that nobody has heard of change nothing."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
    proxy.answered(0.0, "t99")
    proxy.ended(0.1, tcp)
    proxy.rejected(0.2, tcp)
    proxy.trouble(0.3, tcp)
    proxy.onward(0.4, tcp, network.tcp())
    explained = network.explain()
    assert [record.type for record in explained.records] == ["capture", "summary"]
    assert explained.moments == []


def test_an_exchange_of_an_unknown_connection_is_told_without_one() -> None:
    """That there was a request is known; what carried it is null."""
    network = Network()
    tcp, quic = network.tcp(server=PROXY, port=PORT), network.quic(server=PROXY, port=PORT)
    network.proxy().exchange(0.0, tcp)
    network.proxy().exchange(0.1, quic, "HTTP/3")
    network.proxy().alt_svc(0.2, tcp, "clear")
    explained = network.explain()
    assert [e.connection for e in explained.exchanges] == [None, None]
    assert [a.services for a in explained.alt_svc] == [[]]
    assert explained.verdicts == []


def test_a_connection_that_carries_exchanges_is_alive() -> None:
    """HTTP/3 whose packets are not seen is not given up between two requests."""
    network = Network()
    proxy, quic = network.proxy(), network.quic(server="127.0.0.1", port=8443)
    proxy.hello(0.0, quic)
    for at in (1.0, 40.0, 80.0, 120.0):
        proxy.exchange(at, quic, "HTTP/3")
    assert [e.connection for e in network.explain().exchanges] == ["quic-1"] * 4


def test_the_proxys_own_connections_are_nobodys_else() -> None:
    """On the wire they look like a client's; the proxy says which are its own."""
    network = Network()
    proxy, tcp, leg = network.proxy(), network.tcp(server=PROXY, port=PORT), network.tcp(client=PROXY)
    proxy.carries(tcp, 0.0)
    proxy.onward(0.03, tcp, leg)
    leg.connects(0.01)
    explained = network.explain()
    assert explained.sentence.startswith("HTTP/2 or HTTP/1.1, through a CONNECT tunnel")


def test_exchanges_and_alt_svc_are_records_of_the_contract() -> None:
    """Both validate against the schema, with what is known and what is not."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.exchange(0.1, tcp, "HTTP/1.1")
    proxy.exchange(0.2, tcp, "HTTP/1.0", status=None)
    proxy.alt_svc(0.3, tcp, 'h3=":443"; ma=60, h2="alt.example:8443"; persist=1', "broken")
    explained = network.explain()
    validator = jsonschema.Draft202012Validator(json_schema())
    for record in explained.records:
        validator.validate(json.loads(to_json(record)))
    one, other = explained.exchanges
    assert (one.at, one.took, one.method, one.url) == (0.1, 0.02, "GET", "https://example.org:443/?q=")
    assert (one.version, one.status, one.known_from, one.connection) == ("HTTP/1.1", 200, "proxy", "tcp-1")
    assert (other.version, other.status) == (None, None)
    (alt_svc,) = explained.alt_svc
    assert (alt_svc.origin, alt_svc.seen_at) == ("example.org:443", "proxy")
    assert alt_svc.value == 'h3=":443"; ma=60, h2="alt.example:8443"; persist=1, broken'
    assert [(s.protocol, s.host, s.port, s.max_age, s.persist) for s in alt_svc.services] == [
        ("h3", "", 443, 60, False),
        ("h2", "alt.example", 8443, 86400, True),
    ]
    assert explained.summary.records["exchange"] == 2


# Bounds


def test_tunnels_on_one_connection_are_bounded() -> None:
    """A client that is refused and asks again, for ever."""
    tracker = tracked(asked(number) for number in range(1000))
    (connection,) = tracker.take().opened
    assert connection.transport == "tcp"
    assert connection.tunnels is not None
    assert len(connection.tunnels.asked) == TUNNELS_PER_CONNECTION


def test_attempts_on_one_pair_of_ports_are_bounded() -> None:
    """A client that begins again from the same port, for ever; whoever leaves is told of."""
    hellos = [
        ClientHelloSeen(n, "c", CLIENT_END, PROXY_END, "udp", None, "a", ("h3",), "q", False, 1, n.to_bytes(8), b"")
        for n in range(100)
    ]
    tracker = tracked(hellos)
    progress = tracker.take()
    assert len(progress.opened) == 100
    assert len(progress.settled) == 100 - CONNECTIONS_PER_FLOW
    assert tracker.evicted == 100 - CONNECTIONS_PER_FLOW


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of ids forget the oldest, lists stop growing; each exchange is told all the same."""
    monkeypatch.setattr(proxied, "LIMIT", 10)
    tracker = Tracker()
    for number in range(50):
        tracker.feed_proxy(asked(number, connection=f"c{number}", port=40_000 + number))
        client = Endpoint(CLIENT_END.host, 40_000 + number)
        ends = (f"c{number}", client, PROXY_END)
        tracker.feed_proxy(
            Exchange(number, *ends, "https://a:443", "GET", "https://a:443/", 200, "HTTP/2", "HTTP/2", number, number)
        )
        tracker.feed_proxy(AltSvcSeen(number, f"c{number}", client, "https://a:443", ("clear",), ("clear",)))
        tracker.feed_proxy(CaRejected(number, f"c{number}", client, "a", "tcp", None))
        tracker.feed_proxy(UpstreamTrouble(number, f"c{number}", None, "u:1", "slow", 1.0, "slow"))
    facts = tracker.proxy.facts
    kept = (facts.exchanges, facts.alt_svc, facts.rejected, facts.trouble)
    assert [len(each) for each in kept] == [10, 10, 10, 10]
    progress = tracker.take()
    assert (len(progress.exchanges), len(progress.alt_svc)) == (50, 50)
    before = tracker.proxy.facts.exchanges[0]
    tracker.feed_proxy(TunnelAnswered(60, "t0", 200, 0.1, "proxy"))
    assert before is tracker.proxy.facts.exchanges[0]
    first = next(c for c in progress.opened if c.client.port == 40_000)
    assert first.transport == "tcp"
    assert first.tunnels is not None
    assert first.tunnels.asked[0].status is None  # Its id was forgotten.


# Hostile reports

texts = st.text(max_size=12)
times = st.integers(min_value=-(2**62), max_value=2**62)
near = st.integers(min_value=1_780_000_000_000_000_000, max_value=1_780_000_100_000_000_000)
ids = st.sampled_from(["1", "2", "3", "\x1b"])
endpoints = st.builds(
    Endpoint, st.sampled_from([bytes([127, 0, 0, 1]), bytes(15) + b"\x01"]), st.integers(min_value=0, max_value=3)
)
durations = st.floats(allow_nan=False, allow_infinity=False)


def built(kind: type[ProxyEvent]) -> st.SearchStrategy[ProxyEvent]:
    """Any event of a type."""
    return st.builds(
        kind,
        **{
            name: strategy
            for name, strategy in {
                "time_ns": near | times,
                "id": ids,
                "connection": ids,
                "client": endpoints,
                "proxy": endpoints,
                "seconds": durations,
                "version": texts | st.sampled_from(["HTTP/1.1", "HTTP/2", "HTTP/3"]),
                "ja4": texts,
                "lines": st.lists(texts | st.just('h3=":443"'), max_size=3).map(tuple),
                "origin": texts | st.just("https://example.org:443"),
            }.items()
            if name in kind.__dataclass_fields__
        },
    )


EVENTS: tuple[type[ProxyEvent], ...] = get_args(ProxyEvent)


def test_every_event_is_tried() -> None:
    """The test below leaves no type out."""
    assert {OnwardConnection, PlainRequest, ProxyDied, ProxyLog, ProxyReady, ConnectionEnded} < set(EVENTS)
    assert len(EVENTS) == 13


@given(st.lists(st.one_of([built(kind) for kind in EVENTS]), max_size=25))
@settings(max_examples=300, deadline=None)
def test_no_sequence_of_reports_raises(events: list[ProxyEvent]) -> None:
    """Whatever the proxy says, in whatever order: records that hold the contract, and text that can be printed."""
    explained = explain(events)
    validator = jsonschema.Draft202012Validator(json_schema())
    for record in explained.records:
        validator.validate(json.loads(to_json(record)))
    for moment in explained.moments:
        assert moment.text.isprintable()
    for verdict in explained.verdicts:
        assert verdict.sentence.isprintable()
    for finding in explained.findings:
        assert finding.summary.isprintable()


@given(st.lists(st.one_of([built(kind) for kind in EVENTS]), max_size=12), choices)
@settings(max_examples=100, deadline=None)
def test_no_report_between_packets_raises(events: list[ProxyEvent], frames_first: list[bool]) -> None:
    """The same among packets of a connection that they may be about."""
    network = Network()
    quic: Quic = network.quic(client="127.0.0.1", client_port=2, server="127.0.0.1", port=1)
    quic.connects(0.0)
    tcp: Tcp = network.tcp(client="127.0.0.1", client_port=2, server="127.0.0.1", port=1)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.05, 200)
    tcp.gets_ready(0.06)
    engine = Engine("test", "pcap")
    for event in interleaved([*network.events(), *events], frames_first):
        engine.feed(event)
    engine.finish()
    assert engine.tracker.packets == len(network.sent)


# A transparent proxy


def test_a_transparent_proxy_that_cannot_connect() -> None:
    """The client's packets show a server that accepts and hangs up; the timeline says why."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp()
    proxy.ready("transparent")
    tcp.syn(0.0)
    tcp.accepts(0.01)
    proxy.cannot_connect(0.03, tcp)
    tcp.fin(0.04, by="server")
    proxy.ended(0.04, tcp, closed_by="proxy")
    explained = network.explain()
    (moment,) = [m for m in explained.moments if m.transport == "proxy"]
    assert moment.text == f"the proxy cannot connect to {tcp.server}:443 for it: connection refused"
    assert moment.connection == "tcp-1"
    assert explained.tunnels == []


def test_an_explicit_proxy_says_the_same_in_its_answer() -> None:
    """Its own failure to connect is no line of its own, and no connection."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
    proxy.ready("regular")
    proxy.cannot_connect(0.03, tcp)
    assert network.explain().moments == []


# Ports that are used again, where no packet shows it


def test_a_port_used_again_is_another_connection_in_the_reports_too() -> None:
    """The proxy's own numbers tell connections apart: the first one's refusal and exchanges are not the second's."""
    network = Network()
    proxy = network.proxy()
    first = network.tcp(server=PROXY, port=PORT, client_port=50_500)
    second = network.tcp(server=PROXY, port=PORT, client_port=50_500)
    tunnel = proxy.carries(first, 0.0)
    proxy.exchange(0.2, first, intercepted=True)
    proxy.rejected(0.3, first)
    proxy.alt_svc(0.3, first, 'h3=":443"')
    proxy.carries(second, 10.0, "other.example")
    explained = network.explain()
    assert tunnel == "t1"
    assert [(t.target, t.connection) for t in explained.tunnels] == [
        ("example.org:443", "tcp-1"),
        ("other.example:443", "tcp-2"),
    ]
    told = {verdict.origin: (verdict.versions, verdict.rules) for verdict in explained.verdicts}
    assert told["other.example:443"] == (None, ["proxy-downgrade"])
    assert told["example.org:443"][0] == {"HTTP/2": 1}


def test_a_quic_port_used_again_is_another_connection() -> None:
    """An exchange and a refusal belong to the connection that the proxy names, not to the latest on its ports."""
    network = Network()
    proxy = network.proxy()
    first = network.quic(server="127.0.0.1", port=8443, client_port=50_500)
    second = network.quic(server="127.0.0.1", port=8443, client_port=50_500)
    proxy.hello(0.0, first)
    proxy.hello(1.0, second)
    proxy.exchange(1.1, first, "HTTP/3")
    proxy.exchange(1.2, second, "HTTP/3")
    assert [exchange.connection for exchange in network.explain().exchanges] == ["quic-1", "quic-2"]


# What the proxy behind does


def test_the_upstreams_name_comes_with_its_connection() -> None:
    """In upstream mode the proxy's own connection leads to the other proxy; in another it leads to the server."""
    for mode, name in (("upstream", "198.51.100.1:443"), ("regular", None)):
        network = Network()
        proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
        proxy.ready("upstream" if mode == "upstream" else "regular")
        proxy.asked(0.0, tcp)
        proxy.onward(0.1, tcp, network.tcp())
        (story,) = network.explain().stories
        assert story.tunnels[0][1].upstream == name


def test_that_it_was_slow_does_not_hide_what_it_did_then() -> None:
    """The last trouble counts, and being slow is the least."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
    tunnel = proxy.asked(0.0, tcp)
    for at, kind in ((1.0, "slow"), (2.0, "silent"), (3.0, "slow")):
        proxy.trouble(at, tcp, tunnel, "slow" if kind == "slow" else "silent")
    (story,) = network.explain().stories
    assert story.tunnels[0][1].trouble == "silent"


@pytest.mark.parametrize(
    ("received", "after_hello", "outcome"),
    [(5000, 39, "reset"), (5000, 40, "established"), (0, 400, "reset"), (5000, None, "established")],
)
def test_a_handshake_that_did_not_end_is_no_connection(received: int, after_hello: int | None, outcome: str) -> None:
    """An alert is shorter than any Finished; a report without that number tells nothing of it."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.ended(1.0, tcp, received=received, after_hello=after_hello)
    assert [record.outcome for record in network.explain().tcp] == [outcome]


def test_bytes_without_a_hello_are_no_failed_handshake() -> None:
    """SSH in a tunnel."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server=PROXY, port=PORT)
    tunnel = proxy.asked(0.0, tcp, "git.example", 22)
    proxy.answered(0.1, tunnel)
    proxy.ended(1.0, tcp, tunnel, received=0)
    assert [record.outcome for record in network.explain().tcp] == ["established"]
