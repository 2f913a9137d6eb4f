"""`-w`: a capture file that grows while a run goes on, and is readable at every moment."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from h3probe import __version__
from h3probe.capture.pcapng_write import PcapngWriter
from h3probe.errors import UserError
from h3probe.events import Block, Frame
from h3probe.run.growing_file import GrowingFile
from h3probe.run.trim import Trimmer
from h3probe.text import count
from h3probe.wire.packet import PacketDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from h3probe.events import Event, Told
    from h3probe.records import AnyRecord
    from h3probe.redact import Redactor
    from h3probe.run.output import Output
    from h3probe.track.tracker import Tracker

FLUSH_S = 0.5
APPLICATION = f"h3probe {__version__}"


def this_os() -> str:
    """The operating system's name and release."""
    return f"{platform.system()} {platform.release()}"


@dataclass(frozen=True, slots=True)
class Rotation:
    """How a long run's file is split.

    Attributes:
        size: The bytes after which another file is begun.
        keep: How many files stay, the latest ones; None for all.
    """

    size: int
    keep: int | None = None


class Recorder:
    """Writes frames as pcapng, flushed at least every second.

    A disk that fills up ends the file, with one message, and not the run.

    Args:
        path: Where to; mode 0600.
        full: Keep payload as well; without it handshakes and headers are kept, credentials never.
        force: Replace a file that holds something.
        rotation: Split it: `NAME.0001.pcapng` and so on, each a capture by itself.
        redactor: Replaces names, addresses and credentials in what is kept; what it holds back is written in its place.

    Attributes:
        stopped: Whether nothing more is written.
        failed: Why, where something could not be written.

    Raises:
        UserError: The file exists, or cannot be made.
    """

    def __init__(  # noqa: PLR0913 - one parameter per thing that is asked for
        self,
        path: str | Path,
        output: Output,
        *,
        full: bool,
        force: bool,
        rotation: Rotation | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.path = Path(path)
        self._output = output
        self._trimmer = None if full else Trimmer()
        self._force = force
        self._rotation = rotation
        self._redactor = redactor
        self._flushed = time.monotonic()
        self._frames = 0
        self._kept: list[Path] = []
        self._deleted = 0
        self.stopped = False
        self.failed: str | None = None
        self._stream, self._writer = self._begin()

    @property
    def keeps_payload(self) -> bool:
        """Whether every byte is wanted."""
        return self._trimmer is None

    @property
    def takes_blocks(self) -> bool:
        """Whether what only counts may come in blocks: not where each packet is to be changed by itself."""
        return self._trimmer is not None and self._redactor is None

    @property
    def frames(self) -> int:
        """Frames written so far."""
        return self._frames

    @property
    def last_number(self) -> int:
        """The number that the latest frame has in the file, or will have."""
        return self._frames if self._redactor is None else self._redactor.taken

    @property
    def summary(self) -> str:
        """What was written, in a few words."""
        if self._rotation is None:
            return f"{self._written} to {self.path}"
        files = f"{self._written} to {count(len(self._kept) + self._deleted, 'file')}"
        deleted = f"; {count(self._deleted, 'older file')} deleted" if self._deleted else ""
        return f"{files}, the last one {self._kept[-1]}{deleted}"

    @property
    def _written(self) -> str:
        left_out = 0 if self._redactor is None else self._redactor.dropped.total()
        without = f" ({left_out} that cannot be redacted left out)" if left_out else ""
        return f"{self._frames} packets{without} written"

    def take(self, event: Event, tracker: Tracker) -> None:
        """Write what is to be kept of an event; the tracker has taken it already, and knows what it belongs to."""
        if isinstance(event, Frame):
            self.frame(event, tracker)
        else:
            self.observed(event)

    def block(self, block: Block, looked_at: Mapping[int, Frame], tracker: Tracker) -> None:
        """Write packets that only count, as they are to be kept.

        Args:
            block: All of its frames; the tracker has taken them already.
            looked_at: By their places in it, those that did not only count, as `kept` gave them.
            tracker: Knows what they belong to.
        """
        if self.stopped or self._trimmer is None:
            return
        from h3probe.run.trim_block import trimmed  # noqa: PLC0415 - numpy, which a block has loaded

        trimmer, decoder = self._trimmer, PacketDecoder()
        kept = trimmed(block, lambda frame: trimmer.kept_of_counted(decoder.decode(frame), tracker), looked_at)
        self._write(kept)

    def kept(self, frame: Frame, tracker: Tracker) -> Frame:
        """A frame of a block as it is to be kept; the tracker has just taken it."""
        return frame if self._trimmer is None else self._trimmer.trim(frame, tracker)

    def frame(self, frame: Frame, tracker: Tracker) -> None:
        """Write one frame."""
        if self.stopped:
            return
        frame = self.kept(frame, tracker)
        if self._redactor is None:
            self._write(frame)
            return
        for ready in self._redactor.frame(frame):
            self._write(ready)

    def _write(self, what: Frame | Block) -> None:
        if self.stopped:
            return
        try:
            if self._rotation is not None and self._stream.size >= self._rotation.size:
                self._rotate(self._rotation)
            if isinstance(what, Frame):
                self._writer.packet(what)
                self._frames += 1
            else:
                self._writer.packets(what)
                self._frames += len(what)
        except OSError as error:
            self._fail(error)
        except UserError as error:  # the next file is there already
            self._stop(str(error), "nothing more is written")

    def observed(self, event: Event) -> None:
        """A capture file has no place for what is no packet."""

    def decrypted(self, event: Told) -> None:
        """Nor for what decrypted traffic tells."""

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Nor for what is concluded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """After an error, keep what there is; nothing at all when the run did not even begin."""
        if not self.stopped:
            self.close(None)
            if error is not None and not self._frames:
                self._stream.path.unlink(missing_ok=True)

    def flush_if_due(self) -> None:
        """Hand what was written to the operating system when that is due."""
        now = time.monotonic()
        if self.stopped or now - self._flushed < FLUSH_S:
            return
        self._flushed = now
        try:
            self.flush()
        except OSError as error:
            self._fail(error)

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        self._writer.flush()

    def close(self, dropped: int | None) -> None:
        """Write the counters and close the file."""
        for frame in () if self._redactor is None else self._redactor.finish():
            self._write(frame)
        if self.stopped:
            return
        try:
            # One queue served all interfaces: its losses are written once, or a reader would add them up.
            if self._writer.interfaces:
                self._writer.statistics(0, None, dropped)
            self._stream.close()
        except OSError as error:
            self._fail(error)
        self.stopped = True

    def _begin(self) -> tuple[GrowingFile, PcapngWriter]:
        path = self.path
        if self._rotation is not None:
            number = len(self._kept) + self._deleted + 1
            path = path.with_name(f"{path.stem}.{number:04}{path.suffix or '.pcapng'}")
        stream = GrowingFile(path, force=self._force)
        self._kept.append(path)
        return stream, PcapngWriter(
            stream, application=APPLICATION, os=None if self._redactor is not None else this_os()
        )

    def _rotate(self, rotation: Rotation) -> None:
        self._stream.close()
        self._stream, self._writer = self._begin()
        if rotation.keep is not None and len(self._kept) > rotation.keep:
            self._kept.pop(0).unlink(missing_ok=True)
            self._deleted += 1

    def _fail(self, error: OSError) -> None:
        why = error.strerror or str(error)
        self._stop(why, "nothing more is written, what is there stays readable", f"{self._stream.path}: ")

    def _stop(self, why: str, then: str, where: str = "") -> None:
        self.stopped, self.failed = True, why
        self._output.note(f"{where}{why}; {then}")
