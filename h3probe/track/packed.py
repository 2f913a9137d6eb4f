"""Connections of which nothing more is expected, kept in little room until the diagnosis asks for them.

A connection and what is known of it take some 3 kB, packed some 200 bytes. What is done with those of one client does
not depend on another client's, so that they are unpacked client by client.
"""

from __future__ import annotations

import pickle
import zlib
from typing import TYPE_CHECKING, Final

from h3probe.events import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.track.tracker import Connection

ROOM: Final = 24 * 1024 * 1024
"""Bytes that all of them may take, packed."""
MOST_OF_A_HOST: Final = 20_000
"""Connections of one client that can be unpacked together with those that are not packed."""
# A higher level takes four times as long and saves a sixth.
_LEVEL: Final = 1


class PackedConnections:
    """Settled connections by their client's address, in the order in which they were put in.

    Args:
        room: Bytes that they may take.
        most: Connections that are kept of one address.

    Attributes:
        left_out: How many there was no room for.
        tunnelled: The randoms of ClientHellos that were seen inside of tunnels; a proxy may have sent them on.
    """

    def __init__(self, room: int = ROOM, most: int = MOST_OF_A_HOST) -> None:
        self.left_out = 0
        self.tunnelled: set[bytes] = set()
        self._room = room
        self._most = most
        self._packs: dict[bytes, list[bytes]] = {}
        self._counts: dict[bytes, int] = {}

    def __len__(self) -> int:
        return sum(self._counts.values())

    @property
    def clients(self) -> list[Endpoint]:
        """The addresses, in the order in which they came; the port says nothing."""
        return [Endpoint(host, 0) for host in self._packs]

    def put(self, connections: Iterable[Connection]) -> None:
        """Pack connections; those that there is no room for are counted instead."""
        connections = list(connections)
        self.note_tunnels(connections)
        by_host: dict[bytes, list[Connection]] = {}
        for connection in connections:
            by_host.setdefault(connection.client.host, []).append(connection)
        for host, group in by_host.items():
            fitting = group[: self._most - self._counts.get(host, 0)] if self._room > 0 else []
            self.left_out += len(group) - len(fitting)
            if not fitting:
                continue
            pack = zlib.compress(pickle.dumps(fitting, pickle.HIGHEST_PROTOCOL), _LEVEL)
            self._room -= len(pack)
            self._packs.setdefault(host, []).append(pack)
            self._counts[host] = self._counts.get(host, 0) + len(fitting)

    def note_tunnels(self, connections: Iterable[Connection]) -> None:
        """Take note of what was sent through tunnels on these connections, packed or not."""
        for connection in connections:
            if connection.transport == "quic" or connection.hello is None:
                continue
            if connection.tunnels is not None and connection.tunnels.asked:
                self.tunnelled.add(connection.hello.random)

    def take(self, hosts: Iterable[bytes]) -> list[Connection]:
        """Unpack the connections of these addresses; they are not here any more."""
        found: list[Connection] = []
        for host in hosts:
            self._counts.pop(host, None)
            for pack in self._packs.pop(host, ()):
                self._room += len(pack)
                found += pickle.loads(zlib.decompress(pack))  # noqa: S301 - packed above, and never out of this process
        return found
