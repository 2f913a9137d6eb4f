"""Packets that only count, as blocks: no Python for each of them but a step to the next one.

The classifier of large capture files takes it from there (`h3probe.track.thinning`). This needs numpy, which takes its
time to load: it is imported once there are many such packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from h3probe.events import Block
from h3probe.events.block import PADDING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from h3probe.vantage.bulk import Ports
    from h3probe.vantage.packets import Packet

    type Numbers = NDArray[np.int64]

_ETHERNET: Final = 1
_RAW: Final = 101
_TCP: Final = 6
_ETHERNET_HARDWARE: Final = (1, 772)
_NS: Final = 1_000_000_000
# struct tpacket3_hdr and the struct sockaddr_ll behind it (linux/if_packet.h), in words of 4 and of 2 bytes.
_SECONDS, _NANOSECONDS, _CAPTURED, _LENGTH, _INTERFACE = 1, 2, 3, 4, 13
_MAC, _NETWORK, _HARDWARE = 12, 13, 28


class Counting(NamedTuple):
    """What was read.

    Attributes:
        blocks: One for each interface; their numbers are still to be given.
        copies: Packets left out, since they are seen on another interface as well.
    """

    blocks: list[Block]
    copies: int


def read_taken(taken: Sequence[tuple[bytes, int]], name: Callable[[int], str]) -> Counting:
    """Read what a ring gave.

    Args:
        taken: Pieces as `Ring.take_block` gives them.
        name: Gives the name of an interface by its index.
    """
    data = bytearray()
    heads: list[int] = []
    for piece, count in taken:
        at = len(data)
        words = memoryview(piece).cast("I")
        step = 0
        for _ in range(count):
            heads.append(at + step)
            step += words[step >> 2]
        data += piece
    data += bytes(PADDING)
    where = np.array(heads, np.int64)
    words4 = np.frombuffer(data, np.uint32, len(data) // 4)
    words2 = np.frombuffer(data, np.uint16, len(data) // 2)
    in4, in2 = where >> 2, where >> 1

    def word(place: int) -> Numbers:
        found: Numbers = words4[in4 + place].astype(np.int64)
        return found

    mac, network = words2[in2 + _MAC].astype(np.int64), words2[in2 + _NETWORK].astype(np.int64)
    bare = ~np.isin(words2[in2 + _HARDWARE], _ETHERNET_HARDWARE)
    header = np.where(bare, network - mac, 0)
    packets = _Packets(
        data,
        starts=where + mac + header,
        network=where + network,
        captured=word(_CAPTURED) - header,
        lengths=word(_LENGTH) - header,
        times_ns=word(_SECONDS) * _NS + word(_NANOSECONDS),
        place=word(_INTERFACE) << 1 | bare,
    )
    return packets.counting(lambda place: name(place >> 1))


def gather(packets: Sequence[Packet], keep: int) -> Counting:
    """Make blocks of packets that were read one by one.

    Args:
        packets: Each with a network header.
        keep: Bytes of each of them that are enough.
    """
    cut = [packet.data[:keep] for packet in packets]
    captured = np.array([len(data) for data in cut], np.int64)
    starts = np.cumsum(captured) - captured
    names = sorted({packet.interface for packet in packets})
    places = [names.index(packet.interface) << 1 | (packet.link_type == _RAW) for packet in packets]
    found = _Packets(
        bytearray(b"".join([*cut, bytes(PADDING)])),
        starts=starts,
        network=starts + np.array([packet.network or 0 for packet in packets], np.int64),
        captured=captured,
        lengths=np.array([packet.length for packet in packets], np.int64),
        times_ns=np.array([packet.time_ns for packet in packets], np.int64),
        place=np.array(places, np.int64),
    )
    return found.counting(lambda place: names[place >> 1])


class _Packets(NamedTuple):
    """Packets in one buffer; `place` is the number of an interface, and whether it shows no link header."""

    data: bytearray
    starts: Numbers
    network: Numbers
    captured: Numbers
    lengths: Numbers
    times_ns: Numbers
    place: Numbers

    def counting(self, name: Callable[[int], str]) -> Counting:
        places = np.unique(self.place).tolist()
        chosen = np.ones(len(self.place), np.bool_) if len(places) == 1 else self._once(places)
        blocks = []
        for place in places:
            rows = np.flatnonzero(chosen & (self.place == place))
            if len(rows):
                link_type = _RAW if place & 1 else _ETHERNET
                starts, captured = self.starts[rows], self.captured[rows]
                lengths, times_ns = self.lengths[rows], self.times_ns[rows]
                blocks.append(Block(0, link_type, self.data, starts, captured, lengths, times_ns, name(place)))
        return Counting(blocks, len(chosen) - int(chosen.sum()))

    def _once(self, places: Sequence[int]) -> NDArray[np.bool_]:
        """Of each flow the packets on one interface, the one that shows most of them: a bond shows more than its parts.

        Copies on other interfaces are as many, or fewer.
        """
        flows, number = np.unique(flow_names(self.data, self.network), return_inverse=True)
        table = np.zeros((len(flows), len(places)), np.int64)
        column = np.searchsorted(np.array(places), self.place)
        np.add.at(table, (number, column), 1)
        once: NDArray[np.bool_] = table.argmax(1)[number] == column
        return once


def flows_in(blocks: Collection[Block], wanted: Collection[Ports]) -> dict[Ports, tuple[int, int]]:
    """How many packets of these flows there are, and how many bytes were on the wire."""
    found = dict.fromkeys(wanted, (0, 0))
    for block in blocks:
        ports = _ports(block.data, network_of(block))
        for (low, high), (packets, size) in found.items():
            mine = ports == (low << 16 | high)
            found[low, high] = packets + int(mine.sum()), size + int(block.lengths[mine].sum())
    return found


def network_of(block: Block) -> Numbers:
    """Where in a block of this module each packet's network header begins."""
    return block.starts + (0 if block.link_type == _RAW else 14)


