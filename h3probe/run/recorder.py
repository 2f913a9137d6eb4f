"""`-w`: a capture file that grows while a run goes on, and is readable at every moment."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from h3probe import __version__
from h3probe.capture.pcapng_write import PcapngWriter
from h3probe.errors import UserError
from h3probe.events import Frame
from h3probe.run.trim import Trimmer

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO

    from h3probe.events import Event
    from h3probe.run.output import Output
    from h3probe.track.tracker import Tracker

FLUSH_S = 0.5


class Recorder:
    """Writes frames as pcapng, flushed at least every second.

    A disk that fills up ends the file, with one message, and not the run.

    Args:
        path: Where to; mode 0600.
        full: Keep payload as well; without it handshakes and headers are kept, credentials never.
        force: Replace a file that holds something.

    Raises:
        UserError: The file exists, or cannot be made.
    """

    def __init__(self, path: str, output: Output, *, full: bool, force: bool) -> None:
        self.path = Path(path)
        self._output = output
        self._stream: BinaryIO | None = _create(self.path, force=force)
        self._trimmer = None if full else Trimmer()
        self._flushed = time.monotonic()
        self._frames = 0
        self._interfaces: dict[str | None, int] = {}  # by name, in the order in which they were met
        self._writer = PcapngWriter(
            self._stream,
            application=f"h3probe {__version__}",
            os=f"{platform.system()} {platform.release()}",
        )

    @property
    def keeps_payload(self) -> bool:
        """Whether every byte is wanted."""
        return self._trimmer is None

    @property
    def summary(self) -> str:
        """What was written, in a few words."""
        return f"{self._frames} packets written to {self.path}"

    def take(self, event: Event, tracker: Tracker) -> None:
        """Write what is to be kept of an event; the tracker has taken it already, and knows what it belongs to."""
        if isinstance(event, Frame):
            self.frame(event, tracker)
        else:
            self.observed(event)

    def frame(self, frame: Frame, tracker: Tracker) -> None:
        """Write one frame."""
        if self._stream is None:
            return
        if self._trimmer is not None:
            frame = self._trimmer.trim(frame, tracker)
        try:
            self._interfaces[frame.interface] = self._writer.interface(frame.interface, frame.link_type)
            self._writer.packet(frame)
            self._frames += 1
        except OSError as error:
            self._fail(error)

    def observed(self, event: Event) -> None:
        """A capture file has no place for what is no packet."""

    @property
    def stopped(self) -> bool:
        """Whether nothing more is written."""
        return self._stream is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """After an error, keep what there is; nothing at all when the run did not even begin."""
        if self._stream is not None:
            if error is not None and not self._frames:
                self.path.unlink(missing_ok=True)
            self.close(None)

    def flush_if_due(self) -> None:
        """Hand what was written to the operating system when that is due."""
        now = time.monotonic()
        if self._stream is None or now - self._flushed < FLUSH_S:
            return
        self._flushed = now
        try:
            self._writer.flush()
        except OSError as error:
            self._fail(error)

    def close(self, dropped: int | None) -> None:
        """Write the counters and close the file."""
        if self._stream is None:
            return
        try:
            # One queue served all interfaces: its losses are written once, or a reader would add them up.
            for number in list(self._interfaces.values())[:1]:
                self._writer.statistics(number, None, dropped)
            self._stream.close()
        except OSError as error:
            self._fail(error)
        self._stream = None

    def _fail(self, error: OSError) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError):  # what is buffered still fails once more
                self._stream.close()
        self._stream = None
        self._output.note(
            f"{self.path}: {error.strerror or error}; nothing more is written, what is there stays readable"
        )


def _create(path: Path, *, force: bool) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        if path.is_file() and path.stat().st_size and not force:
            raise UserError(f"{path} exists already; --force replaces it, another name keeps it")
        return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=1 << 16)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
