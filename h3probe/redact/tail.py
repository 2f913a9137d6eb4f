"""A direction of a TCP connection from where nothing is read any more: noise, in records where it was in records."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from h3probe.redact.mapping import HIGH_BITS
from h3probe.wire.tls import LARGEST_RECORD

if TYPE_CHECKING:
    from h3probe.redact.mapping import Mapping

_HEADERS_KEPT: Final = 256


class Tail:
    """A direction's bytes from where nothing is read any more; TLS record headers stay where they can be told.

    Args:
        seed: Tells this direction from all others.
        records: Whether what comes is a sequence of TLS records, the first one's header at `start`.
    """

    def __init__(self, mapping: Mapping, seed: bytes, start: int, *, records: bool) -> None:
        self._mapping = mapping
        self._seed = seed
        self.start = start
        self._next = start
        self._in_step = records
        self._records = records
        self._left = 0  # of the record that is under way
        self._header = b""  # as much of the next one as was seen
        self._at: list[int] = []  # where headers stand that a retransmission may repeat
        self._kept: list[bytes] = []

    def write(self, offset: int, data: bytes) -> bytes:
        """Rewrite a piece."""
        noise = self._mapping.noise(self._seed, len(data), offset)
        if not self._records:
            return noise.translate(HIGH_BITS)
        made = bytearray(noise)
        end = offset + len(data)
        if offset > self._next or (offset == self._next and not self._in_step):
            # Something is missing. A piece that begins with a record's header begins with a record.
            self._in_step = len(data) >= 5 and _begins_record(data[:5]) and data[2] == 3
            self._next, self._left, self._header = offset, 0, b""
        if self._in_step and end > self._next:
            self._walk(data, offset)
        if not self._in_step:
            self._next = max(self._next, end)
        for index in range(max(bisect_left(self._at, offset - 5), 0), len(self._at)):
            at, header = self._at[index], self._kept[index]
            if at >= end:
                break
            first, last = max(at, offset), min(at + len(header), end)
            if first < last:
                made[first - offset : last - offset] = header[first - at : last - at]
        return bytes(made)

    def _walk(self, data: bytes, offset: int) -> None:
        """Find the headers in what is new of a piece."""
        position = self._next - offset
        while position < len(data):
            if self._left:
                step = min(self._left, len(data) - position)
                self._left -= step
                position += step
                continue
            part = data[position : position + 5 - len(self._header)]
            self._header += part
            if not _begins_record(self._header):
                self._in_step = False
                self._header = b""
                break
            self._keep(offset + position, part)
            position += len(part)
            if len(self._header) == 5:
                self._left = int.from_bytes(self._header[3:])
                self._header = b""
        self._next = offset + len(data)

    def _keep(self, at: int, part: bytes) -> None:
        self._at.append(at)
        self._kept.append(part)
        if len(self._at) > 2 * _HEADERS_KEPT:
            del self._at[:_HEADERS_KEPT], self._kept[:_HEADERS_KEPT]


def _begins_record(data: bytes) -> bool:
    """Whether at most five bytes can be a record's header, or begin one (RFC 8446, 5.1)."""
    if not 20 <= data[0] <= 24 or data[1:2] not in (b"", b"\x03") or data[2:3] > b"\x04":
        return False
    return len(data) < 5 or int.from_bytes(data[3:]) <= LARGEST_RECORD
