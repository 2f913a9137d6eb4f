"""IP fragments put together again, in bounded memory.

Fragments are kept as disjoint intervals (RFC 815 keeps the holes between them; the idea is the
same). Where two overlap, IPv4 keeps what came first and IPv6 gives up the whole packet (RFC 5722).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Final

from h3probe.wire.ip import IpPacket

MAX_DATAGRAMS: Final = 256
MAX_BYTES: Final = 4 << 20
MAX_AGE_NS: Final = 30_000_000_000
_MAX_PAYLOAD: Final = 65535
# What an interval costs beside its bytes; without it, eight-byte fragments would cost twenty times what is counted.
_PART_OVERHEAD: Final = 150

_Key = tuple[bytes, bytes, int, int]
_Part = tuple[int, int, bytes]
"""Where it begins and ends by its header, and what was captured of it."""


@dataclass(slots=True)
class _Datagram:
    first_seen_ns: int
    protocol: int | None = None
    parts: list[_Part] = field(default_factory=list)
    total: int | None = None
    received: int = 0
    stored: int = 0
    fragments: int = 0
    poisoned: bool = False


class FragmentTable:
    """Fragmented packets that wait for their missing parts.

    Attributes:
        dropped: Fragments that will never become a packet: malformed, overlapping, too old, or
            evicted because the table was full.
    """

    def __init__(self, *, max_datagrams: int = MAX_DATAGRAMS, max_bytes: int = MAX_BYTES) -> None:
        self.dropped = 0
        self._max_datagrams = max_datagrams
        self._max_bytes = max_bytes
        self._stored = 0
        # By age: a dict keeps the order of insertion, so the first key is the oldest.
        self._datagrams: dict[_Key, _Datagram] = {}

    def __len__(self) -> int:
        return len(self._datagrams)

    def add(self, packet: IpPacket, data: bytes, time_ns: int) -> tuple[bytes, IpPacket] | None:
        """Take a fragment in; give the packet when this was the last part that it lacked.

        Args:
            packet: The fragment's header; its `fragment` is set.
            data: The buffer that `packet` points into.
            time_ns: When it was captured.

        Returns:
            The payload put together, in a buffer of its own, with a header that points into it;
            None while parts are missing. Parts that were cut by a snaplen count as whole, and the
            bytes end at the first gap.
        """
        fragment = packet.fragment
        if fragment is None:
            return data, packet
        self._expire(time_ns)
        begin, stop = fragment.offset, fragment.offset + packet.length
        if begin == stop or stop > _MAX_PAYLOAD or (fragment.more and packet.length % 8):
            self.dropped += 1
            return None
        is_ipv4 = len(packet.source) == 4
        # IPv6 leaves the protocol out: only the first fragment's counts (RFC 8200, section 4.5).
        key = (packet.source, packet.destination, fragment.identification, packet.protocol if is_ipv4 else -1)
        datagram = self._datagrams.get(key)
        if datagram is None:
            datagram = self._datagrams[key] = _Datagram(time_ns)
        datagram.fragments += 1
        if datagram.poisoned:
            self.dropped += 1
            return None
        if begin == 0 and datagram.protocol is None:
            datagram.protocol = packet.protocol
        if not self._place(
            datagram, (begin, stop, data[packet.start : packet.end]), last=not fragment.more, trim=is_ipv4
        ):
            self._poison(datagram)
            return None
        if datagram.received == datagram.total and datagram.protocol is not None:
            self._forget(key)
            return _join(datagram, packet)
        self._make_room()
        return None

    def _place(self, datagram: _Datagram, part: _Part, *, last: bool, trim: bool) -> bool:
        """Put a part where it belongs; False when it contradicts what is there."""
        begin, stop, _ = part
        if last:
            if datagram.total not in (None, stop) or (datagram.parts and datagram.parts[-1][1] > stop):
                return False
            datagram.total = stop
        elif datagram.total is not None and stop > datagram.total:
            return False
        free = _holes(datagram.parts, begin, stop)
        if free != [(begin, stop)]:
            if part in datagram.parts[bisect_right(datagram.parts, (begin,)) :][:1]:
                return True  # the same fragment again, as the network or the capture may give it
            if not trim:
                return False
        for hole in free:
            piece = part[2][hole[0] - begin : hole[1] - begin]
            insort(datagram.parts, (*hole, piece))
            datagram.received += hole[1] - hole[0]
            datagram.stored += len(piece) + _PART_OVERHEAD
            self._stored += len(piece) + _PART_OVERHEAD
        return True

    def _poison(self, datagram: _Datagram) -> None:
        """Keep the entry, so that its later fragments are recognised, and nothing else."""
        self.dropped += datagram.fragments
        self._stored -= datagram.stored
        datagram.parts.clear()
        datagram.stored = 0
        datagram.fragments = 0
        datagram.poisoned = True

    def _forget(self, key: _Key) -> _Datagram:
        datagram = self._datagrams.pop(key)
        self._stored -= datagram.stored
        return datagram

    def _evict_oldest(self) -> None:
        datagram = self._forget(next(iter(self._datagrams)))
        if not datagram.poisoned:
            self.dropped += datagram.fragments

    def _make_room(self) -> None:
        while len(self._datagrams) > self._max_datagrams or self._stored > self._max_bytes:
            self._evict_oldest()

    def _expire(self, now_ns: int) -> None:
        while self._datagrams:
            oldest = next(iter(self._datagrams.values()))
            if now_ns - oldest.first_seen_ns <= MAX_AGE_NS:
                return
            self._evict_oldest()


def _holes(parts: list[_Part], begin: int, stop: int) -> list[tuple[int, int]]:
    """The intervals of `begin`..`stop` that no part covers yet; `parts` is sorted and disjoint."""
    index = bisect_right(parts, (begin,))
    at = max(begin, parts[index - 1][1]) if index else begin
    holes = []
    while at < stop:
        end = min(stop, parts[index][0]) if index < len(parts) else stop
        if at < end:
            holes.append((at, end))
        if index == len(parts):
            break
        at = max(at, parts[index][1])
        index += 1
    return holes


def _join(datagram: _Datagram, packet: IpPacket) -> tuple[bytes, IpPacket]:
    captured = []
    for begin, stop, piece in datagram.parts:
        captured.append(piece)
        if len(piece) < stop - begin:
            break
    payload = b"".join(captured)
    protocol = packet.protocol if datagram.protocol is None else datagram.protocol
    length = max(datagram.received, len(payload))
    return payload, IpPacket(packet.source, packet.destination, protocol, 0, len(payload), length, None)
