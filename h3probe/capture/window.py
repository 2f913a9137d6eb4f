"""A sliding window over a byte stream that never seeks and never waits for more than the next record needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    type Read = Callable[[int], bytes | None]
    type ReadInto = Callable[[memoryview], int | None]

CHUNK = 256 * 1024
"""The most bytes asked of the stream at once."""


def reading(stream: BinaryIO) -> Read:
    """How to get what the stream has now, at most so many bytes: `read1` where there is one, as `read` may wait."""
    read: Read = getattr(stream, "read1", None) or stream.read
    return read


def reading_into(stream: BinaryIO) -> ReadInto | None:
    """How to get the same into a buffer that is there already; None where the stream cannot."""
    into: ReadInto | None = getattr(stream, "readinto1", None) or getattr(stream, "readinto", None)
    return into


class Window:
    """The unread bytes of a stream, in one `bytes` object that parsers index directly.

    Attributes:
        data: What has been read and not yet been let go.
        at: Where the next record starts in `data`; the parser moves it.
        fault: Why the stream ended early, where it did not just end: an I/O error, damaged compressed data.
    """

    __slots__ = ("_before", "_ended", "_into", "_read", "at", "data", "fault")

    def __init__(self, read: Read, first: bytes = b"", into: ReadInto | None = None) -> None:
        self._read = read
        self._into = into
        self._before = 0
        self._ended = False
        self.data = first
        self.at = 0
        self.fault: str | None = None

    @property
    def offset(self) -> int:
        """How many bytes of the stream come before `at`."""
        return self._before + self.at

    @property
    def left(self) -> int:
        """How many bytes can be had at `at` without reading."""
        return len(self.data) - self.at

    def need(self, count: int) -> bool:
        """Make `count` bytes stand at `at`, moving `data` and `at` if more has to be read.

        Returns:
            False if the stream ended first; what there is then stands at `at`.
        """
        return len(self.data) - self.at >= count or self._fill(count)

    def hand_over(self) -> None:
        """Let go of what stands at `at`: somebody else reads on from there, and says so with `passed`."""
        self._before += self.at
        self.data, self.at = b"", 0

    def passed(self, count: int) -> None:
        """So many bytes more were read by somebody else."""
        self._before += count

    def take_back(self, rest: bytes) -> None:
        """Read on again, with what somebody else has left over."""
        self.data, self.at = rest, 0

    def read_into(self, room: memoryview) -> int:
        """Put the stream's next bytes, at most as many as there is room for, into somebody else's buffer.

        Returns:
            How many there were; 0 once the stream has ended, or where there is no room.
        """
        if not room:
            return 0
        if self._into is None:
            more = self._more(len(room))
            room[: len(more)] = more
            return len(more)
        into = self._into
        count = 0

        def read(_: int) -> bytes | None:
            nonlocal count
            found = into(room)
            count = found or 0
            return None if found is None else b"." if found else b""

        self._more(0, read)
        return count

    def _fill(self, count: int) -> bool:
        # A bytearray, as a list of pieces would cost a hostile pipe's two-byte writes 50 bytes of memory each.
        held = bytearray(memoryview(self.data)[self.at :])
        while len(held) < count and (more := self._more()):
            held += more
        self._before += self.at
        self.data, self.at = bytes(held), 0
        return len(held) >= count

    def _more(self, size: int = CHUNK, read: Read | None = None) -> bytes:
        """The next bytes of the stream; none once it has ended, even if a terminal would go on after its ^D."""
        if self._ended:
            return b""
        try:
            more = (read or self._read)(size)
            if more is None:
                self.fault = "it is set not to wait for data"
        except OSError as error:
            more, self.fault = b"", error.strerror or str(error)
        except DecodeError as error:
            more, self.fault = b"", str(error)
        self._ended = not more
        return more or b""
