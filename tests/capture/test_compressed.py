from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from typing import TYPE_CHECKING

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from h3probe.capture import read_capture
from h3probe.capture.compressed import Decompressed, compression
from h3probe.errors import CaptureError, DecodeError, TruncatedError
from h3probe.events import Frame, Unreadable
from tests.capture.build import Trickle, frames, pcap, record

if TYPE_CHECKING:
    from collections.abc import Callable

    type Compress = Callable[[bytes], bytes]

KINDS = [
    pytest.param("gzip", gzip.compress, id="gzip"),
    pytest.param("zstd", zstd.compress, id="zstd"),
    pytest.param("xz", lzma.compress, id="xz"),
    pytest.param("bzip2", bz2.compress, id="bzip2"),
]
CAPTURE = pcap(*[record(bytes([i % 256]) * 1400, i) for i in range(1000)])


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_told_by_its_first_bytes(kind: str, compress: Compress) -> None:
    """The content decides, not a name: a compressed capture reads like the plain one."""
    reader = read_capture(io.BytesIO(compress(CAPTURE)))
    assert reader.compression == kind
    assert frames(reader) == frames(read_capture(io.BytesIO(CAPTURE)))
    assert not reader.truncated


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_members_one_after_the_other_are_one_stream(kind: str, compress: Compress) -> None:
    """Concatenated members, a member with nothing in it, and zeros at the end are what `gzip -d` takes too."""
    data = compress(CAPTURE[:1000]) + compress(b"") + compress(CAPTURE[1000:]) + bytes(8)
    reader = read_capture(io.BytesIO(data))
    assert len(frames(reader)) == 1000
    assert reader.compression == kind


