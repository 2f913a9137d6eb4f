"""Which flows carry so much that single packets of them tell nothing more: a download that runs beside a handshake.

A watcher that reads every packet of a transfer slows it down, and loses the one Initial that matters. So a flow that
has sent hundreds of packets in a moment is thinned out by the kernel's filter (`h3probe.vantage.bpf`): of its TCP
segments and QUIC short headers only every so manyth is kept, at random, and whatever opens or ends something (SYN, FIN,
RST, long headers) always. When it calms down, every packet of it is kept again.
"""

from __future__ import annotations

import struct
from typing import Final

WINDOW_NS: Final = 100_000_000
PACKETS: Final = 128
"""Packets of both directions in a window that make a flow bulk: by then its handshake is over."""
BYTES: Final = 2 << 20
"""Likewise, where single packets are aggregates of many."""

ONE_IN: Final = 512
"""Of a bulk flow's packets, one in so many is kept; a power of two."""

MOST: Final = 12
"""Flows that are thinned out at once: the filter has to stay short."""

_CALM_NS: Final = 1_000_000_000
_CALM_PACKETS: Final = 3
"""With fewer of its packets kept in a calm window, a flow is no longer bulk: below some 1,500 packets a second."""

_KNOWN: Final = 4096
_PORTS = struct.Struct("!HH")
_TCP_UDP: Final = (6, 17)

_FIN_SYN_RST: Final = 0x07
_LONG_HEADER: Final = 0x80

type Ports = tuple[int, int]
"""A flow by its two ports, the lower one first; addresses are left out, and the filter stays short for it."""


class Bulk:
    """Counts the packets of flows. Sans-IO: times come in with the packets.

    Attributes:
        flows: Those that are to be thinned out, by the ports of both sides.
        changed: Whether the filter has to be told of `flows`; see `told`.
    """

    def __init__(self) -> None:
        self.flows: frozenset[Ports] = frozenset()
        self.changed = False
        self._counts: dict[Ports, list[int]] = {}  # packets and bytes in this window
        self._since_ns = 0
        self._kept: dict[Ports, int] = {}
        self._calm_since_ns = 0
        self._told_ns = 0
        self._backlog = 0

    def keep(self, packet: bytes, network: int, time_ns: int) -> bool:
        """Count a packet; return whether it is to be kept.

        Those of a bulk flow that came before the filter knew of it are thinned out here.

        Args:
            packet: Its bytes.
            network: Where its network header begins.
            time_ns: When it was seen.
        """
        found = _transport(packet, network)
        if found is None:
            return True
        at, ports = found
        if ports not in self._kept:
            self._count(ports, len(packet), time_ns)
            return True
        if (self.changed or time_ns <= self._told_ns) and not _opens_or_ends(packet, network, at):
            self._backlog += 1
            if self._backlog % ONE_IN:
                return False
        self._kept[ports] += 1
        return True

    def _count(self, ports: Ports, size: int, time_ns: int) -> None:
        if abs(time_ns - self._since_ns) >= WINDOW_NS or len(self._counts) >= _KNOWN:
            self._since_ns = time_ns
            self._counts.clear()
        count = self._counts.setdefault(ports, [0, 0])
        count[0] += 1
        count[1] += size
        if (count[0] < PACKETS and count[1] < BYTES) or len(self._kept) >= MOST:
            return
        if not self._kept:
            self._calm_since_ns = time_ns
        # As if it had been seen often enough already: its first calm window may be a short one.
        self._kept[ports] = _CALM_PACKETS
        self.flows = frozenset(self._kept)
        self.changed = True

    def calm_down(self, now_ns: int) -> None:
        """Let go of flows that have calmed down; to be called now and then."""
        if not self._kept or abs(now_ns - self._calm_since_ns) < _CALM_NS:
            return
        self._calm_since_ns = now_ns
        loud = {ports: 0 for ports, count in self._kept.items() if count >= _CALM_PACKETS}
        self.changed = self.changed or len(loud) < len(self._kept)
        self._kept = loud
        self.flows = frozenset(loud)

    def told(self, now_ns: int) -> None:
        """The filter knows of `flows` from now on."""
        self.changed = False
        self._told_ns = now_ns


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


def _opens_or_ends(packet: bytes, network: int, at: int) -> bool:
    """Whether it is one that the filter always keeps."""
    protocol = packet[network + 9] if packet[network] >> 4 == 4 else packet[network + 6]
    if protocol == _TCP_UDP[0]:
        return bool(packet[at + 13] & _FIN_SYN_RST)
    return bool(packet[at + 8] & _LONG_HEADER)
