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
PACKETS: Final = 256
"""Packets of both directions in a window that make a flow bulk: by then its handshake is over."""

ONE_IN: Final = 64
"""Of a bulk flow's packets, one in so many is kept; a power of two."""

MOST: Final = 12
"""Flows that are thinned out at once: the filter has to stay short."""

_CALM_NS: Final = 1_000_000_000
_CALM_PACKETS: Final = 3
"""With fewer of its packets kept in a calm window, a flow is no longer bulk: below some 200 packets a second."""

_KNOWN: Final = 4096
_PORTS = struct.Struct("!HH")
_TCP_UDP: Final = (6, 17)

type Ports = tuple[int, int]
"""A flow by its two ports, the lower one first; addresses are left out, and the filter stays short for it."""


class Bulk:
    """Counts the packets of flows. Sans-IO: times come in with the packets.

    Attributes:
        flows: Those that are to be thinned out, by the ports of both sides.
    """

    def __init__(self) -> None:
        self.flows: frozenset[Ports] = frozenset()
        self._counts: dict[Ports, int] = {}
        self._since_ns = 0
        self._kept: dict[Ports, int] = {}
        self._calm_since_ns = 0

    def saw(self, packet: bytes, network: int, time_ns: int) -> bool:
        """Count a packet; return whether `flows` has changed by it.

        Args:
            packet: Its bytes.
            network: Where its network header begins.
            time_ns: When it was seen.
        """
        ports = _ports(packet, network)
        if ports is None:
            return False
        if ports in self._kept:
            self._kept[ports] += 1
            return False
        if abs(time_ns - self._since_ns) >= WINDOW_NS or len(self._counts) >= _KNOWN:
            self._since_ns = time_ns
            self._counts.clear()
        count = self._counts[ports] = self._counts.get(ports, 0) + 1
        if count < PACKETS or len(self._kept) >= MOST:
            return False
        if not self._kept:
            self._calm_since_ns = time_ns
        # As if it had been seen often enough already: its first calm window may be a short one.
        self._kept[ports] = _CALM_PACKETS
        self.flows = frozenset(self._kept)
        return True

    def calmed(self, now_ns: int) -> bool:
        """Return whether `flows` has changed because some have calmed down; to be asked now and then."""
        if not self._kept or abs(now_ns - self._calm_since_ns) < _CALM_NS:
            return False
        self._calm_since_ns = now_ns
        loud = {ports: 0 for ports, count in self._kept.items() if count >= _CALM_PACKETS}
        changed = len(loud) < len(self._kept)
        self._kept = loud
        self.flows = frozenset(loud)
        return changed


def _ports(packet: bytes, network: int) -> Ports | None:
    """The ports of a TCP segment or UDP datagram over IPv4, or over IPv6 without extension headers."""
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
    if len(packet) < at + 4:
        return None
    source, destination = _PORTS.unpack_from(packet, at)
    return (source, destination) if source <= destination else (destination, source)
