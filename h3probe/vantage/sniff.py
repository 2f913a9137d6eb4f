"""The live watcher: frames from interfaces, for a plain `selectors` loop.

    with Sniffer(["eth0"]) as sniffer:
        selector.register(sniffer, selectors.EVENT_READ)
        ...
        for event in sniffer.read(): engine.feed(event)

On Linux the packets come from `h3probe.vantage.two_sockets`, elsewhere from scapy's own sockets
(`h3probe.vantage.scapy_sockets`, for want of AF_PACKET; never tried on such a machine). Nothing is dissected here.
"""

from __future__ import annotations

import itertools
import select
import sys
import time
from typing import TYPE_CHECKING, Self

from h3probe.events import Block, Dropped, Frame, Uncounted
from h3probe.vantage import interfaces as host_interfaces
from h3probe.vantage.bulk import Bulk
from h3probe.vantage.duplicates import Duplicates
from h3probe.vantage.wide import RECORDED_LOOK_S, Wide

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Iterator, Sequence
    from types import TracebackType

    from h3probe.vantage.packets import Packet, Source

type Sniffed = Frame | Block | Dropped | Uncounted

BATCH = 128
"""Packets read at once, at most: ten milliseconds of work if all of them are handshakes'. A loop that gets a tenth of a
processor is back in time for the next ones, and a flood does not keep it from its other work."""

LONG_PAUSE_S = 0.05
"""Whose a short connection is that opens beside a long transfer, is asked at the next look."""

_LOOK_AGAIN_S = 1.0
REST_S = 15.0
"""How long the end of a run may take, at most."""

_LAST_BLOCK_S = 0.02


