"""A client's log that is being written to a file of its own: Chromium's NetLog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from h3probe.vantage.clientlog.lines import Lines
from h3probe.vantage.clientlog.netlog import LONGEST_EVENT, NetLog
from h3probe.vantage.followed import CHUNK, FollowedFile

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from h3probe.events import Told


# What is read at a time while packets wait; at some 10 MB/s that takes 6 ms.
AT_ONCE: Final = 1 << 16


class NetLogTail:
    """Reads a NetLog while a browser writes it; a context manager.

    Args:
        path: Its name; the browser makes the file, or empties the one that is there.
        since_ns: When the browser was started at the earliest, nanoseconds since the epoch.

    Attributes:
        write_end: None: the command keeps its standard error.
        empty: Whether nothing came.
    """

    write_end = None

    def __init__(self, path: Path, since_ns: int) -> None:
        self.empty = True
        self._file = FollowedFile(path, since_ns)
        self._lines = Lines(LONGEST_EVENT)
        self._log = NetLog()

    def start(self) -> None:
        """Nothing is to be prepared."""

    def events(self) -> list[Told]:
        """Return what the log has told since the last call."""
        return self._take(self._file.read(AT_ONCE))

    def rest(self) -> list[Told]:
        """Read what is there, once the command has ended, and return what it tells."""
        told: list[Told] = []
        # Whoever goes on writing now is no longer the command.
        left = self._file.left
        while left > 0 and (data := self._file.read(min(left, CHUNK))):
            left -= len(data)
            told += self._take(data)
        for line in self._lines.finish():
            self._log.line(line)
        self._log.finish()
        return told + self._log.take()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.__exit__(kind, error, traceback)

    def _take(self, data: bytes) -> list[Told]:
        self.empty = self.empty and not data
        for line in self._lines.feed(data):
            self._log.line(line)
        return self._log.take()
