"""Connections of which nothing more is expected, kept in little room until the diagnosis asks for them.

A connection and what is known of it take some 3 kB, packed some 200 bytes. What is done with those of one client does
not depend on another client's, so that they are unpacked client by client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.events import Endpoint
from h3probe.packing import SAMPLES, Packing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.track.tracker import Connection

ROOM: Final = 20 * 1024 * 1024
"""Bytes that all of them may take, packed."""
_BESIDE: Final = 200
"""What Python takes beside a pack's own bytes, about: a client that comes once takes as much room as two others."""


class PackedConnections:
    """Settled connections by their client's address, in the order in which they were put in.

    Args:
        room: Bytes that they may take.

    Attributes:
        left_out: How many there was no room for.
        tunnelled: The randoms of ClientHellos that were seen inside of tunnels; a proxy may have sent them on.
    """

    def __init__(self, room: int = ROOM) -> None:
        self.left_out = 0
        self.tunnelled: set[bytes] = set()
        self._room = room
        self._packing: Packing | None = None
        # Of each address the packs, and how many connections are in each.
        self._packs: dict[bytes, list[tuple[bytes, int]]] = {}

    def __len__(self) -> int:
        return sum(count for packs in self._packs.values() for _, count in packs)

    @property
    def clients(self) -> list[Endpoint]:
        """The addresses, in the order in which they came; the port says nothing."""
        return [Endpoint(host, 0) for host in self._packs]

    def put(self, connections: Iterable[Connection]) -> None:
        """Pack connections; those that there is no room for are counted instead."""
        connections = list(connections)
        if not connections:
            return
        self.note_tunnels(connections)
        self._packing = self._packing or Packing(connections[-SAMPLES:])
        by_host: dict[bytes, list[Connection]] = {}
        for connection in connections:
            by_host.setdefault(connection.client.host, []).append(connection)
        for host, group in by_host.items():
            if self._room <= 0:
                self.left_out += len(group)
                continue
            pack = self._packing.pack(group)
            self._room -= len(pack) + _BESIDE
            self._packs.setdefault(host, []).append((pack, len(group)))

    def note_tunnels(self, connections: Iterable[Connection]) -> None:
        """Take note of what was sent through tunnels on these connections, packed or not."""
        for connection in connections:
            if connection.transport == "quic" or connection.hello is None:
                continue
            if connection.tunnels_asked:
                self.tunnelled.add(connection.hello.random)

    def take(self, hosts: Iterable[bytes], most: int) -> list[Connection]:
        """Unpack the connections of these addresses; they are not here any more.

        Args:
            hosts: The addresses.
            most: How many are wanted; the later ones beyond that are left out, and counted.
        """
        found: list[Connection] = []
        for host in hosts:
            for pack, count in self._packs.pop(host, ()):
                self._room += len(pack) + _BESIDE
                room = max(0, most - len(found))
                self.left_out += max(0, count - room)
                if room and self._packing is not None:
                    found += self._packing.unpack(pack)[:room]
        return found
