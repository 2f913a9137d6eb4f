"""Which flows carry so much that single packets of them tell nothing more: a download that runs beside a handshake.

A watcher that reads every packet of a transfer one by one slows it down, and loses the one Initial that matters. So of
a flow that has sent hundreds of packets in a moment what only counts is left apart (`h3probe.vantage.ordinary`), and
when it calms down, every packet of it is read again. If all the same more comes than can be read, since there are too
many such flows, or many that are all short, then for a while what only counts is left apart of all flows.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from h3probe.vantage.ordinary import Apart, only_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from h3probe.vantage.packets import Packet

WINDOW_NS: Final = 100_000_000
PACKETS: Final = 128
"""Packets of both directions in a window that make a flow bulk: by then its handshake is over."""
BYTES: Final = 2 << 20
"""Likewise, where single packets are aggregates of many."""

MOST: Final = 12
"""Flows that are left apart at once: the filter has to stay short."""

BACKLOG: Final = 8_192
"""Packets that wait to be read one by one, tenths of a second of work: with so many, all flows are left apart."""

_CALM_NS: Final = 1_000_000_000
_CALM_PACKETS: Final = 1_000
_CALM_BYTES: Final = 16 << 20
"""With fewer of its packets and bytes counted in a calm window, a flow is no longer bulk."""
_CALM_SUM: Final = 20_000
"""With fewer packets of all other flows, each can be read one by one again."""

_KNOWN: Final = 4096
_PORTS = struct.Struct("!HH")
_TCP_UDP: Final = (6, 17)

type Ports = tuple[int, int]
"""A flow by its two ports, the lower one first; addresses are left out, and the filter stays short for it."""


class Bulk:
    """Counts the packets of flows. Sans-IO: times come in with the packets.

    Attributes:
        apart: What is to be left apart.
        changed: Whether the filters have to be told of that; see `told`.
    """

    def __init__(self) -> None:
        self.apart = Apart()
        self.changed = False
        self._counts: dict[Ports, list[int]] = {}  # packets and bytes in this window
        self._since_ns = 0
        self._left: dict[Ports, list[int]] = {}  # flows left apart; their packets and bytes in this calm window
        self._others = self._counted_others = 0  # packets read of other flows, one by one and else
        self._read = self._came = 0  # of those that only count
        self._behind = False
        self._calm_since_ns = 0
        self._told_ns = 0

    def keep(self, packet: bytes, network: int, time_ns: int) -> bool:
        """Count a packet of those that are read one by one; return whether it is to be looked at.

        What only counts, and came before the filter knew of it, is not.

        Args:
            packet: Its bytes.
            network: Where its network header begins.
            time_ns: When it was seen.
        """
        self._others += 1
        found = _transport(packet, network)
        if found is None:
            return True
        _, ports = found
        if ports not in self._left:
            self._count(ports, len(packet), time_ns)
            if not self.apart.everything:
                return True
        else:
            _add(self._left[ports], len(packet))
        return not ((self.changed or time_ns <= self._told_ns) and only_counts(packet, network))

    def _count(self, ports: Ports, size: int, time_ns: int) -> None:
        if abs(time_ns - self._since_ns) >= WINDOW_NS or len(self._counts) >= _KNOWN:
            self._since_ns = time_ns
            self._counts.clear()
        count = self._counts.setdefault(ports, [0, 0])
        _add(count, size)
        if (count[0] < PACKETS and count[1] < BYTES) or len(self._left) >= MOST:
            return
        if not self._left and not self.apart.everything:
            self._begin_window(time_ns)
        # As if it had been seen often enough already: its first calm window may be a short one.
        self._left[ports] = [_CALM_PACKETS, 0]
        self._leave(everything=self.apart.everything)

    def counted(self, flows: Mapping[Ports, tuple[int, int]], read: int, came: int) -> None:
        """Take note of packets that only count.

        Args:
            flows: Packets and bytes that were read, of flows that are left apart and of others perhaps.
            read: How many were read in all.
            came: How many came. Where that is more, a flow is not calm because little of it was read.
        """
        self._read += read
        self._came += came
        self._behind = self._behind or came > read + _CALM_PACKETS
        for ports, (packets, size) in flows.items():
            if ports in self._left:
                _add(self._left[ports], size, packets)
                read -= packets
        self._counted_others += read

    def waiting(self, packets: int, now_ns: int) -> None:
        """Take note of how many packets wait to be read one by one."""
        if packets >= BACKLOG and not self.apart.everything:
            self._begin_window(now_ns)
            self._others = _CALM_SUM
            self._leave(everything=True)

    def calm_down(self, now_ns: int) -> None:
        """Let go of flows that have calmed down; to be called now and then."""
        if not self.apart or abs(now_ns - self._calm_since_ns) < _CALM_NS:
            return
        self._left = {
            ports: [0, 0]
            for ports, (packets, size) in self._left.items()
            if self._behind or packets >= _CALM_PACKETS or size >= _CALM_BYTES
        }
        others = self._others + self._counted_others * self._came // max(self._read, 1)
        everything = self.apart.everything and others >= _CALM_SUM
        self._begin_window(now_ns)
        self._leave(everything=everything)

    def _begin_window(self, now_ns: int) -> None:
        self._calm_since_ns = now_ns
        self._others = self._counted_others = self._read = self._came = 0
        self._behind = False

    def _leave(self, *, everything: bool) -> None:
        apart = Apart(frozenset(self._left), everything)
        self.changed = self.changed or apart != self.apart
        self.apart = apart

    def told(self, now_ns: int) -> None:
        """The filters know of `apart` from now on."""
        self.changed = False
        self._told_ns = now_ns


def _add(count: list[int], size: int, packets: int = 1) -> None:
    count[0] += packets
    count[1] += size


def flows_of(packets: Iterable[Packet]) -> dict[Ports, tuple[int, int]]:
    """Of each flow how many packets there are, and how many bytes were on the wire."""
    flows: dict[Ports, tuple[int, int]] = {}
    for packet in packets:
        found = None if packet.network is None else _transport(packet.data, packet.network)
        if found is not None:
            count, size = flows.get(found[1], (0, 0))
            flows[found[1]] = count + 1, size + packet.length
    return flows


def _transport(packet: bytes, network: int) -> tuple[int, Ports] | None:
    """Where TCP or UDP begins, and its ports: over IPv4, or over IPv6 without extension headers."""
    if len(packet) < network + 40:
        return None
    version = packet[network] >> 4
    if version == 4:
        if packet[network + 9] not in _TCP_UDP or packet[network + 6] & 0x1F or packet[network + 7]:
            return None
        at = network + (packet[network] & 0x0F) * 4
    elif version == 6 and packet[network + 6] in _TCP_UDP:
        at = network + 40
    else:
        return None
    if len(packet) < at + 14:
        return None
    source, destination = _PORTS.unpack_from(packet, at)
    return at, (source, destination) if source <= destination else (destination, source)
