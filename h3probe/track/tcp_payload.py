"""What TCP connections carry, by their first bytes: TLS, tunnels of a proxy, or HTTP in the clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.text import clean
from h3probe.track.table import BoundedTable
from h3probe.track.tcp import Stream
from h3probe.track.tcp_segments import CONNECT_PREFIXES, LEAP, acknowledges_more
from h3probe.track.timeline import between, offer
from h3probe.track.tls_progress import TlsProgress
from h3probe.track.tunnel import Tunnels
from h3probe.wire.http1 import looks_like_request
from h3probe.wire.packet import SYN
from h3probe.wire.proxy_protocol import header_length
from h3probe.wire.tls import alert_name, looks_like_client_hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.track.lines import TcpLines
    from h3probe.track.mark import Mark
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tunnel import Tunnel
    from h3probe.wire.packet import TcpSegment

# The beginning of HTTP/2's preface (RFC 9113, 3.4), as long as its first segment may be short.
PREFACE: Final = b"PRI * "
# Handshakes that are put together at the same time: what bounds the bytes held, whatever they are.
HANDSHAKES_LIMIT = 1_024
# Bytes that a capture may lack before anything while a handshake is read; beyond is somebody who guesses.
FAR: Final = 1 << 24


class TcpPayloads:
    """Takes what segments carry, of which is known whose they are, into their connections.

    Args:
        lines: Where lines for people go.
        new_tunnel_id: Gives the next tunnel its id.

    Attributes:
        unread: Connections that gave way before what they carry was read.
    """

    def __init__(self, lines: TcpLines, new_tunnel_id: Callable[[], str]) -> None:
        self._say = lines.say
        self._say_tunnel = lines.say_tunnel
        self._new_tunnel_id = new_tunnel_id
        # Connections whose bytes are put together; who holds them longest lets go of them.
        self._reading: BoundedTable[str, TcpConnection] = BoundedTable(HANDSHAKES_LIMIT)
        self.unread = 0

    def take(self, connection: TcpConnection, segment: TcpSegment, mark: Mark, *, from_client: bool) -> None:
        """Take the payload of one segment, which a snaplen may have cut."""
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

    def forget(self, connection: TcpConnection) -> None:
        """Read nothing more of a connection."""
        self._reading.pop(connection.id)

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
            self.unread += gone.given_up
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
