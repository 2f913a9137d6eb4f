from __future__ import annotations

import io
from typing import TYPE_CHECKING

from h3probe.capture.window import CHUNK, Window, reading
from h3probe.errors import DecodeError
from tests.capture.build import Trickle

if TYPE_CHECKING:
    from collections.abc import Buffer


def window(*pieces: bytes, ends: bool = False) -> Window:
    """A window over a stream of these pieces."""
    return Window(Trickle(*pieces, ends=ends).read)


def test_reads_no_more_pieces_than_needed() -> None:
    """Bytes that are there already suffice: the stream is not asked again."""
    w = window(b"ab", b"cd")
    assert w.need(4)
    w.at += 3
    assert w.need(1)
    assert w.data[w.at :] == b"d"


def test_keeps_what_there_is_at_the_end() -> None:
    """When the stream ends too soon, what is left stands at `at` and `offset` counts what came before it."""
    w = window(b"abc", b"de", ends=True)
    assert w.need(3)
    w.at += 3
    assert not w.need(3)
    assert (w.data[w.at :], w.left, w.offset, w.fault) == (b"de", 2, 3, None)


def test_does_not_read_past_the_end() -> None:
    """A stream that has ended is not read again: a terminal would go on after its end-of-file key."""
    w = window(b"a", b"", b"b")
    assert not w.need(2)
    assert not w.need(2)


def test_an_io_error_ends_the_stream_and_is_kept() -> None:
    """A failing disk or damaged compressed data looks like an end, with the reason beside it."""

    def broken(_size: int) -> bytes:
        raise OSError(5, "Input/output error")

    def damaged(_size: int) -> bytes:
        raise DecodeError("its gzip data is damaged")

    for read, fault in ((broken, "Input/output error"), (damaged, "its gzip data is damaged")):
        w = Window(read)
        assert not w.need(1)
        assert w.fault == fault


def test_a_stream_that_does_not_wait_is_no_empty_one() -> None:
    """None from a non-blocking stream is a fault, not an ordinary end."""
    w = Window(lambda _size: None)
    assert not w.need(1)
    assert w.fault == "it is set not to wait for data"


def test_asks_for_what_is_there_only() -> None:
    """A buffered stream is read through `read1`, as its `read` would wait for every byte asked for."""
    raw = Trickle(b"abc")

    class Raw(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Buffer) -> int:
            view = memoryview(buffer)
            data = raw.read(len(view))
            view[: len(data)] = data
            return len(data)

    assert reading(io.BufferedReader(Raw()))(CHUNK) == b"abc"


def test_a_thousand_small_pieces_become_one() -> None:
    """A record that arrives byte by byte is put together."""
    pieces = [bytes([i % 256]) for i in range(1000)]
    w = window(*pieces)
    assert w.need(1000)
    assert w.data == b"".join(pieces)
