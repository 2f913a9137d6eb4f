"""Capture files as a vantage point: opened by name, live from standard input, several merged by time."""

from __future__ import annotations

import heapq
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from h3probe.capture import CaptureReader, bundle, read_capture
from h3probe.errors import CaptureError, DecodeError, KeyLogError
from h3probe.events import Event, Frame, Secrets, Unreadable
from h3probe.vantage.proxy_events import LONGEST_LINE, Line, parse_event
from h3probe.vantage.recorded import Recorded, is_recorded
from h3probe.vantage.remote import is_url, open_url, shown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import BinaryIO

STDIN = "-"
"""The name that stands for standard input."""
KEY_LOG_CHUNK = 1 << 20
"""Bytes of a key log that are read at once; a browser's may have grown for years."""


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
        reader = read_capture(stream, name=name)
        if not live and Path(path).is_file():  # a pipe has no size
            reader.size = Path(path).stat().st_size
    except BaseException:
        stream.close()
        raise
    return reader


def _stdin() -> BinaryIO:
    """Standard input without Python's buffer, which would wait to be full."""
    if sys.stdin is None or sys.stdin.isatty():
        raise OSError("it is a terminal, not a capture")
    descriptor = sys.stdin.fileno()
    with suppress(OSError):
        # Whoever shares it (an ssh, a shell) may have set it not to wait.
        os.set_blocking(descriptor, True)
    return open(descriptor, "rb", buffering=0, closefd=False)


def merge(readers: Iterable[Iterator[Event]]) -> Iterator[Event]:
    """Read several sources as one, in order of time; frames are numbered from 1 over all of them.

    What one source holds stays in its order even where its times do not; what has no time comes as soon as it is
    read. A live capture holds the others up until its next frame is there.
    """
    readers = list(readers)
    if len(readers) == 1:
        yield from readers[0]
        return
    waiting: list[tuple[int, int, Event]] = []
    due = list(range(len(readers)))
    number = 0
    while True:
        for index in due:
            for event in readers[index]:
                time_ns = getattr(event, "time_ns", None)
                if time_ns is not None:
                    heapq.heappush(waiting, (time_ns, index, event))
                    break
                yield event
        if not waiting:
            return
        _, index, event = heapq.heappop(waiting)
        due = [index]
        if isinstance(event, Frame):
            number += 1
            event = replace(event, number=number)
        yield event


class ProxyEvents(Iterator[Line | Unreadable]):
    """A file of the proxy's events (NDJSON), as `addons/h3probe_log.py` writes it; a context manager.

    Attributes:
        format: `ndjson`.
        truncated: Whether it ends in the middle of a line.
        dropped: None: such a file does not count what it misses.
    """

    format = "ndjson"
    dropped: int | None = None

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._line = 0
        self.truncated = False

    def __next__(self) -> Line | Unreadable:
        line = self._stream.readline(LONGEST_LINE + 1)
        if not line:
            raise StopIteration
        self._line += 1
        self.truncated = not line.endswith(b"\n")
        try:
            return parse_event(line)
        except DecodeError as error:
            return Unreadable(f"{self._name}, line {self._line}: {error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stream.close()


def read_key_log(path: str | Path) -> Iterator[Secrets]:
    """Read the file that SSLKEYLOGFILE named, some lines at a time.

    Raises:
        KeyLogError: It cannot be opened or read.
    """
    try:
        with Path(path).open("rb") as stream:
            rest = b""
            while chunk := stream.read(KEY_LOG_CHUNK):
                lines, end, rest = (rest + chunk).rpartition(b"\n")
                yield Secrets(lines + end)
                rest = rest[:KEY_LOG_CHUNK]  # A line that long is none.
            yield Secrets(rest)
    except OSError as error:
        raise KeyLogError(f"the key log {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the name
        raise KeyLogError(f"the key log {str(path)!r} cannot be read: {error}") from error


def open_source(path: str) -> CaptureReader | ProxyEvents | Recorded:
    """Open a capture, a file of the proxy's events, a bundle or a bundle's folder; its beginning tells them apart.

    Args:
        path: A file here, or a URL that fsspec opens.

    Raises:
        CaptureError: It cannot be opened, or is none of them.
        MissingExtraError: It is a URL, and fsspec is not installed.
    """
    if is_url(path):
        return _open_remote(path)
    if path != STDIN and is_recorded(path):
        return Recorded(path)
    if path != STDIN and _holds_events(path):
        return ProxyEvents(Path(path).open("rb"), path)
    return open_capture(path)


def _open_remote(url: str) -> CaptureReader | ProxyEvents | Recorded:
    """The same of a URL, which is opened once."""
    name, stream = shown(url), open_url(url)
    try:
        try:
            first = stream.peek()
        except OSError as error:
            raise CaptureError(f"{name} cannot be read: {error}") from error
        if first.startswith(bundle.MAGIC):
            return Recorded(name, stream)
        if _is_event(first.partition(b"\n")[0]):
            return ProxyEvents(stream, name)
        return read_capture(stream, name=name)
    except BaseException:
        stream.close()
        raise


def _holds_events(path: str) -> bool:
    try:
        with Path(path).open("rb") as stream:
            return _is_event(stream.readline(LONGEST_LINE + 1))
    except (OSError, ValueError):
        return False


def _is_event(line: bytes) -> bool:
    try:
        parse_event(line)
    except DecodeError:
        return False
    return True
