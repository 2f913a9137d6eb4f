"""Files that are written whole or not at all, and that nobody else may read."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

STDOUT = "-"
"""The name that stands for standard output."""


def refuse_existing(name: str, *, force: bool) -> None:
    """Refuse a name that is taken, before any work is done for it.

    Raises:
        UserError: There is such a file, and it is not to be replaced; or no file can have that name.
    """
    if name == STDOUT:
        return
    if "\0" in name:
        raise UserError(f"{name!r} cannot be written: no file has such a name")
    if not force and os.path.lexists(name):
        raise UserError(f"{name} exists already; --force replaces it, another name keeps it")
    if Path(name).exists() and not Path(name).is_file():  # a device is not to be replaced by a file
        raise UserError(f"{name} is no file; `-o -` writes to standard output")


def write_whole(name: str, texts: Iterable[str], *, force: bool) -> None:
    """Write a file under another name, mode 0600, and give it its own once it is whole; `-` is standard output.

    Raises:
        UserError: There is such a file already, or it cannot be written; nothing is left behind.
    """
    if name == STDOUT:
        for text in texts:
            sys.stdout.write(text)
        return
    with open_whole(name, force=force) as file:
        file.writelines(text.encode() for text in texts)


@contextlib.contextmanager
def open_whole(name: str, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file to be written in the same way: it has its name once the block has ended without an error.

    Raises:
        UserError: As `write_whole`.
    """
    if name == STDOUT:
        yield sys.stdout.buffer
        return
    refuse_existing(name, force=force)
    path = Path(name)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
        refuse_existing(name, force=force)
        beside.replace(path)
    except OSError as error:
        raise UserError(f"{name} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
