"""Captures that are named by a URL (`s3://…`, `file://…`), opened by fsspec; credentials in it are never told."""

from __future__ import annotations

import io
import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from h3probe.errors import CaptureError, MissingExtraError, UserError
from h3probe.wire.http1 import REDACTED
from h3probe.wire.urls import path_of

if TYPE_CHECKING:
    from collections.abc import Buffer, Iterator
    from typing import BinaryIO

AT_ONCE: Final = 1 << 18
"""Bytes that are asked of a storage at once, at least; its file system may read ahead more."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_CHAINED: Final = re.compile(rf"::(?={_URL.pattern})")
_USER_INFO: Final = re.compile(
    # A secret key may have slashes in it, where nobody wrote them as %2F; a port is none.
    r"(://)(?:[^/@?#]*|(?![^/@]*:\d+/)[^/@]*:[^@]*)@(?:[^/]*@)?"
)


def is_url(name: str) -> bool:
    """Whether this names something that fsspec opens, and not a file here."""
    return _URL.match(name) is not None


def shown(name: str) -> str:
    """What the output calls a capture: its name, of a URL without user information and the values in its query."""
    if not is_url(name):
        return name
    return path_of("::".join(_USER_INFO.sub(rf"\1{REDACTED}@", part) for part in _CHAINED.split(name)))


def open_url(url: str) -> io.BufferedReader:
    """Open what a URL names.

    Raises:
        CaptureError: It cannot be opened.
        MissingExtraError: fsspec is not installed.
    """
    with _told(url, "cannot be opened"):
        system, path = _found(url)
        return io.BufferedReader(_Storage(system.open(path, "rb")), AT_ONCE)


def is_url_of_folder(url: str) -> bool:
    """Whether a URL names a folder, or the beginning of names as object stores have them.

    Raises:
        CaptureError, MissingExtraError: As of `open_url`.
    """
    with _told(url, "cannot be looked up"):
        system, path = _found(url)
        if url.startswith(("http://", "https://")):  # where looking for what is in it means to load all of it
            return path.endswith("/")
        return bool(system.isdir(path))


def urls_in(url: str) -> list[str]:
    """The URLs of all files in a folder, at any depth, in order of their names.

    Raises:
        CaptureError, MissingExtraError: As of `open_url`.
    """
    with _told(url, "cannot be listed"):
        system, path = _found(url)
        found = sorted(system.find(path))
    # The names that come back have lost the host, and who asks.
    head, chained, rest = url.partition("::")
    root = path.rstrip("/")
    return [f"{head.rstrip('/')}/{name.removeprefix(root).lstrip('/')}{chained}{rest}" for name in found]


@contextmanager
def _told(url: str, what: str) -> Iterator[None]:
    """Tell what goes wrong in one line that has none of a storage's own words: these repeat the URL."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - each storage has errors of its own
        raise CaptureError(f"{shown(url)} {what}: {_reason(error)}") from None


def _found(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(f"{shown(url)} is a URL, and opened by fsspec") from error
    system, path = url_to_fs(url)
    return system, str(path)


def _reason(error: Exception) -> str:
    """Why something failed, in words that cannot hold a URL."""
    if isinstance(error, ImportError) or str(error).startswith("Protocol not known"):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return type(error).__name__


class _Storage(io.RawIOBase):
    """A file of fsspec's; what goes wrong is an `OSError` without the URL in it, which readers of captures expect."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, room: Buffer, /) -> int:
        view = memoryview(room)
        try:
            data = self._file.read(len(view))
        except Exception as error:  # noqa: BLE001 - each storage has errors of its own
            raise OSError(_reason(error)) from None
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            with suppress(Exception):  # nothing was written
                self._file.close()
        super().close()
