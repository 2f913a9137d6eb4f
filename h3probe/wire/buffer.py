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

    def _advance(self, count: int) -> int:
        """Move past `count` bytes and return where they began."""
        start = self._position
        if count > self._end - start:
            raise TruncatedError(f"{count} bytes wanted at offset {start}, {self._end - start} there")
        self._position = start + count
        return start

    def u8(self) -> int:
        """One byte."""
        return self._data[self._advance(1)]

    def u16(self) -> int:
        """Two bytes."""
        start = self._advance(2)
        return int.from_bytes(self._data[start : start + 2])

    def u24(self) -> int:
        """Three bytes."""
        start = self._advance(3)
        return int.from_bytes(self._data[start : start + 3])

    def u32(self) -> int:
        """Four bytes."""
        start = self._advance(4)
        return int.from_bytes(self._data[start : start + 4])

    def varint(self) -> int:
        """QUIC's variable-length integer, 1, 2, 4 or 8 bytes (RFC 9000, 16)."""
        if self._position >= self._end:
            raise TruncatedError(f"an integer wanted at offset {self._position}, nothing there")
        length = 1 << (self._data[self._position] >> 6)
        start = self._advance(length)
        return int.from_bytes(self._data[start : start + length]) & ((1 << (8 * length - 2)) - 1)

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        start = self._advance(count)
        return bytes(self._data[start : start + count])

    def vector(self, length_size: int) -> bytes:
        """A byte string with its length in `length_size` bytes before it (RFC 8446, 3.4)."""
        start = self._position
        end_of_length = start + length_size
        if end_of_length > self._end:
            raise TruncatedError(f"a length wanted at offset {start}, {self._end - start} bytes there")
        length = int.from_bytes(self._data[start:end_of_length])
        if length > self._end - end_of_length:
            raise TruncatedError(f"{length} bytes wanted at offset {end_of_length}, {self._end - end_of_length} there")
        self._position = end_of_length + length
        return bytes(self._data[end_of_length : self._position])

    def rest(self) -> bytes:
        """Everything that is left, which may be nothing."""
        return self.take(self._end - self._position)
