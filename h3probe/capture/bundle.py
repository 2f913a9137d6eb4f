"""The bundle: a capture, what was observed beside it and what was concluded, in one ZIP file.

A bundle comes from anyone: nothing in it is believed before it is checked, nothing is unpacked to a disk, and no more
of it is held in memory than what is being read.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from typing import TYPE_CHECKING, cast

from h3probe.errors import CaptureError

if TYPE_CHECKING:
    from typing import BinaryIO

CAPTURE = "capture.pcapng"
OBSERVED = "observed.ndjson"
EVENTS = "events.ndjson"
ENVIRONMENT = "environment.json"
REPORT = "report.html"
README = "README.txt"
MEMBERS = (README, REPORT, CAPTURE, OBSERVED, EVENTS, ENVIRONMENT)

MAGIC = b"PK\x03\x04"
MOST_MEMBERS = 64
LARGEST = 64 << 30
"""The most bytes of a member; a capture that large is no bug report."""
STEEPEST = 300
"""How many times its own size a member may unpack to; packets of nothing but the same bytes come near it."""
SMALL = 64 << 20
"""A member that unpacks to no more than this may be as steep as deflate allows (1032)."""
MOST_AT_ONCE = 1 << 20
"""The most bytes of the archive that are held at once: more than any list of `MOST_MEMBERS` takes."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1 | 0x40 | 0x2000  # encryption, strong encryption, masked headers (APPNOTE 4.4.4)


class Bundle:
    """The members of a bundle, each read as a stream; a context manager's `close` closes the file.

    Args:
        stream: The file, open for reading; it must be one that can be searched.
        name: What messages call it.

    Raises:
        CaptureError: It is no bundle, or one that no h3probe has made.
    """

    def __init__(self, stream: BinaryIO, *, name: str) -> None:
        self._name = name
        self._stream = stream
        try:
            self._archive = zipfile.ZipFile(_Careful(stream))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise self._refused(f"it is no whole ZIP archive ({error})") from error
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._archive.infolist():
            self._check(info)
            self._members[info.filename] = info
        if CAPTURE not in self._members:
            raise self._refused(f"there is no {CAPTURE} in it")

    def open(self, member: str) -> BinaryIO | None:
        """Open a member; None where there is none of that name.

        Raises:
            CaptureError: Its own header says something else than the archive's list.
        """
        info = self._members.get(member)
        if info is None:
            return None
        try:
            stream = cast("BinaryIO", self._archive.open(info))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
            raise self._refused(f"{member} cannot be read ({error})") from error
        return cast("BinaryIO", _Member(stream))  # as much of a file as readers need

    def size(self, member: str) -> int:
        """Bytes of a member, 0 where there is none of that name."""
        info = self._members.get(member)
        return 0 if info is None else info.file_size

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _check(self, info: zipfile.ZipInfo) -> None:
        name = info.filename
        if len(self._members) >= MOST_MEMBERS:
            raise self._refused(f"it has more than {MOST_MEMBERS} members")
        # `orig_filename` has what `filename` was cut at: a NUL.
        if not name or name != info.orig_filename or any(c in name for c in "/\\:") or name in {".", ".."}:
            raise self._refused("it has members with paths")
        if name in self._members:
            raise self._refused("it has two members of one name")
        if info.flag_bits & _ENCRYPTED:
            raise self._refused("it is encrypted")
        mode = info.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise self._refused("it has members that are no files")
        if info.compress_type not in _METHODS:
            raise self._refused("it is compressed by other means than deflate")
        steep = info.file_size > SMALL and info.file_size > STEEPEST * max(info.compress_size, 1)
        if info.file_size > LARGEST or steep:
            raise self._refused("a member would unpack to far more than a capture does")

    def _refused(self, why: str) -> CaptureError:
        return CaptureError(f"{self._name} is not read as a bundle: {why}")


class _Careful:
    """As much of a file as `zipfile` needs, without the memory that a hostile one would have it take."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int = -1) -> bytes:
        if size > MOST_AT_ONCE:
            raise ValueError("its list of members is too long")
        data = self._stream.read(MOST_AT_ONCE + 1 if size < 0 else size)
        if len(data) > MOST_AT_ONCE:
            raise ValueError("its list of members is too long")
        return data

    def seekable(self) -> bool:
        return True


class _Member:
    """A member's bytes; damage comes as the error that readers of captures expect."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.close = stream.close

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stream.read(size)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
            raise OSError(str(error)) from error

    def readline(self, limit: int = -1) -> bytes:
        try:
            return self._stream.readline(limit)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
            raise OSError(str(error)) from error
