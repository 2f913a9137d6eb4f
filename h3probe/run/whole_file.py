"""Files that are written whole or not at all, and that nobody else may read."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import BinaryIO

_LONGEST = 200
STDOUT = "-"
"""The name that stands for standard output."""


def refuse_existing(name: str, *, force: bool, sources: Iterable[str] = ()) -> None:
    """Refuse a name that is taken, before any work is done for it.

    Args:
        name: What is to be written; `-` is standard output.
        force: Replace what is there.
        sources: What it is made from, which nothing replaces.

    Raises:
        UserError: There is such a file, and it is not to be replaced; or no file can have that name.
    """
    if name == STDOUT:
        return
    if "\0" in name:
        raise UserError(f"{name!r} cannot be written: no file has such a name")
    try:
        exists = Path(name).exists()
    except OSError as error:  # a name that is too long, a folder that is not to be looked into
        raise UserError(f"{name} cannot be written: {error.strerror or error}") from error
    if exists and not Path(name).is_file():  # a device is not to be replaced by a file
        raise UserError(f"{name} is {'a folder' if Path(name).is_dir() else 'no file'}; name a file to be written")
    if any(_is_same(name, source) for source in sources):
        raise UserError(f"{name} is read, and would be replaced by what is made of it; give the output another name")
    if not force and os.path.lexists(name):
        raise UserError(f"{name} exists already; --force replaces it, another name keeps it")


def _is_same(one: str, two: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return Path(one).samefile(two)
    return False


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the block as Ctrl-C does, so that what is half written is removed.

    Raises:
        SystemExit: One of them came.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # What somebody handles, or ignores (nohup), stays so; and only the main thread may ask.
    mine = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        mine = []
    for number in mine:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Write a file that appears under its name when the block has ended, whole and on the disk, or not at all.

    Args:
        path: Its name; mode 0600.
        force: Replace what has that name.

    Raises:
        UserError: There is such a file already, or it cannot be written; nothing is left behind.
    """
    refuse_existing(str(path), force=force)
    # As long a name as may be is too long with anything beside it.
    name = os.fsdecode(os.fsencode(path.name)[:_LONGEST])
    beside = path.with_name(f".{name}.{secrets.token_hex(4)}")
    with ended_in_order():
        try:
            # Read again while it is written: an archive is.
            with os.fdopen(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if not force:
                with contextlib.suppress(OSError):  # there are file systems without links
                    os.link(beside, path)  # which, other than renaming, fails where somebody was faster
                    return
                refuse_existing(str(path), force=False)
            beside.replace(path)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()


def write_whole(name: str, texts: Iterable[str], *, force: bool) -> None:
    """Write a file as `replacing` does; `-` is standard output.

    Raises:
        UserError: As of `replacing`.
    """
    if name == STDOUT:
        for text in texts:
            sys.stdout.write(text)
        return
    with open_whole(name, force=force) as stream:
        stream.writelines(text.encode() for text in texts)


@contextlib.contextmanager
def open_whole(name: str, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file to be written as `replacing` does; `-` is standard output.

    Raises:
        UserError: As of `replacing`.
    """
    if name == STDOUT:
        yield sys.stdout.buffer
        return
    refuse_existing(name, force=force)  # before what is no path is one
    with replacing(Path(name), force=force) as stream:
        yield stream
