"""Which QUIC connection a packet belongs to: ports first, then connection IDs (RFC 9000, 5.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.wire.quic.packets import ShortPacket
from h3probe.wire.quic.protection import open_initial, retry_is_valid

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.packet import IcmpError, UdpDatagram
    from h3probe.wire.quic.packets import LongPacket

# A header of one byte, and what header protection needs: a packet number of up to 4 bytes and 16 bytes of sample.
SHORTEST_1RTT = 21


@dataclass(slots=True)
class QuicFlow:
    """What one pair of UDP ports carries: usually one connection, several when a client tries again."""

    connections: list[QuicConnection] = field(default_factory=list)


def flow_key(a: Endpoint, b: Endpoint) -> tuple[Endpoint, Endpoint]:
    """The same for both directions."""
    return (a, b) if a <= b else (b, a)


def is_short_header(payload: bytes) -> bool:
    """Whether this can be a 1-RTT packet: the form bit clear, the fixed bit set, long enough (RFC 9000, 17.3.1)."""
    return len(payload) >= SHORTEST_1RTT and payload[0] & 0xC0 == 0x40


def server_side(datagram: UdpDatagram) -> bool:
    """Guess, for a connection whose start was missed, whether its server sent this: servers have the low port."""
    return datagram.source.port < datagram.destination.port


def destination_id(flow: QuicFlow, datagram: UdpDatagram) -> bytes:
    """The connection ID that packets of this datagram start with, as far as is known."""
    payload = datagram.payload
    if len(payload) > 6 and payload[0] & 0x80:
        return payload[6 : 6 + payload[5]]
    for connection in reversed(flow.connections):
        known = connection.server_scid if datagram.source == connection.client else connection.client_scid
        if known and payload.startswith(known, 1):
            return known
    return b""


def opens_as_client(packet: LongPacket) -> bool:
    """Whether this is a client's first Initial: its own Destination Connection ID gives the keys."""
    return _opens(packet.dcid, packet, from_client=True)


def long_connection(flow: QuicFlow, datagram: UdpDatagram, packet: LongPacket) -> QuicConnection | None:
    """The connection that a long-header packet names with its connection IDs."""
    answered: list[QuicConnection] = []
    for connection in reversed(flow.connections):
        if connection.gquic is not None:
            return connection
        if datagram.source == connection.client:
            if packet.scid == connection.client_scid and _is_continued(connection, packet):
                return connection
        elif packet.dcid == connection.client_scid:
            answered.append(connection)
    if len(answered) > 1:  # Attempts of a client that uses no IDs of its own.
        return next((c for c in answered if _answers(c, packet)), answered[0])
    return answered[0] if answered else None


def _answers(connection: QuicConnection, packet: LongPacket) -> bool:
    """Whether a server's packet belongs to a connection by the server's ID, or by what its first Initial gives."""
    if connection.server_scid is not None:
        return packet.scid == connection.server_scid
    if connection.dcid is None or connection.key_dcid is None:
        return False
    if packet.kind == "retry":
        return retry_is_valid(packet, connection.dcid)
    if packet.kind == "version-negotiation":
        return packet.scid == connection.dcid
    return packet.kind == "initial" and _opens(connection.key_dcid, packet, from_client=False)


def _opens(key_dcid: bytes | None, packet: LongPacket, *, from_client: bool) -> bool:
    """Whether an Initial opens with the keys that a connection ID gives."""
    if key_dcid is None:
        return False
    try:
        open_initial(key_dcid, packet, from_client=from_client)
    except DecodeError:
        return False
    return True


def _is_continued(connection: QuicConnection, packet: LongPacket) -> bool:
    """Whether a client's packet with a connection's Source Connection ID goes on with it, or begins another one."""
    if packet.kind == "initial" and _answered_before(connection) and opens_as_client(packet):
        connection.dcid = connection.key_dcid = packet.dcid
        return True
    if packet.kind != "initial" or packet.dcid in (connection.dcid, connection.retry_scid, connection.server_scid):
        return True
    if not opens_as_client(packet):
        # To an ID of the server's, whose packets the capture lacks: the keys tell whose it is.
        return bool(packet.scid) or _opens(connection.key_dcid, packet, from_client=True)
    # It begins with keys of its own. The same non-empty ID and a token: it follows a Retry that was not seen, or a
    # Version Negotiation; else it is a new connection of a client that uses no IDs of its own.
    follows = bool(packet.scid) and (bool(packet.token) or connection.version_negotiation is not None)
    if follows:
        connection.key_dcid = connection.retry_scid = packet.dcid
        connection.answer_acked = True
    return follows


def _answered_before(connection: QuicConnection) -> bool:
    """Whether only a server's packets were seen, so that the Initial that they answer may stand behind them."""
    return connection.mid_stream and connection.dcid is None and connection.last_client is None


def short_connection(flow: QuicFlow, datagram: UdpDatagram, packet: ShortPacket) -> QuicConnection | None:
    """The connection of a short-header packet: by its connection ID, else the latest that is under way."""
    for connection in reversed(flow.connections):
        known = connection.server_scid if datagram.source == connection.client else connection.client_scid
        if known and packet.data.startswith(known, 1):
            return connection
    # The connection ID may have been renewed, or be empty.
    under_way = [c for c in flow.connections if c.answered or c.mid_stream]
    return under_way[-1] if under_way else None


def greased(flow: QuicFlow, datagram: UdpDatagram, payload: bytes) -> list[LongPacket | ShortPacket]:
    """A 1-RTT packet whose fixed bit is cleared, as both may do that agreed on it in secret (RFC 9287); else nothing.

    The connection ID tells it from what is no QUIC.
    """
    if len(payload) < SHORTEST_1RTT or payload[0] & 0xC0:
        return []
    for connection in flow.connections:
        known = connection.server_scid if datagram.source == connection.client else connection.client_scid
        if known and payload.startswith(known, 1):
            return [ShortPacket(0, payload)]
    return []


def quoted_connection(flow: QuicFlow, error: IcmpError) -> QuicConnection | None:
    """The connection whose connection ID the quoted datagram shows; the latest where the quote is too short for one.

    A quote with another connection ID is about an earlier use of these ports, or forged.
    """
    quoted = error.quoted
    if len(quoted) > 6 and quoted[0] & 0x80:
        dcid = quoted[6 : 6 + quoted[5]]
        for connection in reversed(flow.connections):
            ids = (connection.dcid, connection.retry_scid, connection.server_scid, connection.client_scid)
            if dcid in ids:
                return connection
        if len(dcid) == quoted[5]:
            return None
    return flow.connections[-1]
