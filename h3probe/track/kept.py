"""The connections that the diagnosis looks at: the latest as they are, earlier ones packed where that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.track.packed import PackedConnections
from h3probe.track.table import BoundedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from h3probe.events import Endpoint
    from h3probe.track.tracker import Connection

LIMIT: Final = 18_000
"""Connections kept as they are, at most: more than are followed at a time, so that some are over."""
UNPACKED: Final = 4_000
"""Connections kept as they are where others may be packed that are over."""
AT_ONCE: Final = 2_000
"""How many are packed at once, when there are more."""
OF_A_CLIENT: Final = 20_000
"""Connections of one client that are looked at together: unpacked, they take most of the memory that there is."""


class KeptConnections:
    """Connections by id.

    Args:
        limit: How many are kept as they are; of more the ones used least recently are forgotten, and counted.
        unpacked: From how many on those that are over are packed, where that is wanted.
        packed: Keeps those.
    """

    def __init__(self, limit: int = LIMIT, unpacked: int = UNPACKED, packed: PackedConnections | None = None) -> None:
        self._table: BoundedTable[str, Connection] = BoundedTable(limit)
        self._packed = packed or PackedConnections()
        self._unpacked = unpacked
        self._until_packing = 0

    def __iter__(self) -> Iterator[Connection]:
        """Give those that are kept as they are."""
        return iter(self._table)

    def get(self, connection_id: str) -> Connection | None:
        """Return one that is kept as it is and mark it as used, or None."""
        return self._table.get(connection_id)

    def peek(self, connection_id: str) -> Connection | None:
        """Return one that is kept as it is, or None."""
        return self._table.peek(connection_id)

    def put(self, connection: Connection, *, packs: bool = False) -> Sequence[Connection]:
        """Keep a connection.

        Args:
            connection: It.
            packs: Whether others that are over may be packed.

        Returns:
            Those that were; they take room as long as anybody else keeps them.
        """
        self._until_packing -= 1
        packed: Sequence[Connection] = ()
        if packs and self._until_packing <= 0 and len(self._table) >= self._unpacked:
            packed = self._pack()
        self._table.put(connection.id, connection)
        return packed

    def _pack(self) -> Sequence[Connection]:
        """Pack the oldest that are over.

        On loopback, whose clients may be any of the host's, one client's are not enough to tell its stories.
        """
        over = [c for c in self._table if c.settled and not c.client.is_loopback][:AT_ONCE]
        # Looking through all of them is not for each one that comes; many are packed tighter than few.
        some = AT_ONCE // 8
        room = self._table.limit - len(self._table) - some
        self._until_packing = max(min(AT_ONCE - len(over), room), some)
        if len(over) < AT_ONCE and room > 0:
            return ()
        self._packed.put(over)
        for connection in over:
            self._table.pop(connection.id)
        return over

    @property
    def evicted(self) -> int:
        """How many were forgotten."""
        return self._table.evicted + self._packed.left_out

    @property
    def tunnelled(self) -> set[bytes]:
        """The randoms of ClientHellos that were sent through tunnels, where not all connections are seen together."""
        return self._packed.tunnelled

    def by_client(self, identity: Callable[[Endpoint], str]) -> Iterator[list[Connection]]:
        """Give all connections; where some are packed, client by client, and these once.

        Of a client that made more than can be looked at together, those in the middle are forgotten.

        Args:
            identity: Tells which host an address belongs to.
        """
        if not len(self._packed):
            yield list(self)
            return
        self._packed.note_tunnels(self)
        packed: dict[str, list[bytes]] = {}
        for client in self._packed.clients:
            packed.setdefault(identity(client), []).append(client.host)
        kept: dict[str, list[Connection]] = {}
        for connection in self:
            kept.setdefault(identity(connection.client), []).append(connection)
        for host in dict.fromkeys([*packed, *kept]):
            latest = kept.get(host, [])
            yield [*self._packed.take(packed.get(host, ()), OF_A_CLIENT - len(latest)), *latest]
