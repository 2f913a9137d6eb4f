"""A bounds-checked reader over bytes, big-endian as everything on the wire is."""

from __future__ import annotations

from h3probe.errors import TruncatedError


class Reader:
    """Reads a byte string from front to back.

    Every read either moves past what it returns or raises `TruncatedError` and leaves the position alone.

    Args:
        data: What to read; it is neither copied nor changed.
        start: Where to begin.
        end: Where to stop, the end of `data` if None. A caller's own bound, so never past `data`.
    """

    __slots__ = ("_data", "_end", "_position")

    def __init__(self, data: bytes | memoryview, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self._position = start
        self._end = len(data) if end is None else end

    @property
    def position(self) -> int:
        """The offset of the next byte, counted from the start of the data."""
        return self._position

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self._end - self._position

    def _short(self, count: int) -> TruncatedError:
        """What is raised where fewer bytes are left than are wanted."""
        return TruncatedError(f"{count} bytes wanted at offset {self._position}, {self.remaining} there")

    # Each of these checks for itself whether it is all there: they are called a hundred times for a handshake.

    def u8(self) -> int:
        """One byte."""
        start = self._position
        if start >= self._end:
            raise self._short(1)
        self._position = start + 1
        return self._data[start]

    def _number(self, count: int) -> int:
        start, end = self._position, self._position + count
        if end > self._end:
            raise self._short(count)
        self._position = end
        return int.from_bytes(self._data[start:end])

    def u16(self) -> int:
        """Two bytes."""
        return self._number(2)

    def u24(self) -> int:
        """Three bytes."""
        return self._number(3)

    def u32(self) -> int:
        """Four bytes."""
        return self._number(4)

    def varint(self) -> int:
        """QUIC's variable-length integer, 1, 2, 4 or 8 bytes (RFC 9000, 16)."""
        start = self._position
        if start >= self._end:
            raise self._short(1)
        first = self._data[start]
        if first < 0x40:
            self._position = start + 1
            return first
        length = 1 << (first >> 6)
        return self._number(length) & (1 << 8 * length - 2) - 1

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        start, end = self._position, self._position + count
        if end > self._end:
            raise self._short(count)
        self._position = end
        return bytes(self._data[start:end])

    def vector(self, length_size: int) -> bytes:
        """A byte string with its length in `length_size` bytes before it (RFC 8446, 3.4)."""
        start = self._position + length_size
        if start > self._end:
            raise self._short(length_size)
        end = start + int.from_bytes(self._data[self._position : start])
        if end > self._end:
            raise self._short(end - self._position)
        self._position = end
        return bytes(self._data[start:end])

    def rest(self) -> bytes:
        """Everything that is left, which may be nothing."""
        return self.take(self._end - self._position)
