from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from h3probe.events import Endpoint, ToldExchange
from h3probe.track.clock import Clock
from h3probe.track.timeline import Timeline
from h3probe.track.told import LIMIT, SLACK_NS, ToldSighting, ToldTracker, took_seconds
from tests.diagnose.scenario import JDK, Network, nanoseconds

if TYPE_CHECKING:
    from tests.diagnose.scenario import Explained, Quic, Tcp


def joined(explained: Explained) -> list[str | None]:
    """The connections of the exchanges, in the order in which they are told."""
    return [e.connection for e in explained.exchanges]


def taken(tracker: ToldTracker) -> list[ToldSighting[ToldExchange]]:
    """The exchanges that are new."""
    new = tracker.take()
    return [] if new is None else new.exchanges


def two() -> tuple[Network, Quic, Tcp]:
    """A QUIC and a TCP connection to one origin."""
    network = Network()
    quic, tcp = network.quic(), network.tcp()
    quic.connects(0.0)
    tcp.connects(0.01)
    tcp.exchanges(1.0)
    quic.request(1.0)
    return network, quic, tcp


def test_by_port_and_version() -> None:
    """The version says over which transport, the port over which connection, and the record has all that was told."""
    network, quic, tcp = two()
    network.told(0.5, tcp, "HTTP/2", began=0.2)
    network.told(0.6, quic, "HTTP/3")
    explained = network.explain()
    assert joined(explained) == ["tcp-1", "quic-1"]
    first, second = explained.exchanges
    assert (first.version, first.status, first.known_from, first.error) == ("HTTP/2", 200, "client-log", None)
    assert (first.at, first.took) == (pytest.approx(0.2), pytest.approx(0.3))
    assert (second.at, second.took) == (pytest.approx(0.6), None)


def test_told_before_the_packets_are_read() -> None:
    """A log's line may be there before the packets that it is about."""
    network, _, tcp = two()
    network.delay(1.0)
    network.told(0.9, tcp, within=1.0)
    assert joined(network.explain()) == ["tcp-1"]


