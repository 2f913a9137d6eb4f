"""A file that somebody else writes, read while it grows."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

CHUNK: Final = 1 << 18


class FollowedFile:
    """Reads what was appended since the last time; a context manager.

    A file that is not there yet is waited for, and so is one that has not been written since: what it holds is another
    run's. Nothing but a plain file is opened.

    Args:
        path: Its name.
        since_ns: What was written before this time is not looked at, nanoseconds since the epoch; 0 for everything.
    """

    def __init__(self, path: Path, since_ns: int = 0) -> None:
        self.path = path
        self._since_ns = since_ns
        self._descriptor = -1

    def read(self, limit: int = CHUNK) -> bytes:
        """Return what is there now, `limit` bytes at most; nothing where it cannot be read."""
        try:
            if not self.open():
                return b""
            return os.read(self._descriptor, limit)
        except OSError:
            return b""

    @property
    def left(self) -> int:
        """How many bytes are there to be read at this moment."""
        try:
            if not self.open():
                return 0
            return max(os.fstat(self._descriptor).st_size - os.lseek(self._descriptor, 0, os.SEEK_CUR), 0)
        except OSError:
            return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def open(self) -> bool:
        """Open it as soon as it is there, and return whether it is open; otherwise that is done when it is read.

        Raises:
            OSError: It cannot be opened.
        """
        if self._descriptor >= 0:
            return True
        # Without waiting for whoever writes, should it be a pipe.
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_mtime_ns < self._since_ns:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True
