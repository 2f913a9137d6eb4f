"""What connections say inside their encryption, where their secrets are known.

It begins with the first secrets: a tracker that was given none does not even load this module.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from h3probe.track.decrypted_quic import QuicFollower
from h3probe.track.decrypted_tcp import TcpFollower
from h3probe.track.table import BoundedTable
from h3probe.wire.keylog import KeyLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.events import Secrets, Told
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.wire.packet import TcpSegment
    from h3probe.wire.quic.packets import LongPacket, ShortPacket

# Connections followed at the same time, of each transport; the one that was quiet longest leaves first.
FOLLOWED_LIMIT = 1_024
# Sessions in tunnels that are remembered, so that each is told of once.
TUNNELLED_LIMIT = 65_536
# Bytes that wait for something, over all connections; the one that would need more is given up.
HELD_LIMIT = 128 << 20


class Decrypter:
    """Follows the connections whose secrets are known.

    Attributes:
        keys: The secrets.
        settled: Connections with a ClientHello of which nothing more comes, by whether there are secrets of them.
        given_up: Connections that were let go of because there were too many, or too much had to be kept for them.
    """

    def __init__(self) -> None:
        self.keys = KeyLog()
        self.settled: Counter[bool] = Counter()
        self._tcp: BoundedTable[str, TcpFollower] = BoundedTable(FOLLOWED_LIMIT)
        self._quic: BoundedTable[str, QuicFollower] = BoundedTable(FOLLOWED_LIMIT)
        # Sessions in a proxy's tunnel, by their random, and the connection that tells of each.
        self._tunnelled: BoundedTable[bytes, str] = BoundedTable(TUNNELLED_LIMIT)
        # Those that wait for the secrets of a session, by its random.
        self._wanting: BoundedTable[bytes, TcpFollower | QuicFollower] = BoundedTable(FOLLOWED_LIMIT)
        self._told: list[Told] = []
        self._held = 0
        self._too_much = 0

    @property
    def given_up(self) -> int:
        """How many connections were let go of to keep memory bounded."""
        return self._tcp.evicted + self._quic.evicted + self._too_much

    @property
    def held(self) -> int:
        """Bytes that wait for something, over all connections."""
        return self._held

    def add(self, secrets: Secrets) -> None:
        """Take secrets; what has waited for them is read now."""
        self.keys.growing |= secrets.growing
        for random in self.keys.add(secrets.key_log):
            follower = self._wanting.pop(random)
            if follower is not None and not follower.over:
                before = follower.held
                follower.retry()
                self._account(follower, before)

    def take(self) -> list[Told]:
        """Return what has been read since the last call."""
        told, self._told = self._told, []
        return told

    def segment(self, connection: TcpConnection, segment: TcpSegment) -> None:
        """Take a segment, after the tracker has."""
        follower = self._tcp.get(connection.id)
        if follower is None:
            follower = TcpFollower(connection, self.keys, self._told_of, self._may_tell)
            self._forget(self._tcp.put(connection.id, follower))
        if follower.over:
            return
        before = follower.held
        follower.feed(segment)
        self._account(follower, before)

    def packet(
        self, connection: QuicConnection, packet: LongPacket | ShortPacket, mark: Mark, *, from_client: bool
    ) -> None:
        """Take a packet, after the tracker has."""
        follower = self._quic.get(connection.id)
        if follower is None:
            follower = QuicFollower(connection, self.keys, self._told_of)
            self._forget(self._quic.put(connection.id, follower))
        if follower.over:
            return
        before = follower.held
        follower.feed(packet, mark.time_ns, from_client=from_client)
        self._account(follower, before)

    def settle(self, connection: QuicConnection | TcpConnection) -> None:
        """Nothing more comes of a connection."""
        hello = connection.hello
        if hello is not None and hello.random:
            self.settled[self.keys.get(hello.random) is not None] += 1
        follower = (self._quic if connection.transport == "quic" else self._tcp).pop(connection.id)
        if follower is not None:
            self._held -= follower.held
            follower.end()

    def _forget(self, followers: Sequence[TcpFollower | QuicFollower]) -> None:
        for follower in followers:
            self._held -= follower.held
            follower.give_up()

    def _account(self, follower: TcpFollower | QuicFollower, before: int) -> None:
        self._held += follower.held - before
        if self._held > HELD_LIMIT:
            self._held -= follower.held
            self._too_much += 1
            follower.give_up()
        wanted = follower.wants
        if wanted is not None:
            self._wanting.put(wanted, follower)

    def _may_tell(self, connection: TcpConnection, random: bytes) -> bool:
        """Whether a session was not told of already: what a client says in a tunnel its proxy says on, once more."""
        teller = self._tunnelled.get(random)
        if teller is None and connection.tunnels is not None:
            self._tunnelled.put(random, connection.id)
        return teller in (None, connection.id)

    def _told_of(self, told: Told) -> None:
        self._told.append(told)
