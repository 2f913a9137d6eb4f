"""What is known of a pair of UDP ports: whose connections they are, and the connection IDs that were chosen there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.events import Endpoint
    from h3probe.wire.quic.packets import LongPacket

CONNECTIONS_PER_FLOW: Final = 32
IDS_PER_SENDER: Final = 64


@dataclass(slots=True)
class Connection:
    """What opens a connection's Initials, and what they carry."""

    client: Endpoint
    key_dcid: bytes
    client_scid: bytes
    largest: dict[bool, int] = field(default_factory=lambda: {True: -1, False: -1})


@dataclass(slots=True)
class Flow:
    """One pair of UDP ports."""

    connections: list[Connection] = field(default_factory=list)
    ids: dict[Endpoint, dict[bytes, None]] = field(default_factory=dict)

    def sent(self, source: Endpoint, scid: bytes) -> None:
        """Take note of a connection ID that one side chose."""
        if not scid:
            return
        known_ids = self.ids.setdefault(source, {})
        known_ids.pop(scid, None)
        known_ids[scid] = None
        if len(known_ids) > IDS_PER_SENDER:
            del known_ids[next(iter(known_ids))]

    def id_at(self, destination: Endpoint, data: bytes, at: int) -> bytes:
        """The connection ID that stands in front, of those that the receiver chose."""
        for connection_id in self.ids.get(destination, ()):
            if data.startswith(connection_id, at):
                return connection_id
        return b""

    def opened_by(self, connection: Connection) -> None:
        """Take note of whose ID opened an Initial."""
        if all(connection is not c for c in self.connections):
            self.connections = [*self.connections[1 - CONNECTIONS_PER_FLOW :], connection]

    def candidates(self, source: Endpoint, packet: LongPacket) -> Iterator[tuple[Connection, bool]]:
        """What may open an Initial: its own ID first, for a client's first flight, then what is known of the flow."""
        own = next((c for c in self.connections if c.client == source and c.key_dcid == packet.dcid), None)
        if own is not None or all(c.client == source for c in self.connections):
            yield own or Connection(source, packet.dcid, packet.scid), True
        for connection in reversed(self.connections):
            if connection is not own:
                yield connection, connection.client == source
        if own is None and not all(c.client == source for c in self.connections):
            yield Connection(source, packet.dcid, packet.scid), True