@pytest.mark.parametrize(
    "fields",
    [
        {"local_port": 1},
        {"local_port": None},
        {"origin": "https://other.example:443"},
        {"origin": "https://example.org:8443"},
        {"origin": "https://192.0.2.99:443"},
        {"client": Endpoint(b"\x0a\x00\x00\x63", 50_001)},
        {"server": Endpoint(b"\x0a\x00\x00\x63", 443)},
        {"time_ns": nanoseconds(-3.0)},
        {"time_ns": nanoseconds(30.0)},
        {"time_ns": nanoseconds(86_400.0)},
        {"version": "HTTP/3"},
        {"scid": b"another"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_speaks_against_it(fields: dict[str, Any]) -> None:
    """Another port, origin, address, time, transport or connection ID, or no port: no connection is named."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    tcp.exchanges(1.0)
    network.told(0.5, tcp, **fields)
    explained = network.explain()
    assert joined(explained) == [None]
    assert explained.verdict.versions is None


def test_ports_used_again() -> None:
    """Of two connections from one port, one after the other, the one that lived at the time is meant."""
    network = Network()
    first = network.tcp()
    first.connects(0.0)
    first.exchanges(1.0)
    first.fin(1.1)
    second = network.tcp(client_port=first.client_end.port)
    second.client_seq = 500_000
    second.connects(20.0)
    second.exchanges(21.0)
    network.told(0.9, first)
    network.told(20.9, second)
    assert joined(network.explain()) == ["tcp-1", "tcp-2"]


def test_between_two_it_is_not_guessed() -> None:
    """Where a coarse time fits both, neither is named."""
    network = Network()
    first = network.tcp()
    first.connects(0.0)
    first.fin(0.3)
    second = network.tcp(client_port=first.client_end.port)
    second.client_seq = 500_000
    second.connects(1.0)
    second.exchanges(1.5)
    network.told(0.5, first, within=1.0)
    assert joined(network.explain()) == [None]


def test_one_port_for_many_quic_connections() -> None:
    """The JDK sends all its QUIC from one port: the connection ID tells them apart."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0, 2.0)
    first = quic.client_scid
    quic.again()
    quic.initials(2.0, 3.0)
    network.told(2.1, quic, None, scid=first)
    network.told(2.1, quic, None, scid=quic.client_scid)
    network.told(2.1, quic, None)
    assert joined(network.explain()) == ["quic-1", "quic-2", None]


def test_in_a_tunnel_of_a_proxy() -> None:
    """The connection to the proxy carries it, if an open tunnel on it leads to the origin."""
    network = Network()
    tcp = network.tcp(server="192.0.2.7", port=3128)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.01, 200)
    tcp.gets_ready(0.02)
    tcp.exchanges(1.0)
    network.told(0.5, tcp)
    network.told(0.5, tcp, origin="https://other.example:443")
    explained = network.explain()
    assert joined(explained) == ["tcp-1", None]
    assert explained.verdict.versions == {"HTTP/2": 1}


def test_what_was_refused_has_an_error() -> None:
    """A request that failed has no version, its error, and the attempt that failed with it."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0, 2.7)
    network.told(2.75, quic, None, began=0.5)
    (only,) = network.explain().exchanges
    assert (only.version, only.status, only.error, only.connection) == (None, None, "it failed", "quic-1")
    assert only.took == pytest.approx(2.25)


@pytest.mark.parametrize(
    ("took", "within", "shown"), [(1.0, 1.0, None), (4.9, 1.0, None), (30.0, 1.0, 30.0), (0.01, 0.0, 0.01)]
)
def test_what_it_took_is_told_where_it_is_known(took: float, within: float, shown: float | None) -> None:
    """Of two times to the second the difference means something only where it is many seconds."""
    told = ToldExchange(nanoseconds(took), "client-log", "https://h:1", "GET", "", began_ns=nanoseconds(0.0))
    told = replace(told, within_ns=round(within * 1e9))
    assert took_seconds(told) == (None if shown is None else pytest.approx(shown))


def test_a_line_for_people() -> None:
    """The timeline says who told it."""
    network, _, tcp = two()
    network.told(0.5, tcp, "HTTP/2", began=0.2)
    network.told(0.6, tcp, None, error="\x1b[31mno")
    texts = [m.text for m in network.explain().moments if "client-log" in m.text]
    assert texts == [
        "HTTP/2 GET https://example.org/: 200 after 300 ms (client-log)",
        "GET https://example.org/: no response (client-log): \\x1b[31mno",
    ]


def test_what_is_let_go_of_is_joined_no_more() -> None:
    """Connections that were packed take no room here either; what is told later is another one's."""
    quic = next(c for c in two()[0].explain().engine._kept if c.transport == "quic")
    told = ToldExchange(
        nanoseconds(0.5), "client-log", "https://example.org:443", "GET", "", "HTTP/3", 200, quic.client.port
    )
    found = []
    for gone in ([], [quic]):
        tracker = ToldTracker(Timeline(Clock()))
        tracker.opened(quic)
        tracker.let_go(gone)
        tracker.feed(told)
        tracker.finish()
        found += [sighting.connection for sighting in taken(tracker)]
    assert found == [quic.id, None]


def test_memory_is_bounded() -> None:
    """What waits is bounded, and so is what is kept."""
    tracker = ToldTracker(Timeline(Clock()))
    told = ToldExchange(nanoseconds(0.0), "client-log", "https://h:1", "GET", "")
    for _ in range(LIMIT + 10):
        tracker.feed(told)
    tracker.advance(nanoseconds(0.0) + SLACK_NS)
    assert len(taken(tracker)) == LIMIT
    tracker.feed(told)
    tracker.finish()
    assert len(tracker.facts.exchanges) == LIMIT


def test_time_alone_settles_it() -> None:
    """Live, what was told of is joined as soon as its packets must have been seen."""
    tracker = ToldTracker(Timeline(Clock()))
    tracker.feed(ToldExchange(nanoseconds(0.0), "client-log", "https://h:1", "GET", ""))
    tracker.advance(nanoseconds(0.0))
    assert taken(tracker) == []
    tracker.advance(nanoseconds(1.0))
    assert len(taken(tracker)) == 1
    assert tracker.take() is None