class Sniffer:
    """A source of packets, and of what was lost of them: the traffic of this host, or of this network namespace of it.

    Each packet is given once: outgoing copies on loopback are dropped by the filter, and copies of one packet on
    several interfaces are recognised and counted (the first one is kept).

    What only counts, the inside of long transfers, comes by a socket of its own, after all the rest, cut to its
    headers, and in blocks once there is much of it. When more comes than can be read, it is that which is lost.

    Args:
        interfaces: Names; none means all there are and will be. One that goes away and comes back is found again.
        ports: Keep TCP and UDP of these ports only, and whatever may explain them (`h3probe.vantage.bpf`).
        hosts: Likewise, packed addresses.
        opened: The two packet sockets to read, of another network namespace; `interfaces` would be names of this one.
        numbers: Where frame numbers come from, shared when there are several vantage points; else from 1.

    Attributes:
        long_pause_s: How long a long transfer is left alone between two looks, which each take some of its time.
        more_waits: Whether more waits than was read last, of which the socket need not tell.

    Raises:
        PrivilegeError: Neither root nor CAP_NET_RAW.
        UserError: There is no such interface.
    """

    def __init__(
        self,
        interfaces: Sequence[str] = (),
        *,
        ports: Collection[int] = (),
        hosts: Collection[bytes] = (),
        opened: tuple[socket.socket, socket.socket] | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.long_pause_s = LONG_PAUSE_S
        self._names = list(interfaces)
        self._indexes = host_interfaces.indexes(interfaces)
        self._source = _open(self._indexes, ports, hosts, opened)
        self._numbers = itertools.count(1) if numbers is None else numbers
        self._table = Duplicates()
        self._bulk: Bulk | None = Bulk()
        self._wide = Wide(self._source, self._numbers, self._frame)
        self._reported = 0
        self._read = self._left = 0
        self.more_waits = False
        self._looked = time.monotonic()

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """What to wait for: each is readable when `read` has something to give that should not wait."""
        return self._source.sockets

    @property
    def pause_s(self) -> float:
        """How long nobody needs to read now; not at all while more waits than was read."""
        return self.long_pause_s if not self.more_waits and self._bulk is not None and self._bulk.apart.flows else 0.0

    def fileno(self) -> int:
        """The one descriptor to wait for on Linux; elsewhere the first of `sockets`."""
        return self.sockets[0].fileno()

    @property
    def duplicates(self) -> int:
        """Packets left out so far because they were seen on another interface already."""
        return self._table.count + self._wide.copies

    def begin(self) -> None:
        """Let the watching begin here, if packets were lost already: nobody was told until now that it goes on."""
        if self._source.statistics()[1]:
            self._source.clear()
            self._read = self._reported = 0

    def read(self, limit: int = BATCH, *, last: bool = False) -> list[Sniffed]:
        """What waits, without blocking; an empty list when nothing does.

        First what may decide something, at most `limit` packets of it. Then, if no more of that waits, and now and
        then, of what only counts as much as takes some milliseconds. A `Dropped` stands behind the frames that were
        read before the loss was noticed.

        Args:
            limit: Frames of what may decide something.
            last: Whether what only counts is not to wait for better times.
        """
        self._look_for_interfaces()
        self._source.make_room()
        events: list[Sniffed] = []
        late: list[Packet] = []
        self.more_waits = True
        for _ in range(limit):
            self._tell_filters()
            packet = self._source.read()
            if packet is None:
                self.more_waits = False
                break
            self._read += 1
            if (
                self._bulk is not None
                and packet.network is not None
                and not self._bulk.keep(packet.data, packet.network, packet.time_ns)
            ):
                late.append(packet)
            elif (frame := self._frame(packet)) is not None:
                events.append(frame)
        if self._bulk is not None and self.more_waits:
            self._bulk.waiting(self._source.unread(), time.time_ns())
        self._tell_filters()
        # Where all flows are left apart, what only counts is of new ones too, which should not wait.
        at_once = last or self._bulk is None or self._bulk.apart.everything
        if last or late or not self.more_waits:
            events += self._wide.read(late, self._bulk, at_once=at_once)
        self.more_waits = self.more_waits or self._wide.more_waits
        _, dropped = self._source.statistics()
        if dropped > self._reported:
            events.append(Dropped(dropped - self._reported, "the kernel's receive buffer was full"))
            self._reported = dropped
        return [*events, *self._wide.losses()]

    def _tell_filters(self) -> None:
        bulk = self._bulk
        if bulk is None or not bulk.changed:
            return
        if self._source.set_apart(bulk.apart):
            bulk.told(time.time_ns())
        else:
            self._bulk = None

    def _frame(self, packet: Packet) -> Frame | None:
        """A packet with a number; None for a copy of one that was given."""
        if self._is_duplicate(packet):
            return None
        return Frame(
            next(self._numbers), packet.time_ns, packet.link_type, packet.data, packet.length, packet.interface
        )

    def rest(self) -> list[Sniffed]:
        """What is there after the last moment of interest: the counts are final then.

        It is bounded: a flood does not keep a run from ending, and what is left unread then is counted as lost.
        """
        rest: list[Sniffed] = []
        left, uncounted = self._source.unread(), self._wide.waiting()
        deadline = time.monotonic() + REST_S
        while (max(left, uncounted) > 0 or self._wide.holds_back) and time.monotonic() < deadline:
            before = self._read, self._wide.given
            rest += self.read(last=True)
            left -= self._read - before[0]
            uncounted -= self._wide.given - before[1]
            if before == (self._read, self._wide.given):
                select.select(self.sockets, [], [], _LAST_BLOCK_S)
        self._left, self._wide.unread = max(0, left), max(0, uncounted)
        if self._left:
            rest.append(Dropped(self._left, "h3probe ended before it had read them"))
        return [*rest, *self._wide.losses()]

    def keep_everything(self) -> None:
        """Give every packet whole, those of long transfers too."""
        self._bulk = None
        self._source.keep_whole()

    def keep_order(self, *, in_blocks: bool) -> None:
        """Let nothing wait longer than it has to: what is given is recorded.

        Args:
            in_blocks: Whether what only counts may come in blocks; otherwise each packet is a frame.
        """
        self._wide.look_s = RECORDED_LOOK_S
        self._wide.one_by_one = not in_blocks

    def _is_duplicate(self, packet: Packet) -> bool:
        # What goes over loopback goes over nothing else.
        if packet.network is None or packet.interface == "lo":
            return False
        return self._table.seen((packet.interface, packet.outgoing), packet.time_ns, packet.data[packet.network :])

    def _look_for_interfaces(self) -> None:
        """Find an interface again that was taken away and came back under another index (a VPN that reconnects)."""
        if not self._names or time.monotonic() - self._looked < _LOOK_AGAIN_S:
            return
        self._looked = time.monotonic()
        known = host_interfaces.by_name()
        found = [known.get(name, index) for name, index in zip(self._names, self._indexes, strict=True)]
        if found != self._indexes:
            self._indexes = found
            self._source.watch(found)

    def statistics(self) -> tuple[int, int]:
        """(packets received, packets lost), since the start; duplicates are among the received.

        Those that only count are among neither when they were lost (`uncounted`).
        """
        received, dropped = self._source.statistics()
        return received + self._wide.given + self._wide.waiting(), dropped + self._left

    @property
    def uncounted(self) -> int:
        """Packets lost that only count."""
        return self._wide.lost

    def close(self) -> None:
        """Stop watching."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _open(
    indexes: Collection[int],
    ports: Collection[int],
    hosts: Collection[bytes],
    opened: tuple[socket.socket, socket.socket] | None,
) -> Source:
    source: Source
    if sys.platform == "linux":
        from h3probe.vantage.two_sockets import PacketSource  # noqa: PLC0415 - importable on Linux only

        source = PacketSource(interfaces=indexes, ports=ports, hosts=hosts, opened=opened)
    else:
        from h3probe.vantage.scapy_sockets import ScapySource  # noqa: PLC0415 - scapy is imported only where it serves

        source = ScapySource(interfaces=indexes)
    return source
