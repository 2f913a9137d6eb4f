"""The headers of many frames at once: what a frame is, for those that are ordinary TCP segments and UDP datagrams.

The same questions as in `h3probe.wire.packet`, answered with numpy for a whole block. Whatever is not ordinary
(tunnels, fragments, IP options, DNS, ICMP, what a snaplen cut inside its headers) is left to that module, frame by
frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from h3probe.events import Endpoint
from h3probe.wire.ip import INITIAL_HOP_LIMITS, TCP, UDP
from h3probe.wire.link import network_layer
from h3probe.wire.packet import TcpSegment, UdpDatagram
from h3probe.wire.quic.aggregate import LARGEST_PLAIN
from h3probe.wire.transport import FIN, RST, SYN
from h3probe.wire.tunnels import TUNNEL_PORTS

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from h3probe.events import Block

    type Flags = NDArray[np.bool_]
    type Numbers = NDArray[np.int64]
    type Words = NDArray[np.uint64]

QUIC_SHORT: Final = 1
"""A UDP payload that begins like a QUIC packet with a short header, small enough to be one datagram."""
UDP_OTHER: Final = 2
"""A UDP payload that neither begins like a long header nor like gQUIC; on no port of HTTPS."""
TCP_EMPTY: Final = 4
"""A TCP segment without payload, SYN, FIN and RST."""
TCP_DATA: Final = 8
"""One with payload that does not begin like a TLS handshake record."""

HTTPS: Final = 443
_ETHERNET, _SLL, _SLL2 = 1, 113, 276
_LOOPBACK: Final = (0, 108)
_RAW: Final = (12, 14, 101, 228, 229)
_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_VLAN: Final = (0x8100, 0x88A8, 0x9100)
# A tag of a station is its address with this bit, so that it is never 0; SLL's length of the address stands above.
_STATION: Final = np.uint64(1 << 63)

_V4 = np.dtype(
    {
        "names": ["first", "total", "fragment", "hops", "protocol", "source", "destination", "ports", "size", "udp",
                  "seq", "header", "flags"],
        "formats": ["u1", ">u2", ">u2", "u1", "u1", ">u4", ">u4", ">u4", ">u2", "u1", ">u4", "u1", "u1"],
        "offsets": [0, 2, 6, 8, 9, 12, 16, 20, 24, 28, 24, 32, 33],
        "itemsize": 36,
    }
)  # fmt: skip
_V6 = np.dtype(
    {
        "names": ["first", "total", "protocol", "hops", "source", "source_low", "destination", "destination_low",
                  "ports", "size", "udp", "seq", "header", "flags"],
        "formats": ["u1", ">u2", "u1", "u1", ">u8", ">u8", ">u8", ">u8", ">u4", ">u2", "u1", ">u4", "u1", "u1"],
        "offsets": [0, 4, 6, 7, 8, 16, 24, 32, 40, 44, 48, 44, 52, 53],
        "itemsize": 56,
    }
)  # fmt: skip
_FIRST_HOP = np.isin(np.arange(256), sorted(INITIAL_HOP_LIMITS))
_MIX: Final = tuple(np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


@dataclass(frozen=True, slots=True)
class Columns:
    """What the ordinary frames of a block are; one array each, a number per frame of the block.

    Attributes:
        kind: `QUIC_SHORT`, `UDP_OTHER`, `TCP_EMPTY` or `TCP_DATA`, several where several fit; 0 for a frame that opens,
            ends or may mean something.
        group: Which flow it belongs to, counted from 0 in this block; -1 where the frame is not ordinary.
        alone: Whether it is not ordinary and has nothing to do with any flow that is (ARP, ICMP, DNS).
        upward: Which of the flow's two directions it goes.
        transport: Where in the frame UDP's or TCP's header begins.
        size: UDP's or TCP's payload on the wire, bytes.
        seq: TCP's sequence number.
        station: A number for the link-layer source address that it comes straight from; 0 without one.
        order: The ordinary frames, flow by flow, in their order.
        starts: Where in `order` each flow begins; one more at the end.
        keys: What names each flow, the same in every block.
    """

    kind: NDArray[np.uint8]
    group: Numbers
    alone: Flags
    upward: Flags
    transport: Numbers
    size: Numbers
    seq: Numbers
    station: Words
    order: Numbers
    starts: list[int]
    keys: list[tuple[int, ...]]


def read_columns(block: Block, dns_ports: Collection[int]) -> Columns:
    """Read the headers of a block's frames.

    Args:
        block: The frames.
        dns_ports: Ports of UDP whose datagrams are each looked at.
    """
    return _Reading(block, dns_ports).columns()


def flow_name(fact: TcpSegment | UdpDatagram) -> tuple[int, ...]:
    """What names the flow of one packet, as in `Columns.keys`."""
    low, high = sorted((fact.source, fact.destination), key=lambda end: (end.host, end.port))
    protocol = (UDP if isinstance(fact, UdpDatagram) else TCP) << 56
    if len(low.host) == 4:
        return tuple(int.from_bytes(end.host) << 16 | end.port | more for end, more in ((low, 0), (high, protocol)))
    halves = [(int.from_bytes(end.host[:8]), int.from_bytes(end.host[8:]), end.port) for end in (low, high)]
    return (*halves[0], *halves[1][:2], halves[1][2] | protocol)


def flow_ends(key: tuple[int, ...]) -> tuple[Endpoint, Endpoint, int]:
    """The two ends of a flow that is named so, the lower one first, and its protocol: the reverse of `flow_name`."""
    if len(key) == 2:
        low, high = key[0], key[1] & (1 << 56) - 1
        ends = [Endpoint((end >> 16).to_bytes(4), end & 0xFFFF) for end in (low, high)]
    else:
        halves = (key[:3], (key[3], key[4], key[5] & 0xFFFF))
        ends = [Endpoint((upper << 64 | lower).to_bytes(16), port) for upper, lower, port in halves]
    return ends[0], ends[1], key[-1] >> 56


def station_address(station: int) -> bytes | None:
    """The link-layer address that a number in `Columns.station`, not 0, stands for; None where it tells none."""
    return (station & (1 << 48) - 1).to_bytes(6) if station & int(_STATION) else None


class _Reading:
    """The arrays while they are filled."""

    def __init__(self, block: Block, dns_ports: Collection[int]) -> None:
        count = len(block)
        self.block = block
        # By port: 1 for a tunnel's, 2 for one of DNS.
        self.ports = np.zeros(1 << 16, np.uint8)
        self.ports[list(TUNNEL_PORTS)] = 1
        self.ports[list(dns_ports)] |= 2
        self.bytes = np.frombuffer(block.data, np.uint8)
        self.kind = np.zeros(count, np.uint8)
        self.group = np.full(count, -1, np.int64)
        self.alone = np.zeros(count, np.bool_)
        self.upward = np.zeros(count, np.bool_)
        self.transport = np.zeros(count, np.int64)
        self.size = np.zeros(count, np.int64)
        self.seq = np.zeros(count, np.int64)
        self.station = np.zeros(count, np.uint64)
        self.orders: list[Numbers] = []
        self.starts: list[int] = []
        self.keys: list[tuple[int, ...]] = []
        self.grouped = 0

    def columns(self) -> Columns:
        version, network, station = self._link()
        self.station[:] = station
        for number in (4, 6):
            chosen = np.flatnonzero(version == number)
            if len(chosen):
                (self._v4 if number == 4 else self._v6)(chosen, network[chosen])
        order = np.concatenate(self.orders) if self.orders else np.zeros(0, np.int64)
        return Columns(
            self.kind, self.group, self.alone, self.upward, self.transport, self.size, self.seq, self.station,
            order, [*self.starts, len(order)], self.keys,
        )  # fmt: skip

    def _at(self, offset: Numbers | int, kind: str) -> NDArray[np.generic]:
        """A number that stands so far behind the beginning of each frame."""
        dtype = np.dtype(kind)
        every = np.ndarray((len(self.block.data) - dtype.itemsize + 1,), dtype, self.block.data, 0, (1,))
        found: NDArray[np.generic] = every[self.block.starts + offset]
        return found

    def _link(self) -> tuple[Numbers, Numbers, Words]:
        """Of each frame the IP version (0 for none or unusual), where in the frame it begins, and the station's tag."""
        block, count = self.block, len(self.block)
        version, station = np.zeros(count, np.int64), np.zeros(count, np.uint64)
        network = np.zeros(count, np.int64)
        if block.link_type == _ETHERNET:
            kinds = self._at(12, ">u2").astype(np.int64)
            network += 14
            tagged = (kinds == _VLAN[0]) | (kinds == _VLAN[1]) | (kinds == _VLAN[2])
            if tagged.any():
                kinds = np.where(tagged, self._at(16, ">u2").astype(np.int64), kinds)
                network[tagged] += 4
            station = (self._at(6, ">u8").astype(np.uint64) >> np.uint64(16)) | _STATION
            self._by_ethertype(kinds, version)
        elif block.link_type == _SLL:
            network += 16
            self._by_ethertype(self._at(14, ">u2").astype(np.int64), version)
            station = self._cooked_station(self._at(4, ">u2").astype(np.uint64), 6)
        elif block.link_type == _SLL2:
            network += 20
            self._by_ethertype(self._at(0, ">u2").astype(np.int64), version)
            station = self._cooked_station(self._at(11, "u1").astype(np.uint64), 12)
        elif block.link_type in _RAW:
            first = self._at(0, "u1").astype(np.int64) >> 4
            version[:] = np.where((first == 4) | (first == 6), first, 0)
        elif block.link_type in _LOOPBACK:
            network += 4
            families = self._at(0, ">u4").astype(np.int64)
            for family in np.unique(families)[:16].tolist():
                version[families == family] = network_layer(block.link_type, family.to_bytes(4))[0]
        # Every header that is read below has to be there.
        version[block.captured < network + 24] = 0
        return version, network, station

    def _by_ethertype(self, kinds: Numbers, version: Numbers) -> None:
        version[kinds == _IPV4] = 4
        version[kinds == _IPV6] = 6
        # Address resolution; nothing that could hold a packet of a flow.
        self.alone |= kinds == 0x0806

    def _cooked_station(self, length: Words, at: int) -> Words:
        address = self._at(at, ">u8").astype(np.uint64)
        # Six bytes or none are usual; any other length makes a number that fits no flow twice.
        known = np.where(length == 6, (address >> np.uint64(16)) | _STATION, np.uint64(0))
        odd = (length != 6) & (length != 0)
        return np.where(odd, np.arange(1, len(length) + 1, dtype=np.uint64), known)

    def _v4(self, chosen: Numbers, network: Numbers) -> None:
        every = np.ndarray((len(self.block.data) - _V4.itemsize + 1,), _V4, self.block.data, 0, (1,))
        heads = every[self.block.starts[chosen] + network]
        protocol = heads["protocol"]
        room = self.block.lengths[chosen] - network
        total = heads["total"].astype(np.int64)
        plain = (heads["first"] == 0x45) & (heads["fragment"] & 0x3FFF == 0) & (total > 0) & (total <= room)
        # ICMP is about flows; it does not change what is counted of them.
        whole = (heads["first"] == 0x45) & (heads["fragment"] & 0x3FFF == 0)
        self.alone[chosen[whole & (protocol == 1)]] = True
        source, destination = heads["source"].astype(np.uint64), heads["destination"].astype(np.uint64)
        ports = heads["ports"].astype(np.uint64)
        there = source << np.uint64(16) | ports >> np.uint64(16)
        back = destination << np.uint64(16) | ports & np.uint64(0xFFFF)
        upward = there < back
        low, high = np.where(upward, there, back), np.where(upward, back, there)
        self.upward[chosen] = upward
        self._transport(chosen, network + 20, heads, total - 20, plain)
        self._flows(chosen, [low, high | protocol.astype(np.uint64) << np.uint64(56)])

    def _v6(self, chosen: Numbers, network: Numbers) -> None:
        every = np.ndarray((len(self.block.data) - _V6.itemsize + 1,), _V6, self.block.data, 0, (1,))
        heads = every[self.block.starts[chosen] + network]
        room = self.block.lengths[chosen] - network - 40
        length = heads["total"].astype(np.int64)
        plain = (heads["first"] >> 4 == 6) & (length > 0) & (length <= room)
        self.alone[chosen[(heads["first"] >> 4 == 6) & (heads["protocol"] == 58)]] = True
        names = ("source", "source_low", "destination", "destination_low")
        words = [heads[name].astype(np.uint64) for name in names]
        ports = heads["ports"].astype(np.uint64)
        theirs = [words[0], words[1], ports >> np.uint64(16)]
        others = [words[2], words[3], ports & np.uint64(0xFFFF)]
        upward, same = np.zeros(len(chosen), np.bool_), np.ones(len(chosen), np.bool_)
        for one, other in zip(theirs, others, strict=True):
            upward |= same & (one < other)
            same &= one == other
        low = [np.where(upward, one, other) for one, other in zip(theirs, others, strict=True)]
        high = [np.where(upward, other, one) for one, other in zip(theirs, others, strict=True)]
        high[2] |= heads["protocol"].astype(np.uint64) << np.uint64(56)
        self.upward[chosen] = upward
        self._transport(chosen, network + 40, heads, length, plain)
        self._flows(chosen, [*low, *high])

    def _transport(
        self, chosen: Numbers, start: Numbers, heads: NDArray[np.void], length: Numbers, plain: Flags
    ) -> None:
        """Fill in what UDP's and TCP's headers say; `group` becomes 0 where a frame is ordinary."""
        self.transport[chosen] = start
        captured = self.block.captured[chosen] - start
        ports = heads["ports"].astype(np.int64)
        source, destination = ports >> 16, ports & 0xFFFF
        udp = plain & (heads["protocol"] == UDP) & (length >= 8) & (captured >= 8)
        if udp.any():
            special = self.ports[source] | self.ports[destination]
            self.alone[chosen[udp & (special == 2)]] = True
            udp &= (special == 0) & (heads["size"] == length)
            first = heads["udp"]
            seen = udp & (captured > 8) & (length > 8)
            short = seen & (first & 0xC0 == 0x40) & (length - 8 <= LARGEST_PLAIN)
            other = seen & (first & 0x80 == 0) & (first & 0x09 != 0x09) & (source != HTTPS) & (destination != HTTPS)
            self.kind[chosen] |= np.where(short, QUIC_SHORT, 0).astype(np.uint8)
            self.kind[chosen] |= np.where(other, UDP_OTHER, 0).astype(np.uint8)
            self.size[chosen[udp]] = length[udp] - 8
        header = (heads["header"] >> 4).astype(np.int64) * 4
        tcp = plain & (heads["protocol"] == TCP) & (header >= 20) & (header <= length) & (captured >= 20)
        if tcp.any():
            rows, size = chosen[tcp], (length - header)[tcp]
            self.size[rows] = size
            self.seq[rows] = heads["seq"][tcp]
            quiet = heads["flags"][tcp] & (FIN | SYN | RST) == 0
            payload = (start + header)[tcp]
            begins = self.bytes[np.minimum(self.block.starts[rows] + payload, len(self.bytes) - 1)]
            handshake = (begins == 0x16) & (self.block.captured[rows] > payload)
            kind = np.where(size == 0, TCP_EMPTY, np.where(handshake, 0, TCP_DATA))
            self.kind[rows] = np.where(quiet, kind, 0).astype(np.uint8)
        ordinary = chosen[udp | tcp]
        self.group[ordinary] = 0
        self.station[chosen[~_FIRST_HOP[heads["hops"]]]] = 0

    def _flows(self, chosen: Numbers, keys: list[Words]) -> None:
        """Tell the flows apart, exactly, by their keys."""
        ordinary = np.flatnonzero(self.group[chosen] == 0)
        if not len(ordinary):
            return
        rows = chosen[ordinary]
        keys = [key[ordinary] for key in keys]
        mixed = np.zeros(len(rows), np.uint64)
        for key in keys:
            mixed = (mixed ^ key) * _MIX[0]
            mixed ^= mixed >> np.uint64(29)
        # The place in the lower bits: sorted by flow, and within each in order.
        bits = np.uint64(max(len(rows) - 1, 1).bit_length())
        mask = (np.uint64(1) << bits) - np.uint64(1)
        sorted_ = np.sort((mixed & ~mask) | np.arange(len(rows), dtype=np.uint64))
        place = (sorted_ & mask).astype(np.int64)
        flow = sorted_ >> bits
        fresh = np.ones(len(rows), np.bool_)
        fresh[1:] = flow[1:] != flow[:-1]
        ranked = [key[place] for key in keys]
        clash = np.zeros(len(rows), np.bool_)
        for key in ranked:
            clash[1:] |= (key[1:] != key[:-1]) & ~fresh[1:]
        number = np.cumsum(fresh) - 1
        if clash.any():  # Two flows with one sum: none of the two is ordinary.
            good = ~np.isin(number, number[clash])
            self.group[rows[place[~good]]] = -1
            self.kind[rows[place[~good]]] = 0
            place, fresh, ranked = place[good], fresh[good], [key[good] for key in ranked]
            number = np.cumsum(fresh) - 1
        before = len(self.keys)
        self.group[rows[place]] = number + before
        firsts = np.flatnonzero(fresh)
        self.starts += (firsts + self.grouped).tolist()
        self.grouped += len(place)
        self.orders.append(rows[place])
        self.keys += zip(*(key[firsts].tolist() for key in ranked), strict=True)
