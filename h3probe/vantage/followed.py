"""A file that somebody else writes, read while it grows."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

CHUNK: Final = 1 << 18
# What a file begins with tells whether somebody has begun it anew, though it has grown past where it was read to.
_HEAD: Final = 128


class FollowedFile:
    """Reads what was appended since the last time; a context manager.

    A file that is not there yet is waited for, and so is one that has not been written since: what it holds is another
    run's. One that is emptied and written anew, as by a second library of one program, is read from its beginning
    again. Nothing but a plain file is opened.

    Args:
        path: Its name.
        since_ns: What was written before this time is not looked at, nanoseconds since the epoch; 0 for everything.

    Attributes:
        begun: How often it was begun anew.
    """

    def __init__(self, path: Path, since_ns: int = 0) -> None:
        self.path = path
        self._since_ns = since_ns
        self._descriptor = -1
        self._head = b""
        self.begun = 0

    def read(self, limit: int = CHUNK) -> bytes:
        """Return what is there now, `limit` bytes at most; nothing where it cannot be read."""
        try:
            if not self.open():
                return b""
            self._look()
            return os.read(self._descriptor, limit)
        except OSError:
            return b""

    @property
    def left(self) -> int:
        """How many bytes are there to be read at this moment."""
        try:
            if not self.open():
                return 0
            self._look()
            return max(self._size() - os.lseek(self._descriptor, 0, os.SEEK_CUR), 0)
        except OSError:
            return 0

    def _look(self) -> None:
        """Go back to the beginning where the file is another one than was read."""
        position = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        head = os.read(self._descriptor, _HEAD)
        if head.startswith(self._head) and self._size() >= position:
            os.lseek(self._descriptor, position, os.SEEK_SET)
        else:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            self.begun += 1
        self._head = head

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

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
