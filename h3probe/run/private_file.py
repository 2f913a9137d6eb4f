"""Files that only their owner may read."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from h3probe.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path


def create_private(path: Path, *, force: bool) -> int:
    """Make an empty file of mode 0600, and return its descriptor, open to be written.

    Args:
        path: Its name; a symbolic link is not followed.
        force: Whether one that holds something is replaced.

    Raises:
        UserError: It holds something, or cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_NONBLOCK", 0)  # A pipe would wait for a reader, whatever signals come.
    try:
        if path.is_file() and path.stat().st_size and not force:
            raise UserError(f"{path} exists already; --force replaces it, another name keeps it")
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is no file")
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o600)  # One that was there has a mode of its own.
    return descriptor
