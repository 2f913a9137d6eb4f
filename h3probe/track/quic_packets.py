"""What the packets of a QUIC connection change about it: its handshake, its outcome, its sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.text import clean
from h3probe.track.clock import NS
from h3probe.track.quic import MARKS_LIMIT, HelloStream
from h3probe.track.quic_initial import read_initial
from h3probe.track.quic_silence import sent
from h3probe.track.table import BoundedTable
from h3probe.track.timeline import between, offer
from h3probe.wire.quic.errors import error_name
from h3probe.wire.quic.protection import retry_is_valid
from h3probe.wire.quic.versions import version_name

if TYPE_CHECKING:
    from h3probe.track.lines import Lines
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.quic_moved import Moved
    from h3probe.wire.quic.frames import ConnectionClose
    from h3probe.wire.quic.packets import LongPacket

# Hellos that are put together at the same time: what bounds the bytes held, whatever they are.
HANDSHAKES_LIMIT = 2_048
# Initials closer together than this are one flight.
AGAIN_NS = NS // 20
# So many of a connection's Initials are told one by one; a client that repeats itself for ever fills no screen.
SAID_AGAIN = 12


class QuicPackets:
    """Takes packets, of which is known whose they are, into their connections.

    Args:
        lines: Where lines for people go.
        moved: Knows the connections that are ready by their IDs.

    Attributes:
        unread: Connections that gave way before their ClientHello was whole.
    """

    def __init__(self, lines: Lines, moved: Moved) -> None:
        self._say = lines.say
        self._moved = moved
        # Attempts whose hello is put together; who holds it longest lets go of it.
        self._reading: BoundedTable[str, QuicConnection] = BoundedTable(HANDSHAKES_LIMIT)
        self.unread = 0

    def long(self, connection: QuicConnection, packet: LongPacket, mark: Mark, *, from_client: bool) -> bool:
        """Take a long-header packet; return whether it carried a new part of the ClientHello."""
        match packet.kind:
            case "version-negotiation":
                self._version_negotiation(connection, packet, mark, from_client=from_client)
            case "retry":
                self._retry(connection, packet, mark, from_client=from_client)
            case "initial":
                return self._initial(connection, packet, mark, from_client=from_client)
            case "handshake":
                self._handshake(connection, packet, mark, from_client=from_client)
            case "zero-rtt":
                connection.note("Z" if from_client else "z")
            case "unknown":
                connection.note("U" if from_client else "u")
                if not from_client:
                    connection.first_answer = connection.first_answer or mark
        return False

    def _version_negotiation(
        self, connection: QuicConnection, packet: LongPacket, mark: Mark, *, from_client: bool
    ) -> None:
        # RFC 9000, 6.2 and 17.2.1: it echoes both connection IDs, comes before any other answer, and does not
        # list the version it answers; whatever differs is ignored by clients, and so here.
        echoes = packet.dcid == connection.client_scid and packet.scid == connection.dcid
        if from_client or not echoes or connection.first_answer is not None:
            return
        if connection.version in packet.supported_versions or connection.version_negotiation is not None:
            return
        connection.first_answer = mark
        connection.version_negotiation = (mark, packet.supported_versions[:MARKS_LIMIT])
        connection.client_crypto = HelloStream()  # The next version's packet numbers begin anew.
        connection.note("u")
        names = ", ".join(version_name(v) for v in packet.supported_versions[:8])
        self._say(connection, mark, f"Version Negotiation: the server speaks {names}", outgoing=False, weight="bad")

    def _retry(self, connection: QuicConnection, packet: LongPacket, mark: Mark, *, from_client: bool) -> None:
        # RFC 9000, 17.2.5.2: a client takes one, before any Initial of the server, and none without a token.
        if from_client or connection.retry is not None or connection.server_scid is not None:
            return
        if connection.dcid is None or not packet.token or not retry_is_valid(packet, connection.dcid):
            return
        connection.first_answer = connection.first_answer or mark
        connection.retry = mark
        connection.retry_scid = connection.key_dcid = packet.scid
        connection.note("r")
        self._say(connection, mark, "Retry: the server wants the address proven", outgoing=False)

    def _initial(self, connection: QuicConnection, packet: LongPacket, mark: Mark, *, from_client: bool) -> bool:
        for gone in self._reading.put(connection.id, connection):
            gone.given_up = gone.hello is None and gone.client_crypto is not None
            self.unread += gone.given_up
            gone.release()
        read = read_initial(connection, packet, from_client=from_client)
        if not from_client and read.counts:
            self._answered(connection, packet, mark)
        if read.close is not None:
            self._close(connection, read.close, mark, from_client=from_client)
        return read.hello_part

    def hello_sent(self, connection: QuicConnection, mark: Mark) -> None:
        """A datagram from the client carried a part of its ClientHello."""
        previous = connection.hello_datagrams[-1] if connection.hello_datagrams else None
        connection.initials_sent += 1
        if len(connection.hello_datagrams) < MARKS_LIMIT:
            connection.hello_datagrams.append(mark)
        if connection.hello is not None and not connection.introduced:
            connection.introduced, hello = True, connection.hello
            self._say(connection, mark, lambda: f"Initial {connection.version_name}, {offer(hello)}", outgoing=True,
                      weight="start")  # fmt: skip
        elif previous is not None and not connection.answered and mark.time_ns - previous.time_ns > AGAIN_NS:
            since = between(connection.first, mark)
            more = "; further ones are counted, and not listed" if connection.initials_sent == SAID_AGAIN else ""
            if connection.initials_sent <= SAID_AGAIN:
                self._say(connection, mark, f"Initial again (+{since}){more}", outgoing=True)

    def _answered(self, connection: QuicConnection, packet: LongPacket, mark: Mark) -> None:
        first = connection.server_scid is None
        connection.server_scid = packet.scid
        connection.first_answer = connection.first_answer or mark
        if first and not connection.mid_stream:
            self._say(connection, mark, lambda: f"answered after {between(connection.first, mark)}", outgoing=False)

    def _handshake(self, connection: QuicConnection, packet: LongPacket, mark: Mark, *, from_client: bool) -> None:
        connection.note("H" if from_client else "h")
        if from_client:
            if connection.client_short is None:
                connection.client_handshake = mark
        else:
            connection.server_handshake = connection.server_handshake or mark
            connection.server_handshake_last = mark
            self._answered(connection, packet, mark)

    def short(self, connection: QuicConnection, mark: Mark, size: int, *, from_client: bool) -> None:
        """Take a 1-RTT packet; the client's first tells that the connection was ready."""
        connection.note("O" if from_client else "o")
        if from_client:
            connection.client_short_bytes += size
            connection.client_bytes_ready += size
            if connection.client_short is None:
                connection.client_short = mark
                if connection.established and not connection.mid_stream:
                    self._ready(connection, mark)
        else:
            connection.server_short_bytes += size
            if connection.client_short is not None:
                connection.server_bytes_ready += size
            connection.server_short = connection.server_short or mark

    def _ready(self, connection: QuicConnection, mark: Mark) -> None:
        connection.client_crypto = connection.server_crypto = None
        self._moved.remember(connection)
        ready = connection.ready or mark
        self._say(connection, ready, lambda: f"QUIC ready after {between(connection.first, ready)}", outgoing=True,
                  weight="good")  # fmt: skip

    def _close(self, connection: QuicConnection, frame: ConnectionClose, mark: Mark, *, from_client: bool) -> None:
        held = connection.client_close if from_client else connection.server_close
        connection.note("C" if from_client else "c")
        if held is not None:
            return
        if from_client:
            connection.client_close = (mark, frame)
        else:
            connection.server_close = (mark, frame)
        name = error_name(frame.code, application=frame.application) or f"0x{frame.code:x}"
        reason = f" “{clean(frame.reason, 80)}”" if frame.reason else ""
        self._say(connection, mark, f"CONNECTION_CLOSE {name}{reason}", outgoing=from_client, weight="bad")


