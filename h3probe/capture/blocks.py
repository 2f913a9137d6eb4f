"""Reads a capture in large pieces, and gives the ordinary packets in each at once."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from h3probe.events.block import PADDING

if TYPE_CHECKING:
    from typing import BinaryIO

    from h3probe.capture.reader import CaptureReader
    from h3probe.capture.window import Window
    from h3probe.events import Block

SIZE = 4 * 1024 * 1024
"""Bytes that are read at once, at most."""

FEWEST = 32
"""Where fewer packets than these stand together, reading them one by one is no slower."""

ONE_BY_ONE = 64 * 1024
"""Bytes that are read one by one after that, before the next try."""


MOMENT_S = 0.002
"""How long a packet from a pipe waits for others, at most; whoever writes a file into it is back by then."""


class Blocks:
    """A buffer of its own over a window's stream, which is used again and again.

    While it has bytes the window has none, and the other way round: `read` takes them over, and gives them back where
    something comes that is no ordinary packet.

    Args:
        window: Over the stream.
        live: A stream where reading on may have to wait, so that packets that are there are not held back for more.
    """

    def __init__(self, window: Window, live: BinaryIO | None) -> None:
        self._window = window
        self._live = live
        self._data = bytearray()
        self._at = self._end = 0
        self._one_by_one = 0

    def read(self, reader: CaptureReader) -> Block | None:
        """What `CaptureReader.block` gives."""
        window = self._window
        if window.data:
            if window.offset < self._one_by_one and window.left:
                return None
            self._take_over()
        while self._live is not None and self._end - self._at < SIZE // 4 and _has_more(self._live) and self._fill():
            pass
        for _ in range(2):
            plain = reader.plain(self._data, self._at, self._end)
            if plain is not None and len(plain.block) >= FEWEST:
                window.passed(plain.end - self._at)
                self._at = plain.end
                return plain.block
            if plain is not None:
                reader.take_back(plain.block)
                if self._live is not None:
                    break
            if not self._fill():
                break
        self._give_back()
        return None

    def _take_over(self) -> None:
        window = self._window
        left = window.left
        if len(self._data) < left + PADDING:
            self._data = bytearray(max(SIZE, left) + PADDING)
        self._data[:left] = memoryview(window.data)[window.at :]
        self._at, self._end = 0, left
        window.hand_over()

    def _fill(self) -> bool:
        """Read on; False where there is no room, or nothing more."""
        left = self._end - self._at
        if len(self._data) < SIZE + PADDING:
            self._data += bytes(SIZE + PADDING - len(self._data))
        self._data[:left] = self._data[self._at : self._end]
        self._at, self._end = 0, left
        with memoryview(self._data) as view:
            more = self._window.read_into(view[left : len(view) - PADDING])
        self._end += more
        return more > 0

    def _give_back(self) -> None:
        self._window.take_back(bytes(memoryview(self._data)[self._at : self._end]))
        self._one_by_one = self._window.offset + ONE_BY_ONE
        self._at = self._end = 0


def _has_more(stream: BinaryIO) -> bool:
    """Whether a pipe has more, or will in a moment."""
    try:
        return bool(select.select([stream], [], [], MOMENT_S)[0])
    except (OSError, ValueError):
        return False  # nothing that can be waited for
