"""Takes TCP segments to the connections that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.track.clock import NS
from h3probe.track.lines import TcpLines
from h3probe.track.mark import Mark
from h3probe.track.quic import MARKS_LIMIT
from h3probe.track.table import BoundedTable, RecencyTable
from h3probe.track.tcp import TcpConnection
from h3probe.track.tcp_payload import TcpPayloads
from h3probe.track.tcp_segments import (
    acknowledges_more,
    connects,
    is_anothers_hello,
    is_anothers_syn,
    is_guessed,
    quotes,
    sent_by_server,
)
from h3probe.track.timeline import between
from h3probe.wire.packet import ACK, FIN, RST, SYN
from h3probe.wire.tls import looks_like_client_hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Endpoint, FlowCount
    from h3probe.records import Side
    from h3probe.track.timeline import Timeline
    from h3probe.wire.packet import IcmpError, TcpSegment

# RFC 6298, 2: a first retransmission comes after a second, or 200 ms where a system is eager.
RETRANSMISSION_NS = NS // 10


class TcpTracker:
    """All TCP connections that are alive.

    Args:
        timeline: Where lines for people go.
        new_id: Gives the next connection its id.
        new_tunnel_id: Gives the next tunnel its id.
        limit: The most connections held; the least recently used leaves first.
        on_open: Called with each new connection.
        on_evict: Called with each connection that had to leave, or was replaced on its own ports.

    Attributes:
        table: The connections held, by their ports.
    """

    def __init__(  # noqa: PLR0913 - wiring, by keyword
        self,
        timeline: Timeline,
        new_id: Callable[[], str],
        new_tunnel_id: Callable[[], str],
        *,
        on_open: Callable[[TcpConnection], None],
        on_evict: Callable[[TcpConnection], None],
        limit: int = 8_000,
    ) -> None:
        self._timeline = timeline
        lines = TcpLines(timeline)
        self._say = lines.say
        self._payloads = TcpPayloads(lines, new_tunnel_id)
        self._new_id = new_id
        self._on_open = on_open
        self._on_evict = on_evict
        self.table: RecencyTable[tuple[Endpoint, Endpoint], TcpConnection] = RecencyTable(limit)
        self._over = 0
        # What was left of connections from before the capture, as (a host, the endpoint at the other side).
        self._rests: BoundedTable[tuple[bytes, Endpoint], bool] = BoundedTable(limit)
        # Ports let go of lately: what still comes on them is the rest of a connection that was told.
        # With it where the client's stream began, and how long it was.
        self._past: BoundedTable[tuple[Endpoint, Endpoint], tuple[int, int]] = BoundedTable(limit)

    @property
    def evicted(self) -> int:
        """How many connections had to leave, or had to be left unread."""
        return self.table.evicted - self._over + self._payloads.unread

    def find(self, source: Endpoint, destination: Endpoint) -> TcpConnection | None:
        """Return the connection between two endpoints, whichever is the client."""
        return self.table.get(_key(source, destination))

    def was_before(self, host: bytes, server: Endpoint) -> bool:
        """Whether the last segments of a connection between them were seen, of which nothing else was."""
        return (host, server) in self._rests

    @property
    def rests(self) -> int:
        """Of how many connections no more was seen than segments without payload."""
        return len(self._rests) // 2

    def accept(self, client: Endpoint, server: Endpoint, mark: Mark) -> TcpConnection:
        """Return the connection between two endpoints, a new one where no packet has shown it yet."""
        known = self.find(client, server)
        if known is not None:
            return known
        connection = TcpConnection(self._new_id(), client, server, first=mark, last=mark, connected=mark)
        self._on_open(connection)
        self._remember(_key(client, server), connection)
        return connection

    def _remember(self, key: tuple[Endpoint, Endpoint], connection: TcpConnection) -> None:
        for gone in self.table.put(key, connection):
            self._let_go(gone)
            self._over += gone.ended is not None  # which is not too early
            self._payloads.unread -= gone.given_up  # and is counted once
            self._on_evict(gone)

    def replace(self, connection: TcpConnection) -> None:
        """Let go of a connection whose ports are used anew."""
        key = _key(connection.client, connection.server)
        if self.table.get(key) is connection:
            self.table.pop(key)
            self._on_evict(connection)

    def forget(self, connection: TcpConnection) -> None:
        """Let go of a settled connection."""
        key = _key(connection.client, connection.server)
        if self.table.get(key) is connection:
            self.table.pop(key)
            self._payloads.forget(connection)
            self._let_go(connection)

    def feed(self, segment: TcpSegment) -> None:
        """Take one segment."""
        key = _key(segment.source, segment.destination)
        self.table.now = segment.frame
        connection = self.table.get(key)
        opening = segment.flags & (SYN | ACK) == SYN
        if connection is not None and opening and is_anothers_syn(connection, segment):
            self.table.pop(key)
            self._on_evict(connection)  # The ports are used anew.
            connection = None
        elif connection is not None and is_anothers_hello(connection, segment):
            self.replace(connection)
            connection = None
        if connection is None:
            connection = self._open(segment, opening=opening)
            if connection is None:
                return
            self._remember(key, connection)
        self._take(connection, segment)

    def count(self, connection: TcpConnection, flow: FlowCount) -> None:
        """Take the sums of segments that were not fed, on a connection whose bytes nobody reads any more."""
        last, last_ns = flow.last
        if connection.last.frame is None or last > connection.last.frame:
            connection.last = Mark(last, last_ns)
        for side, stream in ((flow.client, connection.client_stream), (flow.server, connection.server_stream)):
            if side is not None and side.reach is not None:
                seq, size = side.reach
                stream.bytes_seen = max(stream.bytes_seen, stream.offset(seq) + size)
        if flow.turned:
            for answer in flow.answers:
                if answer.asked is not None:
                    connection.asking = Mark(*answer.asked)
                connection.note_response(answer.time_ns, answer.size)
            connection.asking = None if flow.asking is None else Mark(*flow.asking)
        self.table.use(_key(connection.client, connection.server), last)

    def feed_icmp(self, error: IcmpError) -> TcpConnection | None:
        """Take an ICMP error about a segment; return the connection that it is about."""
        self.table.now = error.frame
        connection = self.table.get(_key(error.source, error.destination))
        if connection is None:
            return None
        if not quotes(error, connection):
            return None
        unreachable = error.kind not in ("too-big", "time-exceeded", "other")
        if unreachable and error.source == connection.client and len(connection.refusals) < MARKS_LIMIT:
            mark = Mark(error.frame, error.time_ns)
            connection.refusals.append((mark, error))
            if connection.synack is None and len(connection.refusals) == 1:
                self._timeline.say(
                    connection, mark, f"ICMP {error.meaning}", transport="icmp", outgoing=False, weight="bad"
                )
        return connection

    def _let_go(self, connection: TcpConnection) -> None:
        stream = connection.client_stream
        self._past.put(_key(connection.client, connection.server), (stream.base or 0, stream.bytes_seen))

    def _open(self, segment: TcpSegment, *, opening: bool) -> TcpConnection | None:
        mark = Mark(segment.frame, segment.time_ns)
        past = self._past.peek(_key(segment.source, segment.destination))
        if not opening and not segment.length and not segment.flags & SYN:
            # The rest of a connection that carries nothing more: no more can be said about it than that it was there.
            if past is None and segment.flags & (ACK | RST) == ACK:
                self._rests.put((segment.source.host, segment.destination), True)
                self._rests.put((segment.destination.host, segment.source), True)
            return None
        if past is not None and not segment.flags & SYN:
            repeated = (segment.seq - past[0]) & 0xFFFF_FFFF < past[1]
            if repeated or not looks_like_client_hello(segment.payload):
                return None
        from_server = not opening and sent_by_server(segment)
        client, server = segment.source, segment.destination
        if from_server:
            client, server = server, client
        connection = TcpConnection(self._new_id(), client, server, first=mark, last=mark, mid_stream=not opening)
        self._on_open(connection)
        return connection

    def _take(self, connection: TcpConnection, segment: TcpSegment) -> None:
        mark = Mark(segment.frame, segment.time_ns)
        from_client = segment.source == connection.client
        connection.last = mark
        if connection.reported:
            connection.first, connection.connected = mark, None  # The proxy's report came before its packets.
            connection.mid_stream = connection.cut = not segment.flags & SYN
        if segment.flags & SYN:
            self._syn(connection, segment, mark, from_client=from_client)
        elif from_client and connection.connecting and connects(segment, connection):
            self._connected(connection, segment, mark)
        if segment.payload or segment.length:
            self._payloads.take(connection, segment, mark, from_client=from_client)
        if segment.flags & (FIN | RST) and not is_guessed(segment, connection, from_client=from_client):
            self._end(connection, segment, mark, from_client=from_client)

    def _syn(self, connection: TcpConnection, segment: TcpSegment, mark: Mark, *, from_client: bool) -> None:
        if segment.flags & ACK:
            if connection.synack is None:
                connection.synack = mark
                if connection.syn is None and from_client:
                    # The SYN was missed: who answers one is the server.
                    connection.client, connection.server = connection.server, connection.client
                connection.server_stream.base = (segment.seq + 1) & 0xFFFF_FFFF
                if connection.client_stream.base is None:
                    connection.client_stream.base = segment.ack
                if connection.mid_stream:
                    connection.mid_stream = False
            return
        if connection.syn is not None and mark.time_ns - connection.last_syn_ns < RETRANSMISSION_NS:
            return  # The same packet, captured twice.
        connection.last_syn_ns = mark.time_ns
        connection.syns += 1
        if connection.syn is None:
            connection.syn = mark
            connection.mid_stream = False
            connection.client_isn = segment.seq
            connection.client_stream.base = (segment.seq + 1) & 0xFFFF_FFFF
            self._say(connection, mark, "SYN", outgoing=True, weight="start")
        elif connection.synack is None:
            self._say(connection, mark, f"SYN again, {between(connection.syn, mark)} after the first", outgoing=True)

    def _connected(self, connection: TcpConnection, segment: TcpSegment, mark: Mark) -> None:
        connection.connected = mark
        if connection.server_stream.base is None:
            connection.server_stream.base = segment.ack
        began = connection.syn or mark
        self._say(connection, mark, lambda: f"TCP connected after {between(began, mark)}", outgoing=True)

    def _end(self, connection: TcpConnection, segment: TcpSegment, mark: Mark, *, from_client: bool) -> None:
        side: Side = "client" if from_client else "server"
        first = connection.ended is None
        connection.cut = connection.cut or connection.has_gaps or acknowledges_more(connection, segment)
        stream = connection.client_stream if from_client else connection.server_stream
        if first and stream.base is not None and stream.offset(segment.seq) > stream.bytes_seen:
            connection.cut = True  # What this side sent last was not captured.
        if segment.flags & RST:
            connection.reset = connection.reset or (mark, side)
        else:
            connection.fin = connection.fin or (mark, side)
        if not first:
            return
        if connection.refused:
            self._say(connection, mark, "TCP refused: RST", outgoing=False, weight="bad")
        else:
            what = "RST" if segment.flags & RST else "FIN"
            early = connection.tls is not None and connection.tls.ready is None
            self._say(connection, mark, f"closed by the {side}, {what}", outgoing=from_client,
                      weight="bad" if early else "progress")  # fmt: skip


def _key(a: Endpoint, b: Endpoint) -> tuple[Endpoint, Endpoint]:
    return (a, b) if a <= b else (b, a)
