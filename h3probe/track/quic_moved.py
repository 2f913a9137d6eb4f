"""QUIC that appears without an Initial: a connection that moved to other ports, or one from before the capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.track.quic_routing import is_short_header
from h3probe.track.table import BoundedTable

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.packet import UdpDatagram

# So many packets, both ways, that all look like 1-RTT packets are hardly anything else.
SHORT_ENOUGH = 4
# The bits of a first byte that header protection covers (RFC 9001, 5.4.1): they differ from packet to packet.
PROTECTED_BITS = 0x1F
LEAST_VALUES = 3
# Shorter connection IDs are met by chance.
SHORTEST_ID = 4


class Moved:
    """Connections by the IDs that servers gave them: packets sent to one, on other ports, go on with it.

    A client whose address a NAT changes does not know, and goes on with the same ID; one that moves by itself takes a
    new one, which was told to it in secret (RFC 9000, 9.5).

    Args:
        limit: The most IDs, and the most pairs of ports, that are remembered.
    """

    def __init__(self, limit: int) -> None:
        self._by_id: BoundedTable[tuple[Endpoint, bytes], QuicConnection] = BoundedTable(limit)
        self._lengths: set[int] = set()
        self._moved: BoundedTable[tuple[Endpoint, Endpoint], QuicConnection] = BoundedTable(limit)

    def remember(self, connection: QuicConnection) -> None:
        """Take note of a connection that has its server's ID."""
        server_id = connection.server_scid or b""
        if len(server_id) >= SHORTEST_ID:
            self._lengths.add(len(server_id))
            self._by_id.put((connection.server, server_id), connection)

    def forget(self, connection: QuicConnection) -> None:
        """Let go of a connection that has left the table."""
        self._by_id.pop((connection.server, connection.server_scid or b""))

    def find(self, key: tuple[Endpoint, Endpoint], datagram: UdpDatagram) -> QuicConnection | None:
        """Return the connection that a 1-RTT packet on unknown ports goes on with."""
        known = self._moved.get(key)
        if known is None and is_short_header(datagram.payload):
            ids = (datagram.payload[1 : 1 + length] for length in self._lengths)
            found = (self._by_id.peek((datagram.destination, one)) for one in ids)
            known = next((c for c in found if c is not None and c.established), None)
            if known is not None:
                self._moved.put(key, known)
        return None if known is None or known.settled else known


@dataclass(slots=True)
class Looks:
    """What was seen on a pair of ports that may carry QUIC from before the capture.

    Attributes:
        packets: How many, of either direction, look like 1-RTT packets.
        values: A bit for each value in their first bytes of what header protection covers.
        other: Whether something there is no QUIC of any kind.
    """

    packets: list[int]
    values: int = 0
    other: bool = False

    def take(self, payload: bytes, direction: int) -> None:
        """Look at one datagram."""
        if is_short_header(payload):
            self.packets[direction] += 1
            self.values |= 1 << (payload[0] & PROTECTED_BITS)
        else:
            # A long header would have been read; a cleared fixed bit may be greased (RFC 9287).
            self.other = self.other or payload[:1] >= b"\x80"

    @property
    def is_quic(self) -> bool:
        """Whether it is hardly anything else."""
        # Chance makes nearly each packet's value another one; a packet type has one value (OpenVPN's are 0x40 on).
        varied = self.values.bit_count()
        enough = min(self.packets) > 0 and sum(self.packets) >= SHORT_ENOUGH
        return enough and not self.other and varied >= LEAST_VALUES and 2 * varied >= sum(self.packets)
