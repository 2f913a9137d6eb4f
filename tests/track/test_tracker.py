from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.events import Endpoint, Frame, Process, SocketOwner
from h3probe.track.quic import IDLE_NS, LINGER_NS
from h3probe.track.tracker import ICMP_PER_CONNECTION, SWEEP_NS, Tracker
from tests.track.builders import (
    CLIENT,
    DCID,
    MS,
    SERVER,
    START,
    TLS13_FINISHED,
    TLS13_SERVER_FLIGHT,
    QuicWatch,
    TcpWatch,
    answer,
    client_hello,
    handshake,
    initial,
    protected,
    server_handshake,
    server_hello,
    to_frame,
)
from tests.wire import packets
from tests.wire.quic_builder import close

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.track.tracker import Connection

HELLO = client_hello()


def quic_frames(port: int, *, answered: bool = True) -> list[Frame]:
    """A QUIC connection from a client's port: a handshake, or an attempt that gives up."""
    watch = QuicWatch()
    if answered:
        watch.handshake()
    else:
        watch.client(initial(HELLO), at=0)
        watch.client(initial(HELLO, number=1), at=1000)
        watch.client(initial(frames=close(12), number=2), at=3000)
    client = Endpoint(CLIENT.host, port)
    moved = [
        replace(fact, source=client) if fact.source == CLIENT else replace(fact, destination=client)
        for fact in watch.facts
    ]
    return [to_frame(fact) for fact in moved]


def tcp_frames(port: int, *, tls: bool = True) -> list[Frame]:
    """A TCP connection from a client's port, with TLS or with a tunnel that is refused."""
    watch = TcpWatch(client=Endpoint(CLIENT.host, port))
    watch.connect()
    if tls:
        watch.client(handshake(HELLO))
        watch.server(TLS13_SERVER_FLIGHT)
        watch.client(TLS13_FINISHED + protected(90))
    else:
        watch.client(b"CONNECT example.com:443 HTTP/1.1\r\n\r\n")
        watch.server(b"HTTP/1.1 403 Forbidden\r\n\r\n")
    watch.end(0)
    return [to_frame(fact) for fact in watch.facts]


def icmp_frame(quoted: Frame, *, number: int = 1, time_ns: int = START) -> Frame:
    """Port unreachable from the server about an earlier frame."""
    message = struct.pack(">BBHI", 3, 3, 0, 0) + quoted.data[14 : 14 + 20 + 8 + 40]
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(message), 1, 0, 64, 1, 0) + SERVER.host + CLIENT.host
    data = bytes(12) + b"\x08\x00" + header + message
    return Frame(number, time_ns, 1, data, len(data))


def feed(frames: Iterable[Frame]) -> Tracker:
    """A tracker that took frames, with numbers of its own."""
    tracker = Tracker()
    for number, frame in enumerate(frames, 1):
        tracker.feed(replace(frame, number=number))
    return tracker


def summary(connection: Connection, now_ns: int) -> tuple[object, ...]:
    """What is said of a connection, but for the ids and frame numbers that depend on the order."""
    hello = connection.hello.sni if connection.hello else None
    ends = (str(connection.client), str(connection.server))
    extra: tuple[object, ...]
    if connection.transport == "quic":
        extra = ("".join(connection.history), connection.initials_sent, connection.close and connection.close[1])
    else:
        asked = [(t.target, t.status) for t in connection.tunnels.asked] if connection.tunnels else []
        extra = (asked, connection.request_bytes, connection.connected and connection.connected.time_ns)
    ready = connection.ready.time_ns if connection.ready else None
    return (connection.transport, *ends, hello, connection.outcome(now_ns), ready, *extra)


def test_frames_become_connections() -> None:
    """Frames of QUIC and TCP open their connections, and finishing settles them all."""
    tracker = feed(quic_frames(50000) + tcp_frames(50001))
    assert [c.id for c in tracker.take().opened] == ["quic-1", "tcp-1"]
    tracker.finish()
    settled = tracker.take().settled
    assert [(c.id, c.settled, c.outcome(tracker.clock.now_ns)) for c in settled] == [
        ("quic-1", True, "established"),
        ("tcp-1", True, "established"),
    ]
    assert tracker.packets == 12
    assert tracker.evicted == 0


def test_progress_is_taken_once() -> None:
    """What was taken does not come again, and finishing twice settles once."""
    tracker = feed(quic_frames(50000))
    assert len(tracker.take().opened) == 1
    tracker.finish()
    tracker.finish()
    progress = tracker.take()
    assert (progress.opened, len(progress.settled)) == ([], 1)