def flow_names(data: bytearray, network: Numbers) -> Numbers:
    """A number for each packet's flow, the same in both directions; hardly ever the same for two flows.

    Args:
        data: Holds packets of UDP and TCP without options.
        network: Where their network headers begin.
    """
    return _ports(data, network) | _hosts(data, network) << 32 | is_tcp(data, network).astype(np.int64) << 62


def is_ipv6(data: bytearray, network: Numbers) -> NDArray[np.bool_]:
    """Whether each packet is one of IPv6."""
    found: NDArray[np.bool_] = np.frombuffer(data, np.uint8)[network] >> 4 == 6
    return found


def is_tcp(data: bytearray, network: Numbers) -> NDArray[np.bool_]:
    """Whether each packet holds a segment of TCP; of UDP otherwise."""
    at = network + np.where(is_ipv6(data, network), 6, 9)
    found: NDArray[np.bool_] = np.frombuffer(data, np.uint8)[at] == _TCP
    return found


def _ports(data: bytearray, network: Numbers) -> Numbers:
    """Both ports of packets without options, the lower one first."""
    words = _words(data, network + np.where(is_ipv6(data, network), 40, 20))
    source, destination = words >> 16, words & 0xFFFF
    found: Numbers = np.minimum(source, destination) << 16 | np.maximum(source, destination)
    return found


def _hosts(data: bytearray, network: Numbers) -> Numbers:
    """A number below 2^30 for both addresses, the same in both directions."""
    ipv4 = _words(data, network + 12) + _words(data, network + 16)
    ipv6 = sum((_words(data, network + at) for at in range(8, 40, 4)), np.zeros(len(network), np.int64))
    found: Numbers = np.where(is_ipv6(data, network), ipv6, ipv4) & 0x3FFFFFFF
    return found


def _words(data: bytearray, at: Numbers) -> Numbers:
    found: Numbers = np.ndarray((len(data) - 3,), ">u4", data, 0, (1,))[at].astype(np.int64)
    return found


def numbered(blocks: Collection[Block], first: Callable[[int], int]) -> Iterator[Block]:
    """The blocks with numbers.

    Args:
        blocks: Without.
        first: Takes so many numbers, and gives the first of them.
    """
    for block in blocks:
        yield Block(
            first(len(block)), block.link_type, block.data, block.starts, block.captured, block.lengths,
            block.times_ns, block.interface,
        )  # fmt: skip
