"""Compressed streams, decompressed as they come: gzip, zstd, xz and bzip2, told by their first bytes."""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from typing import TYPE_CHECKING, Protocol

from h3probe.errors import DecodeError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.capture.window import Read

CHUNK = 32 * 1024
"""The most compressed bytes asked of the stream at once."""

MAX_XZ_MEMORY = 128 * 1024 * 1024
"""What an xz stream may make its decoder allocate, in bytes: twice what `xz -9` needs."""


class Decoder(Protocol):
    """What the standard library's incremental decompressors have in common."""

    @property
    def eof(self) -> bool:
        """Whether the end of this member (gzip), frame (zstd) or stream (xz, bzip2) has been reached."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes out before something goes in."""

    @property
    def unused_data(self) -> bytes:
        """What was put in and lies past the end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Put `data` in, take at most `max_length` bytes out."""


class _Gzip:
    """`zlib.decompressobj` with the interface of the other three."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        self.needs_input = len(out) < max_length and not self._inflate.unconsumed_tail
        return out


def _decoder(kind: str) -> tuple[Callable[[], Decoder], type[Exception]]:
    """How to make a decoder of a kind, and what it raises on damage."""
    if kind == "gzip":
        return _Gzip, zlib.error
    if kind == "bzip2":
        return bz2.BZ2Decompressor, OSError
    if kind == "xz":
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY), lzma.LZMAError
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - only zstd files need it
    else:
        from backports import zstd  # noqa: PLC0415 - the same
    # Its window is at most 128 MiB unless asked otherwise.
    return zstd.ZstdDecompressor, zstd.ZstdError


def compression(first: bytes) -> str | None:
    """Which compression a stream has that starts with these bytes (six decide), None for none."""
    if first.startswith(b"\x1f\x8b"):
        return "gzip"
    # A frame (RFC 8878 section 3.1.1), or a skippable one (3.1.2), which pzstd writes first.
    if first.startswith(b"\x28\xb5\x2f\xfd") or (first[1:4] == b"\x2a\x4d\x18" and first[0] >> 4 == 5):
        return "zstd"
    if first.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    if first.startswith(b"BZh"):
        return "bzip2"
    return None


class Decompressed:
    """Reads a compressed stream; several members one after the other are one stream, as for `gzip -d`.

    Args:
        kind: What `compression` says.
        read: Reads the compressed stream.
        first: What has been read of it already.
    """

    def __init__(self, kind: str, read: Read, first: bytes) -> None:
        self._kind = kind
        self._source = read
        self._waiting = first
        self._new, self._damage = _decoder(kind)
        self._decoder: Decoder = self._new()

    def read(self, size: int) -> bytes:
        """At least one byte, at most `size`, from no more compressed input than that takes; none at the end.

        Raises:
            TruncatedError: The compressed data ends in the middle.
            DecodeError: The compressed data is damaged, or would need too much memory.
        """
        while True:
            if self._decoder.eof and not self._next_member():
                return b""
            data = b""
            if self._decoder.needs_input:
                data, self._waiting = self._waiting or self._more(), b""
                if not data:
                    raise TruncatedError(f"its {self._kind} data ends in the middle")
            try:
                out = self._decoder.decompress(data, size)
            except self._damage as error:
                raise DecodeError(f"its {self._kind} data is damaged ({error})") from error
            if out:
                return out

    def _more(self) -> bytes:
        more = self._source(CHUNK)
        if more is None:
            raise BlockingIOError("it is set not to wait for data")
        return more

    def _next_member(self) -> bool:
        """Begin what follows the end of a member; False if nothing but padding does."""
        # gzip and xz may be padded with zeros, and no member of any kind starts with one.
        rest = self._decoder.unused_data.lstrip(b"\0")
        while not rest:
            more = self._more()
            if not more:
                return False
            rest = more.lstrip(b"\0")
        self._waiting = rest
        self._decoder = self._new()
        return True
