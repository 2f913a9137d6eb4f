"""Takes TCP segments to the connections that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from h3probe.text import clean
from h3probe.track.clock import NS
from h3probe.track.mark import Mark
from h3probe.track.quic import MARKS_LIMIT
from h3probe.track.table import BoundedTable, RecencyTable
from h3probe.track.tcp import Stream, TcpConnection
from h3probe.track.tcp_segments import (
    CONNECT_PREFIXES,
    LEAP,
    acknowledges_more,
    connects,
    is_anothers_hello,
    is_anothers_syn,
    is_guessed,
    quotes,
    sent_by_server,
)
from h3probe.track.timeline import between, offer
from h3probe.track.tls_progress import TlsProgress
from h3probe.track.tunnel import Tunnels
from h3probe.wire.http1 import looks_like_request
from h3probe.wire.packet import ACK, FIN, RST, SYN
from h3probe.wire.proxy_protocol import header_length
from h3probe.wire.tls import alert_name, looks_like_client_hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Endpoint, FlowCount
    from h3probe.records import Side
    from h3probe.track.timeline import Timeline
    from h3probe.track.tunnel import Tunnel
    from h3probe.wire.packet import IcmpError, TcpSegment

Weight = Literal["start", "progress", "good", "bad"]

# Ports of protocols that have nothing to do with HTTP; their connections are tracked and not talked about.
OTHER_PROTOCOLS = frozenset({20, 21, 22, 23, 25, 53, 88, 110, 111, 135, 139, 143, 389, 445, 465, 514, 587, 636, 853,
                             873, 993, 995, 1433, 1521, 1883, 2049, 3306, 3389, 5222, 5432, 5672, 5900, 6379, 9092,
                             11211, 27017})  # fmt: skip
# The beginning of HTTP/2's preface (RFC 9113, 3.4), as long as its first segment may be short.
PREFACE: Final = b"PRI * "
# Handshakes that are put together at the same time: what bounds the bytes held, whatever they are.
HANDSHAKES_LIMIT = 1_024
# Bytes that a capture may lack before anything while a handshake is read; beyond is somebody who guesses.
FAR: Final = 1 << 24
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
        self._new_id = new_id
        self._new_tunnel_id = new_tunnel_id
        self._on_open = on_open
        self._on_evict = on_evict
        self.table: RecencyTable[tuple[Endpoint, Endpoint], TcpConnection] = RecencyTable(limit)
        # Connections whose bytes are put together; who holds them longest lets go of them.
        self._reading: BoundedTable[str, TcpConnection] = BoundedTable(HANDSHAKES_LIMIT)
        self._unread = 0
        self._over = 0
        # What was left of connections from before the capture, as (a host, the endpoint at the other side).
        self._rests: BoundedTable[tuple[bytes, Endpoint], bool] = BoundedTable(limit)
        # Ports let go of lately: what still comes on them is the rest of a connection that was told.
        # With it where the client's stream began, and how long it was.
        self._past: BoundedTable[tuple[Endpoint, Endpoint], tuple[int, int]] = BoundedTable(limit)

    @property
    def evicted(self) -> int:
        """How many connections had to leave, or had to be left unread."""
        return self.table.evicted - self._over + self._unread

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
            self._unread -= gone.given_up  # and is counted once
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
            self._reading.pop(connection.id)
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
            self._payload(connection, segment, mark, from_client=from_client)
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

    def _payload(self, connection: TcpConnection, segment: TcpSegment, mark: Mark, *, from_client: bool) -> None:
        stream = connection.client_stream if from_client else connection.server_stream
        # The SYN takes a sequence number of its own, also with data behind it (RFC 7413).
        seq = segment.seq + 1 if segment.flags & SYN else segment.seq
        if stream.base is None:
            stream.base = seq
        offset = stream.offset(seq)
        if stream.data is not None and not connection.mid_stream and offset - stream.bytes_seen > FAR:
            return
        if connection.tls is None and self._tls_starts(connection, segment, offset, from_client=from_client):
            stream = connection.client_stream
            offset = 0
        stream.bytes_seen = max(stream.bytes_seen, offset + segment.length)
        if stream.data is None:
            if from_client:
                connection.asking = mark
            else:
                connection.note_response(mark.time_ns, segment.length)
            return
        connection.cut = connection.cut or segment.length > len(segment.payload)
        self._read(connection)
        grew = stream.data.add(offset, segment.payload)
        if grew:
            if from_client and connection.tunnels is not None and connection.tunnels.pending is not None:
                self._enter(connection, connection.tunnels.pending, segment)
            unseen = not from_client and connection.undecided
            if unseen and (connection.has_gaps or acknowledges_more(connection, segment)):
                return  # What it answers was not captured, or comes later.
            self._advance(connection, mark, from_client=from_client)

    def _tls_starts(self, connection: TcpConnection, segment: TcpSegment, offset: int, *, from_client: bool) -> bool:
        """Notice a ClientHello where a stream does not start with one: a late capture, or STARTTLS.

        Returns True when the client's stream was begun anew with this segment.
        """
        start = header_length(connection.client_stream.contiguous) or 0
        if offset == start and from_client and not connection.mid_stream and not connection.plain:
            return False  # The ordinary start, which `_recognise` sees.
        if connection.tunnels is not None and connection.tunnels.asked:
            return False
        if not looks_like_client_hello(segment.payload):
            return False
        if not connection.mid_stream and not -LEAP <= offset - connection.client_stream.bytes_seen <= LEAP:
            return False
        if not from_client:
            if not connection.mid_stream:
                return False
            connection.client, connection.server = connection.server, connection.client
        connection.inner = not connection.mid_stream and offset > 0
        connection.client_stream, connection.server_stream = Stream(), Stream()
        connection.client_stream.restart(segment.seq)
        connection.server_stream.restart(segment.ack)
        connection.plain = False
        connection.tls = TlsProgress()
        connection.tls_at = (0, 0)
        return True

    def _enter(self, connection: TcpConnection, tunnel: Tunnel, segment: TcpSegment) -> None:
        """Notice a ClientHello in a tunnel whose answer the client has got, and the capture lacks."""
        server, start = connection.server_stream, tunnel.client_start
        if tunnel.entered or server.base is None or server.offset(segment.ack) <= server.bytes_seen:
            return
        if looks_like_client_hello(connection.client_stream.contiguous[start : start + 10]):
            tunnel.entered = True
            connection.tls = connection.tls or TlsProgress()
            connection.tls_at = (start, 0)

    def _read(self, connection: TcpConnection) -> None:
        """Take note that a connection's bytes are put together; the one longest without any gives way."""
        for gone in self._reading.put(connection.id, connection):
            # Where the capture lacks the rest, nothing is lost with it.
            lacking = gone.cut or gone.has_gaps or (gone.hello is not None and gone.one_sided)
            gone.given_up = gone.is_read and not lacking
            self._unread += gone.given_up
            gone.release()

    def _advance(self, connection: TcpConnection, mark: Mark, *, from_client: bool) -> None:
        if connection.tls is None:
            self._recognise(connection, mark, from_client=from_client)
        if connection.tunnels is not None and not connection.tunnels.over:
            self._tunnels(connection, mark, from_client=from_client)
        tls = connection.tls
        if tls is None or tls.is_over():
            return
        if connection.tunnels is not None and connection.tls_at == (0, 0):
            return  # A proxy's report told of the ClientHello before the tunnel's packets came.
        had_hello = tls.hello is not None
        unanswered = connection.tunnels is not None and connection.tunnels.open is None
        for is_client in (True, False) if from_client else (False, True):
            if unanswered and not is_client:
                continue  # Where TLS begins in what the proxy sends is not known.
            stream = connection.client_stream if is_client else connection.server_stream
            start = connection.tls_at[0 if is_client else 1]
            data = stream.contiguous
            if len(data) > start:
                tls.feed(data[start:] if start else data, mark, from_client=is_client)
        if tls.hello is not None and not had_hello:
            self._hello(connection, mark)
        if tls.is_over():
            self._tls_over(connection, mark)

    def _recognise(self, connection: TcpConnection, mark: Mark, *, from_client: bool) -> None:
        """Say from a connection's first bytes what it carries."""
        if connection.plain or connection.tunnels is not None:
            return
        stream = connection.client_stream.contiguous
        header = 0 if looks_like_client_hello(stream) else header_length(stream)
        if header is None and from_client:
            return
        data = stream[header or 0 :]
        if looks_like_client_hello(data):
            connection.tls = TlsProgress()
            connection.tls_at = (header or 0, 0)
        elif data and any(p.startswith(data[: len(p)]) for p in CONNECT_PREFIXES):
            connection.tunnels = Tunnels()
            connection.plain = True
        elif len(data) >= 6 or (data and looks_like_request(data)) or not from_client:
            connection.plain = True
            self._plain(connection, mark)

    def _plain(self, connection: TcpConnection, mark: Mark) -> None:
        connection.client_bytes_at_ready = connection.server_bytes_at_ready = 0
        if looks_like_request(connection.client_stream.contiguous):
            connection.http = True
            self._say(connection, mark, "HTTP/1.1 in the clear", outgoing=True)
        elif connection.client_stream.contiguous.startswith(PREFACE):
            connection.preface = True
            self._say(connection, mark, "HTTP/2 in the clear", outgoing=True)
        connection.release()
        self._reading.pop(connection.id)

    def _tunnels(self, connection: TcpConnection, mark: Mark, *, from_client: bool) -> None:
        tunnels = connection.tunnels
        if tunnels is None or connection.client_stream.data is None or connection.server_stream.data is None:
            return
        client, server = connection.client_stream.data.contiguous, connection.server_stream.data.contiguous
        if from_client:
            # What is here of a proxy's answers before the first request is the answer to it, in disorder.
            answered = len(server) if tunnels.asked or connection.mid_stream else 0
            tunnel = tunnels.feed_client(client, answered, mark, self._new_tunnel_id)
            if tunnels.over and not tunnels.asked:
                connection.tunnels = None
                self._plain(connection, mark)
            elif tunnel is not None:
                self._say_tunnel(connection, tunnel, f"{tunnel.method} {tunnel.target}", mark, outgoing=True)
                if len(server) > answered:
                    self._tunnels(connection, mark, from_client=False)
            return
        tunnel = tunnels.feed_server(server, mark)
        if tunnel is None:
            return
        if tunnel.waited is None:
            text = f"proxy answered {tunnel.status} to {tunnel.target}"
            self._say_tunnel(connection, tunnel, text, mark, outgoing=False)
        if tunnel.open and tunnel.method == "CONNECT":
            connection.tls = connection.tls or TlsProgress()
            connection.tls_at = (tunnel.client_start, tunnel.server_start)
        elif not tunnel.open:
            # What follows may be the client's next try, already here.
            self._tunnels(connection, mark, from_client=True)

    def _hello(self, connection: TcpConnection, mark: Mark) -> None:
        hello, tunnels = connection.hello, connection.tunnels
        if hello is not None:
            inside = " in the tunnel" if tunnels is not None and tunnels.open else ""
            self._say(connection, mark, lambda: f"ClientHello{inside}, {offer(hello)}", outgoing=True, weight="start")

    def _tls_over(self, connection: TcpConnection, mark: Mark) -> None:
        tls = connection.tls
        if tls is None:
            return
        connection.cut = connection.cut or connection.has_gaps
        connection.client_bytes_at_ready = connection.client_stream.bytes_seen
        connection.server_bytes_at_ready = connection.server_stream.bytes_seen
        connection.release()
        self._reading.pop(connection.id)
        if tls.ready is not None:
            began = connection.syn or connection.first
            chosen = f", {clean(tls.server_hello.alpn, 20)}" if tls.server_hello and tls.server_hello.alpn else ""
            self._say(connection, mark, lambda: f"TCP ready after {between(began, mark)}{chosen}", outgoing=True,
                      weight="good")  # fmt: skip
        elif tls.alert is not None and not connection.unsure:
            side, code = tls.alert
            name = "an encrypted alert" if code is None else f"alert {alert_name(code)}"
            self._say(connection, mark, f"TLS failed: {name}", outgoing=side == "client", weight="bad")

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

    def _say_tunnel(self, connection: TcpConnection, tunnel: Tunnel, text: str, mark: Mark, *, outgoing: bool) -> None:
        refused = tunnel.status is not None and not tunnel.open
        self._timeline.say(
            connection, mark, text, transport="proxy", outgoing=outgoing, weight="bad" if refused else "start"
        )

    def _say(
        self,
        connection: TcpConnection,
        mark: Mark,
        text: str | Callable[[], str],
        *,
        outgoing: bool | None,
        weight: Weight = "progress",
    ) -> None:
        if connection.server.port not in OTHER_PROTOCOLS:
            self._timeline.say(connection, mark, text, transport="tcp", outgoing=outgoing, weight=weight)


def _key(a: Endpoint, b: Endpoint) -> tuple[Endpoint, Endpoint]:
    return (a, b) if a <= b else (b, a)
