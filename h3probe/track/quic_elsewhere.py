"""Answers to QUIC that come from where nobody asked: another address or port of a server, which a client drops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.track.quic_moved import SHORTEST_ID
from h3probe.track.table import BoundedTable
from h3probe.wire.quic.protection import open_initial, retry_is_valid

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.packet import UdpDatagram
    from h3probe.wire.quic.packets import LongPacket


class Elsewhere:
    """Connections by their client's end and the ID that it chose for itself, which answers are sent to.

    Args:
        limit: The most connections that are remembered.
    """

    def __init__(self, limit: int) -> None:
        self._asking: BoundedTable[tuple[Endpoint, bytes], QuicConnection] = BoundedTable(limit)

    def remember(self, connection: QuicConnection) -> None:
        """Take note of a connection that its client begins."""
        if connection.dcid is not None and connection.client_scid is not None:
            self._asking.put((connection.client, connection.client_scid), connection)

    def forget(self, connection: QuicConnection) -> None:
        """Let go of a connection that has left the table."""
        key = (connection.client, connection.client_scid or b"")
        if self._asking.peek(key) is connection:
            self._asking.pop(key)

    def find(self, datagram: UdpDatagram, packet: LongPacket) -> QuicConnection | None:
        """Return the connection that a packet answers, though it comes from somewhere else.

        It names the client's ID, or opens with keys that only who got the client's Initial has.
        """
        asking = self._asking.peek((datagram.destination, packet.dcid))
        if asking is None or asking.settled or asking.server == datagram.source:
            return None
        return asking if _answers(asking, packet) else None


def _answers(asking: QuicConnection, packet: LongPacket) -> bool:
    if packet.kind == "version-negotiation":
        return packet.scid == asking.dcid
    if packet.kind == "retry":
        return asking.dcid is not None and retry_is_valid(packet, asking.dcid)
    return len(packet.dcid) >= SHORTEST_ID or _opens(asking, packet)


def _opens(asking: QuicConnection, packet: LongPacket) -> bool:
    if packet.kind != "initial" or asking.key_dcid is None:
        return False
    try:
        open_initial(asking.key_dcid, packet, from_client=False)
    except DecodeError:
        return False
    return True
