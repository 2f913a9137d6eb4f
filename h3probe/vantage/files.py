"""Capture files as a vantage point: opened by name, live from standard input, several merged by time."""

from __future__ import annotations

import heapq
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.capture import CaptureReader, read_capture
from h3probe.errors import CaptureError
from h3probe.events import Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from h3probe.capture.reader import CaptureEvent

STDIN = "-"
"""The name that stands for standard input."""


def open_capture(path: str | Path) -> CaptureReader:
    """Open a capture file; `-` is standard input, read live as it comes.

    Returns:
        The reader, a context manager that closes the file.

    Raises:
        CaptureError: There is no such file, it may not be read, or it is no capture.
    """
    live = str(path) == STDIN
    name = "standard input" if live else str(path)
    try:
        stream = _stdin() if live else Path(path).open("rb", buffering=0)  # noqa: SIM115 - the reader closes it
    except OSError as error:
        raise CaptureError(f"{name} cannot be opened: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the name
        raise CaptureError(f"{name!r} cannot be opened: {error}") from error
    try:
        return read_capture(stream, name=name)
    except BaseException:
        stream.close()
        raise


def _stdin() -> BinaryIO:
    """Standard input without Python's buffer, which would wait to be full."""
    if sys.stdin is None or sys.stdin.isatty():
        raise OSError("it is a terminal, not a capture")
    descriptor = sys.stdin.fileno()
    with suppress(OSError):
        # Whoever shares it (an ssh, a shell) may have set it not to wait.
        os.set_blocking(descriptor, True)
    return open(descriptor, "rb", buffering=0, closefd=False)


def merge(readers: Iterable[CaptureReader]) -> Iterator[CaptureEvent]:
    """Read several captures as one: frames in order of time, numbered from 1 over all of them.

    Frames of one capture stay in its order even where their times do not; what is no frame comes as soon as it is
    read. A live capture holds the others up until its next frame is there.
    """
    readers = list(readers)
    if len(readers) == 1:
        yield from readers[0]
        return
    waiting: list[tuple[int, int, Frame]] = []
    due = list(range(len(readers)))
    number = 0
    while True:
        for index in due:
            for event in readers[index]:
                if isinstance(event, Frame):
                    heapq.heappush(waiting, (event.time_ns, index, event))
                    break
                yield event
        if not waiting:
            return
        _, index, frame = heapq.heappop(waiting)
        due = [index]
        number += 1
        yield Frame(number, frame.time_ns, frame.link_type, frame.data, frame.length, frame.interface)