def test_quiet_connections_settle_by_themselves() -> None:
    """A connection that has been quiet for its time settles with the next frame, in the capture's time."""
    tracker = feed(quic_frames(50000))
    ping = replace(tcp_frames(50001)[0], time_ns=START + SWEEP_NS)
    tracker.feed(ping)
    assert tracker.take().settled == []
    tracker.feed(replace(ping, time_ns=START + 2 * IDLE_NS))
    assert [c.id for c in tracker.take().settled] == ["quic-1"]


def test_closed_connections_linger_for_late_packets() -> None:
    """A TCP connection that ended settles a few seconds later; its last ACKs open nothing new."""
    frames = tcp_frames(50000)
    tracker = feed(frames)
    tracker.sweep(frames[-1].time_ns + LINGER_NS)
    assert len(tracker.take().settled) == 1
    tracker.feed(replace(frames[2], time_ns=START + 10 * LINGER_NS))
    assert tracker.take().opened == []


def test_late_words_of_a_settled_tcp_connection() -> None:
    """A client that says goodbye long after the server's FIN (curl does, with a close_notify) opens nothing new."""
    watch = TcpWatch()
    watch.connect()
    watch.client(handshake(HELLO))
    watch.server(TLS13_SERVER_FLIGHT)
    watch.client(TLS13_FINISHED)
    watch.end(1)
    watch.client(protected(19), at=30_000)
    watch.end(0)
    frames = [to_frame(fact) for fact in watch.facts]
    unrelated = replace(tcp_frames(50009)[0], time_ns=START + 20_000 * MS)
    tracker = feed([*frames[:-2], unrelated, *frames[-2:]])
    assert [c.client.port for c in tracker.take().opened] == [CLIENT.port, 50009]


def test_late_packets_of_a_settled_quic_connection() -> None:
    """A server that goes on with its handshake after the client closed is not a second connection."""
    watch = QuicWatch()
    watch.client(initial(HELLO), at=0)
    watch.server(answer(server_hello()), server_handshake(), at=10)
    watch.client(initial(frames=close(0x12A), number=1), at=20)
    watch.server(answer(number=1), server_handshake(), at=8000)
    frames = [to_frame(fact) for fact in watch.facts]
    unrelated = replace(tcp_frames(50009)[0], time_ns=START + 6000 * MS)
    tracker = feed([*frames[:-1], unrelated, frames[-1]])
    assert [c.client.port for c in tracker.take().opened] == [CLIENT.port, 50009]


def test_rest_of_a_connection_that_was_forgotten() -> None:
    """Segments of a connection that had to leave for want of memory do not become another, and evict nobody."""
    first = tcp_frames(50000)
    tracker = Tracker()
    tracker.tcp.table.limit = 1
    for frame in [*first[:4], tcp_frames(50001)[0], *first[4:]]:
        tracker.feed(frame)
    assert [c.client.port for c in tracker.take().opened] == [50000, 50001]
    assert tracker.evicted == 1


def test_icmp_is_tied_to_its_connection() -> None:
    """An ICMP error names the connection that it is about, and makes the attempt `refused`."""
    first = quic_frames(50000, answered=False)[0]
    tracker = feed([first, icmp_frame(first), icmp_frame(quic_frames(50009)[0])])
    (sighting,) = tracker.take().icmp
    assert (sighting.connection, sighting.mark.frame, sighting.error.kind) == ("quic-1", 2, "port-unreachable")
    tracker.finish()
    (attempt,) = tracker.take().settled
    assert attempt.outcome(tracker.clock.now_ns) == "refused"


def test_tcp_refused_by_icmp() -> None:
    """The same for a SYN."""
    first = tcp_frames(50000)[0]
    tracker = feed([first, icmp_frame(first)])
    assert tracker.take().icmp[0].connection == "tcp-1"


def test_icmp_sightings_are_limited() -> None:
    """A flood of ICMP errors about one connection is reported up to a limit."""
    first = quic_frames(50000, answered=False)[0]
    tracker = feed([first, *[icmp_frame(first)] * (ICMP_PER_CONNECTION + 50)])
    assert len(tracker.take().icmp) == ICMP_PER_CONNECTION


def test_owners_of_sockets() -> None:
    """A process is tied to the connections of its own transport and address, and to those alone."""
    tracker = feed(quic_frames(50000) + tcp_frames(50000) + quic_frames(50001))
    opened = tracker.take().opened
    tracker.attribute(SocketOwner(START, 17, CLIENT, Process(42, "java")))
    assert [c.process for c in opened] == [Process(42, "java"), None, None]


