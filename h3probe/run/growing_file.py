"""Files that grow, and are whole at every moment."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Self

from h3probe.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

BUFFERED = 1 << 16
MODE = 0o600


class GrowingFile:
    """A file that is written piece by piece (a block, a line), and ends between two of them whenever it is looked at.

    Pieces are collected, and handed to the operating system together. Where that takes only a part of them, as on a
    full disk, the file is cut back to the last one that fits.

    Args:
        path: Where to; mode 0600. A symbolic link is not followed.
        force: Replace a file that holds something.

    Attributes:
        size: Bytes so far, the collected ones among them.

    Raises:
        UserError: The file exists, or cannot be made.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self.path = path
        self.size = 0
        self._pieces: list[bytes] = []
        self._collected = 0
        try:
            if path.is_file() and path.stat().st_size and not force:
                raise UserError(f"{path} exists already; --force replaces it, another name keeps it")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            self._file = os.fdopen(os.open(path, flags, MODE), "wb", buffering=0)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror or error}") from error

    def fileno(self) -> int:
        """The descriptor."""
        return self._file.fileno()

    def write(self, piece: bytes) -> int:
        """Add a piece.

        Raises:
            OSError: What was collected so far could not be written; the file is closed, and whole.
        """
        self._pieces.append(piece)
        self._collected += len(piece)
        self.size += len(piece)
        if self._collected >= BUFFERED:
            self.flush()
        return len(piece)

    def flush(self) -> None:
        """Hand what was collected to the operating system.

        Raises:
            OSError: As `write`.
        """
        pieces, self._pieces, self._collected = self._pieces, [], 0
        if not pieces:
            return
        data = b"".join(pieces)
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:]) or 0
        except OSError:
            self._cut(pieces, len(data), written)
            raise

    def close(self) -> None:
        """Write the rest, and close.

        Raises:
            OSError: As `write`.
        """
        if not self._file.closed:
            self.flush()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cut(self, pieces: list[bytes], whole: int, written: int) -> None:
        """Take half a piece away from the end, and close."""
        self.size -= whole
        start = self.size
        for piece in pieces:
            if self.size - start + len(piece) > written:
                break
            self.size += len(piece)
        with contextlib.suppress(OSError):  # a device has no length
            os.ftruncate(self._file.fileno(), self.size)
        self._file.close()
