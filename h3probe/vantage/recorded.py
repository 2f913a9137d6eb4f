"""A bundle, or the folder that becomes one, as a vantage point: packets, and between them what else was observed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from h3probe.capture import bundle, read_capture
from h3probe.errors import CaptureError, DecodeError
from h3probe.events import CaptureEnded, Dropped, Event, Frame, RunBegan, RunEnded, Unreadable
from h3probe.vantage import places
from h3probe.vantage.proxy_events import LONGEST_LINE, Observed, parse_observed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import BinaryIO

    from h3probe.capture import CaptureReader

MOST_BROKEN: Final = 1_000
"""Lines of observations that cannot be read, after which none is."""
LARGEST_ENVIRONMENT = 1 << 20
"""Bytes of `environment.json` that are read."""


class Recorded(Iterator[Event]):
    """What a run, or a capture that was bundled, consists of, in the order in which it came; a context manager.

    Args:
        path: A bundle, or a folder with its members.
        stream: The bundle, where it is open already; closed with this.

    Attributes:
        format: As the capture's.
        truncated: Whether it ends in the middle of a packet.
        dropped: Packets that are known to have been lost.

    Raises:
        CaptureError: It is neither, or not one that is believed.
    """

    def __init__(self, path: str | Path, stream: BinaryIO | None = None) -> None:
        self._name = str(path)
        self._open, self._close = _members(Path(path), self._name, stream)
        try:
            self._capture = self._open_capture()
            self._observed = self._open(bundle.OBSERVED)
        except BaseException:
            self._close()
            raise
        self.format = self._capture.format
        self._line = self._broken = 0
        self._is_run = False
        self._ended: RunEnded | CaptureEnded | None = None
        self._events = self._merged()

    @property
    def truncated(self) -> bool:
        """Whether it ends in the middle of a packet."""
        return self._capture.truncated or (isinstance(self._ended, CaptureEnded) and self._ended.truncated)

    @property
    def dropped(self) -> int | None:
        """Packets that are known to have been lost."""
        return self._capture.dropped if self._ended is None else self._ended.dropped

    def __next__(self) -> Event:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._capture.close()
        if self._observed is not None:
            self._observed.close()
        self._close()

    def _open_capture(self) -> CaptureReader:
        stream = self._open(bundle.CAPTURE)
        if stream is None:
            raise CaptureError(f"{self._name} has no {bundle.CAPTURE} in it: it is no folder of h3probe's")
        return read_capture(stream, name=f"{bundle.CAPTURE} in {self._name}")

    def _merged(self) -> Iterator[Event]:
        """Each observation after the frame that it followed."""
        observed = self._next_observed()
        told_of_losses = self._observed is not None
        number = 0
        for event in self._capture:
            if isinstance(event, Frame):
                while observed is not None and observed[1] <= number:
                    yield observed[0]
                    observed = self._next_observed()
                number = event.number
            elif isinstance(event, Dropped) and told_of_losses:
                continue  # What was observed tells of them, each in its place; the capture has their sum.
            yield event
        while observed is not None:
            yield observed[0]
            observed = self._next_observed()
        if self._is_run and self._ended is None:
            yield Unreadable(f"{self._name} has no end: the run, or the writing of it, was cut off")

    def _next_observed(self) -> tuple[Observed, int] | None:
        if self._observed is None:
            return None
        try:
            line = self._observed.readline(LONGEST_LINE + 1)
        except OSError as error:
            self._observed = None
            return Unreadable(f"{bundle.OBSERVED} in {self._name} could not be read on: {error}"), 0
        if not line:
            return None
        self._line += 1
        try:
            event, after = parse_observed(line)
        except DecodeError as error:
            self._broken += 1
            if self._broken == MOST_BROKEN:  # a small archive unpacks to millions of them
                self._observed.close()
                self._observed = None
                return Unreadable(f"{bundle.OBSERVED} in {self._name} is not read on: {MOST_BROKEN} broken lines"), 0
            return Unreadable(f"{bundle.OBSERVED} in {self._name}, line {self._line}: {error}"), 0
        self._is_run = self._is_run or isinstance(event, RunBegan)
        if isinstance(event, RunEnded | CaptureEnded):
            self._ended = event
        return event, after


def is_recorded(path: str) -> bool:
    """Whether there is a folder of this name, or a file that begins as a bundle does."""
    place = Path(path)
    try:
        if places.is_folder(place):
            return True
        with place.open("rb") as stream:
            return stream.read(len(bundle.MAGIC)) == bundle.MAGIC
    except (OSError, ValueError):
        return False


def read_environment(path: str | Path) -> dict[str, Any]:
    """Read what a bundle, or a folder, says of where it was recorded; hostile, and empty where it says nothing.

    Raises:
        CaptureError: It is neither, or not one that is believed.
    """
    opened, close = _members(Path(path), str(path))
    try:
        stream = opened(bundle.ENVIRONMENT)
        if stream is None:
            return {}
        with contextlib.closing(stream):
            found = json.loads(stream.read(LARGEST_ENVIRONMENT))
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        close()
    return found if isinstance(found, dict) else {}


def _members(
    path: Path, name: str, stream: BinaryIO | None = None
) -> tuple[Callable[[str], BinaryIO | None], Callable[[], None]]:
    """How to open a member, and how to let go of them all."""
    if stream is None and places.is_folder(path):
        return lambda member: _opened(path / member), lambda: None
    try:
        stream = stream or path.open("rb")
    except OSError as error:
        raise CaptureError(f"{name} cannot be opened: {error.strerror or error}") from error
    try:
        archive = bundle.Bundle(stream, name=name)
    except BaseException:
        stream.close()
        raise
    return archive.open, archive.close


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb") if path.is_file() and not path.is_symlink() else None
    except OSError as error:
        raise CaptureError(f"{path} cannot be opened: {error.strerror or error}") from error
