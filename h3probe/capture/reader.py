"""What every capture reader has, whichever format it reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self

from h3probe.events import Dropped, Frame, Secrets, Unreadable

if TYPE_CHECKING:
    from types import TracebackType

    from h3probe.capture.blocks import Blocks
    from h3probe.capture.window import Window
    from h3probe.events import Block


class Plain(NamedTuple):
    """Ordinary packets, indexed.

    Attributes:
        block: They.
        end: Where in the buffer what follows them begins.
    """

    block: Block
    end: int


type CaptureEvent = Frame | Dropped | Unreadable | Secrets

MAX_BLOCK = 16 * 1024 * 1024
"""The largest record that is believed, bytes; the largest packet of any link type that h3probe reads is 256 KiB."""

MAX_KEPT = 16 * 1024 * 1024
"""The most bytes of comments that are kept of one capture."""

MAX_DECLARED = 64
"""The most different link types, and snaplens, that are kept of one capture."""


class CaptureReader(ABC, Iterator[CaptureEvent]):
    """An iterator of what a capture holds, in file order; it raises nothing while it iterates.

    The attributes fill as the reading goes on.

    Attributes:
        name: What messages call the source.
        format: `pcap` or `pcapng`.
        compression: `gzip`, `zstd`, `xz` or `bzip2`; None where there is none.
        link_types: The LINKTYPE_ numbers declared so far, each once, in order.
        snaplens: The limits on captured bytes declared so far, each once, in order; 0 (no limit) is left out.
        truncated: Whether it could not be read to its end: it stops in mid-packet, or damage stopped the reading.
        dropped: Packets that the recording program says it lost; None if it does not say.
        size: Bytes that the file has, where whoever opened it knows, and nothing is compressed.
        comments: (frame number, text), with frame number 0 for a comment on the file or an interface.
    """

    format: str

    def __init__(self, window: Window, *, name: str, limit: int) -> None:
        self.name = name
        self.compression: str | None = None
        self.link_types: list[int] = []
        self.snaplens: list[int] = []
        self.truncated = False
        self.dropped: int | None = None
        self.size: int | None = None
        self.comments: list[tuple[int, str]] = []
        self.stream: BinaryIO | None = None
        self._window = window
        self._limit = limit
        self._blocks: Blocks | None = None
        self._left = 0  # events of what was read last, which come before anything else
        self._mistrusted = False  # the last record was damaged; with the next one's damage nothing is believed any more
        self._number = 0
        self._events = self._read()

    @abstractmethod
    def _read(self) -> Iterator[CaptureEvent]:
        """Everything after what the constructor has read."""

    def __next__(self) -> CaptureEvent:
        return next(self._events)

    @property
    def offset(self) -> int:
        """How many bytes were read, decompressed ones where there is compression."""
        return self._window.offset

    def block(self) -> Block | None:
        """The next frames, as many as are at hand and ordinary; None where what comes next is for `next` to read."""
        from h3probe.capture import blocks  # noqa: PLC0415 - only large captures need numpy

        if self._left or self.truncated:
            return None
        if self._blocks is None:
            live = self.stream is not None and not self.stream.seekable()
            self._blocks = blocks.Blocks(self._window, self.stream if live else None)
        block = self._blocks.read(self)
        if block is not None:
            self._mistrusted = False
        return block

    @abstractmethod
    def plain(self, data: bytearray, at: int, end: int) -> Plain | None:
        """Index the ordinary packets that stand whole in `data` from `at` to `end`; None without any.

        What is not ordinary - damage, other blocks, options - ends them, and is read by `next`.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the stream that the capture is read from."""
        if self.stream is not None:
            self.stream.close()

    def take_back(self, block: Block) -> None:
        """Forget that these packets were indexed: they are read one by one."""
        self._number = block.first - 1

    def _declare(self, link_type: int, snaplen: int) -> None:
        """Note an interface's link type, and its limit on captured bytes (0 for none)."""
        if link_type not in self.link_types and len(self.link_types) < MAX_DECLARED:
            self.link_types.append(link_type)
        if snaplen and snaplen not in self.snaplens and len(self.snaplens) < MAX_DECLARED:
            self.snaplens.append(snaplen)

    def _stop(self, reason: str) -> Unreadable:
        """The event for damage that ends the reading, though there is more."""
        self.truncated = True
        if self.size is not None and self.compression is None:
            reason += f"; {self._window.offset:,} of {self.size:,} bytes were read"
        return Unreadable(reason, damaged=True)

    def _cut(self, reason: str) -> Unreadable:
        """The event for a stream that ends too early."""
        self.truncated = True
        return Unreadable(reason)

    def _finish(self, part: str) -> Iterator[Unreadable]:
        """The events for a stream that has ended, which may have been in the middle of a `part` (packet, block)."""
        window = self._window
        if window.fault:
            yield self._cut(f"{self.name} could not be read past byte {window.offset + window.left}: {window.fault}")
        elif window.left:
            yield self._cut(
                f"{self.name} ends in the middle of a {part}, {window.left} bytes after byte {window.offset}"
            )
