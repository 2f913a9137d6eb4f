"""The facts of a block's ordinary frames, made of its columns: what `PacketDecoder` says of them, for a third of it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from h3probe.wire.columns import flow_ends, station_address
from h3probe.wire.ip import TCP
from h3probe.wire.packet import TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from h3probe.events import Block, Endpoint
    from h3probe.wire.columns import Columns
    from h3probe.wire.packet import Transported

UDP_HEADER: Final = 8
# A TCP header from its sequence number on: that, the acknowledgement, its length, flags (RFC 9293, 3.1).
_TCP: Final = struct.Struct(">IIBB")


class OrdinaryFrames:
    """Makes facts of frames that belong to a flow in their block; of one flow they share their endpoints.

    Args:
        block: The frames.
        columns: Read from that block.
    """

    def __init__(self, block: Block, columns: Columns) -> None:
        self._first, self._data = block.first, block.data
        # Single numbers are read from memory views: numpy makes an object of its own for each of them first.
        self._times: memoryview[int] = memoryview(block.times_ns)
        self._starts: memoryview[int] = memoryview(block.starts)
        self._captured: memoryview[int] = memoryview(block.captured)
        self._transport: memoryview[int] = memoryview(columns.transport)
        self._size: memoryview[int] = memoryview(columns.size)
        self._station: memoryview[int] = memoryview(columns.station)
        self._upward: memoryview[int] = memoryview(columns.upward)
        self._keys = columns.keys
        self._flows: list[tuple[Endpoint, Endpoint, int] | None] = [None] * len(columns.keys)
        self._stations: dict[int, bytes | None] = {}

    def fact(self, index: int, group: int) -> Transported | None:
        """What one frame is; None where the columns do not tell all of it.

        Args:
            index: Its place in the block.
            group: The number of its flow, not -1.
        """
        flow = self._flows[group]
        if flow is None:
            flow = self._flows[group] = flow_ends(self._keys[group])
        low, high, protocol = flow
        source, destination = (low, high) if self._upward[index] else (high, low)
        tag = self._station[index]
        station = self._stations.get(tag)
        if station is None and tag:
            station = self._stations[tag] = station_address(tag)
            if station is None:
                return None
        start, size, time_ns = self._starts[index], self._size[index], self._times[index]
        end = start + self._captured[index]
        header = start + self._transport[index]
        if protocol == TCP:
            seq, ack, words, flags = _TCP.unpack_from(self._data, header + 4)
            at = header + (words >> 4) * 4
            payload = bytes(self._data[at : min(at + size, end)])
            return TcpSegment(
                self._first + index, time_ns, source, destination, seq, ack, flags, payload, size, station
            )
        at = header + UDP_HEADER
        payload = bytes(self._data[at : min(at + size, end)])
        return UdpDatagram(self._first + index, time_ns, source, destination, payload, size, station)