def test_who_was_heard_of() -> None:
    """Whether any packet to a host was seen tells a one-sided capture from silence."""
    tracker = feed([quic_frames(50000)[0]])
    assert (tracker.hears(SERVER.host), tracker.hears(CLIENT.host)) == (True, False)


def test_datagrams_on_dns_ports_are_not_quic() -> None:
    """What goes to or from port 53 is read as DNS."""
    watch = QuicWatch()
    watch.client(initial(HELLO), server=Endpoint(SERVER.host, 53))
    assert feed([to_frame(fact) for fact in watch.facts]).take().opened == []


def test_snaplen_cut_frames_are_followed() -> None:
    """Frames cut by a snaplen still show a QUIC attempt, its IDs and its answer; what was cut is counted."""
    whole = QuicWatch()
    whole.client(initial(HELLO), at=0)
    whole.server(answer(server_hello(), size=1200))
    frames = [to_frame(fact) for fact in whole.facts]
    tracker = feed([replace(frame, data=frame.data[:128]) for frame in frames])
    (attempt,) = tracker.take().opened
    assert attempt.transport == "quic"
    assert (attempt.dcid, attempt.cut, attempt.client, attempt.answered) == (DCID, 2, CLIENT, True)


FLOWS = [
    quic_frames(50000),
    quic_frames(50001, answered=False),
    tcp_frames(50002),
    tcp_frames(50003, tls=False),
    quic_frames(50004),
]


@given(st.permutations([index for index, frames in enumerate(FLOWS) for _ in frames]))
def test_interleaving_of_unrelated_flows_does_not_matter(turns: list[int]) -> None:
    """However frames of unrelated flows are interleaved, each flow gives the same connection."""
    positions = [iter(frames) for frames in FLOWS]
    mixed = feed(next(positions[index]) for index in turns)
    alone = [feed(frames) for frames in FLOWS]
    now = max(tracker.clock.now_ns for tracker in alone)
    expected = sorted((summary(c, now) for tracker in alone for c in tracker.take().opened), key=repr)
    assert sorted((summary(c, now) for c in mixed.take().opened), key=repr) == expected


ALL = [frame for frames in FLOWS for frame in frames] + [icmp_frame(FLOWS[1][0]), packets.frame(b"\x00" * 30)]


@st.composite
def hostile(draw: st.DrawFn) -> Frame:
    """A frame that was good once: cut, changed, from any time, on any link; or noise."""
    frame = draw(st.sampled_from(ALL))
    data = bytearray(frame.data)
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    data = data[:cut] if draw(st.integers(0, 9)) else bytearray(draw(st.binary(max_size=120)))
    return Frame(
        number=1,
        time_ns=draw(st.one_of(st.just(frame.time_ns), st.integers(0, 1 << 64), st.integers(0, 300).map(
            lambda s: START + s * 1000 * MS))),
        link_type=draw(st.sampled_from([1, 1, 1, 0, 101, 113, 276, 9999])),
        data=bytes(data),
        length=max(len(data), draw(st.integers(0, 70_000)), frame.length if draw(st.booleans()) else 0),
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(hostile(), max_size=40))
def test_arbitrary_frames_never_raise(frames: list[Frame]) -> None:
    """Whatever is captured, in whatever order and at whatever time, nothing is raised, and every connection settles."""
    tracker = feed(frames)
    tracker.finish()
    progress = tracker.take()
    assert tracker.packets == len(frames)
    assert sorted(c.id for c in progress.opened) == sorted(c.id for c in progress.settled)
    for connection in progress.settled:
        summary(connection, tracker.clock.now_ns)
        connection.attempt_over_ns(tracker.clock.now_ns)
    assert all(moment.text.isprintable() for moment in tracker.timeline.take())


def test_tables_stay_bounded() -> None:
    """A flood of flows holds no more connections than the limits; each one that leaves is settled and counted."""
    tracker = Tracker()
    tracker.quic.flows.limit = tracker.tcp.table.limit = 10
    quic, syn = quic_frames(50000)[0], tcp_frames(50000)[0]
    ports = range(2000, 2100)
    for port in ports:
        for frame in (quic, syn):
            data = bytearray(frame.data)
            data[34:36] = port.to_bytes(2)
            tracker.feed(replace(frame, data=bytes(data)))
    progress = tracker.take()
    assert (len(progress.opened), len(progress.settled), tracker.evicted) == (200, 180, 180)
    assert len(tracker._alive) == 20