def count_datagram(connection: QuicConnection, mark: Mark, size: int, *, from_client: bool) -> None:
    """Note that a datagram was seen."""
    sent(connection, mark, from_client=from_client)
    connection.last = mark
    if connection.first.frame is None:
        connection.first = mark  # The proxy's report came before its packets.
    connection.first_size = connection.first_size or size
    if from_client:
        connection.last_client = mark
        connection.client_bytes += size
        connection.client_largest = max(connection.client_largest, size)
    else:
        connection.last_server = mark
        connection.server_bytes += size
        connection.server_largest = max(connection.server_largest, size)


def count_short(connection: QuicConnection, mark: Mark, size: int, largest: int, *, from_client: bool) -> None:
    """Add 1-RTT packets, of which there was one already; they may be told of late, and in any order."""
    connection.last = _later(connection.last, mark)
    if from_client:
        connection.last_client = _later(connection.last_client, mark)
        connection.client_bytes += size
        connection.client_largest = max(connection.client_largest, largest)
        connection.client_short_bytes += size
        connection.client_bytes_ready += size
    else:
        connection.last_server = _later(connection.last_server, mark)
        connection.server_bytes += size
        connection.server_largest = max(connection.server_largest, largest)
        connection.server_short_bytes += size
        connection.server_bytes_ready += size if connection.client_short is not None else 0


def _later(known: Mark | None, mark: Mark) -> Mark:
    return mark if known is None or known.frame is None or (mark.frame or 0) > known.frame else known