def test_zstd_may_start_with_a_skippable_frame() -> None:
    """The one that pzstd writes first is passed over (RFC 8878 section 3.1.2)."""
    data = b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd.compress(CAPTURE)
    assert len(frames(read_capture(io.BytesIO(data)))) == 1000


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_cut_data_gives_what_there_is(kind: str, compress: Compress) -> None:
    """The frames so far come out, then one event that says why there are no more."""
    noise = bytes(range(256)) * 4  # in many blocks, so that something comes out before the cut
    data = compress(pcap(*[record(noise, i) for i in range(4_000)]))
    reader = read_capture(io.BytesIO(data[: len(data) * 9 // 10]), name="x")
    *before, last = reader
    assert len(before) > 0
    assert all(isinstance(event, Frame) for event in before)
    assert isinstance(last, Unreadable)
    assert f"its {kind} data ends in the middle" in last.reason
    assert reader.truncated


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_damaged_data_is_told(kind: str, compress: Compress) -> None:
    """Garbage where the next member should be ends the reading, after all that came before it."""
    reader = read_capture(io.BytesIO(compress(CAPTURE) + b"garbage!" * 10))
    *before, last = reader
    assert len(before) == 1000
    assert isinstance(last, Unreadable)
    assert f"its {kind} data is damaged" in last.reason
    assert reader.truncated


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_compressed_data_that_is_damaged_from_the_start(kind: str, compress: Compress) -> None:
    """Where not even a header comes out, it is an error."""
    data = compress(CAPTURE)
    with pytest.raises(CaptureError, match=rf"^x cannot be read: its {kind} data ends in the middle$"):
        read_capture(io.BytesIO(data[:7]), name="x")
    with pytest.raises(CaptureError, match=rf"^x cannot be read: its {kind} data is damaged"):
        read_capture(io.BytesIO(data[:7] + b"\xff" * 200), name="x")


def test_what_is_compressed_must_be_a_capture() -> None:
    """The content is named, and compressed twice is once too often."""
    with pytest.raises(CaptureError, match=r"^x is text, not a capture"):
        read_capture(io.BytesIO(gzip.compress(b"hello, world")), name="x")
    with pytest.raises(CaptureError, match=r"^x is gzip data, not a capture"):
        read_capture(io.BytesIO(gzip.compress(gzip.compress(CAPTURE))), name="x")
    with pytest.raises(CaptureError, match=r"^x is empty$"):
        read_capture(io.BytesIO(gzip.compress(b"")), name="x")


def test_comes_out_as_it_comes_in() -> None:
    """`tcpdump -U -w - | gzip` with a flush after each packet gives each packet at once."""
    squeeze = zlib.compressobj(wbits=31)

    def flushed(data: bytes) -> bytes:
        return squeeze.compress(data) + squeeze.flush(zlib.Z_SYNC_FLUSH)

    pieces = [flushed(pcap()), flushed(record(b"1")), flushed(record(b"2"))]
    reader = read_capture(Trickle(*pieces))  # type: ignore[arg-type]
    assert [next(reader), next(reader)] == [Frame(n, 1_000_000_000, 1, b"%d" % n, 1) for n in (1, 2)]


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_gives_all_that_went_in_before_it_asks_for_more(kind: str, compress: Compress) -> None:
    """What a short read leaves inside a decoder comes out of the next one, without waiting for input."""
    source = Decompressed(kind, Trickle().read, compress(bytes(1000)))
    given = b""
    while len(given) < 1000:
        given += source.read(100)
    assert given == bytes(1000)


def test_gzip_holds_no_output_back_when_its_input_is_used_up() -> None:
    """The inflater keeps the rest of a long match to itself, which must come out before the next input."""
    squeeze = zlib.compressobj(wbits=31)
    flushed = squeeze.compress(bytes(1000)) + squeeze.flush(zlib.Z_SYNC_FLUSH)
    source = Decompressed("gzip", Trickle().read, flushed[:-5])  # without the flush's own empty block
    assert b"".join(source.read(100) for _ in range(10)) == bytes(1000)


def test_padding_and_members_may_come_apart() -> None:
    """The end of a member, its padding and the next member need not come in one piece."""
    source = Decompressed("gzip", Trickle(bytes(5), bytes(5), gzip.compress(b"b"), ends=True).read, gzip.compress(b"a"))
    assert [source.read(9), source.read(9), source.read(9)] == [b"a", b"b", b""]


def test_a_compressed_stream_that_does_not_wait_is_no_cut_one() -> None:
    """None from a non-blocking stream is an I/O error, told apart from an end."""
    with pytest.raises(BlockingIOError):
        Decompressed("gzip", lambda _size: None, gzip.compress(b"x")[:10]).read(9)


@pytest.mark.parametrize(("kind", "compress"), KINDS)
def test_a_bomb_is_taken_in_small_pieces(kind: str, compress: Compress) -> None:
    """Data that unpacks to a thousand times its size never stands in memory as a whole."""
    stream = io.BytesIO(compress(bytes(50_000_000)))
    first = stream.read(6)
    bomb = Decompressed(kind, stream.read, first)
    total = 0
    while piece := bomb.read(100_000):
        assert len(piece) <= 100_000
        total += len(piece)
    assert total == 50_000_000


def test_xz_may_not_ask_for_gigabytes() -> None:
    """An xz header that asks for a dictionary of 1 GiB is refused as damage, not obeyed."""
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30, "preset": 0}]
    # Compressing with that dictionary would take the memory too, so the header is patched: 0x24 stands for 1 GiB.
    data = bytearray(lzma.compress(CAPTURE, filters=[{**filters[0], "dict_size": 1 << 20}]))
    at = data.index(b"\x21\x01", 12) + 2  # LZMA2's filter id and the size of its properties
    data[at] = 36
    data[20:24] = zlib.crc32(data[12:20]).to_bytes(4, "little")
    with pytest.raises(CaptureError, match=r"damaged.*[Mm]emory"):
        read_capture(io.BytesIO(bytes(data)))


@pytest.mark.parametrize("first", [b"", b"\x1f", b"\xd4\xc3\xb2\xa1\x02\x00", b"\x60\x2a\x4d\x18\0\0"])
def test_what_is_not_compressed(first: bytes) -> None:
    """Nothing else is taken for compressed data."""
    assert compression(first) is None


def test_errors_are_typed() -> None:
    """Only `DecodeError` and its kind come out of damaged data."""
    with pytest.raises(TruncatedError):
        Decompressed("gzip", io.BytesIO().read, gzip.compress(b"x")[:10]).read(10)
    with pytest.raises(DecodeError):
        Decompressed("bzip2", io.BytesIO().read, b"BZh9garbage").read(10)
