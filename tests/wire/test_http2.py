from __future__ import annotations

import contextlib

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.wire.http2 import LARGEST_BLOCK, PREFACE, Http2Fact, Http2Reader, TableSize, error_name
from h3probe.wire.http_fields import Request, Reset, Response

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"example.com"), (b":path", b"/a?b=c")]
OK = [(b":status", b"200"), (b"alt-svc", b"clear"), (b"set-cookie", b"secret")]
END_HEADERS = 4


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """An HTTP/2 frame."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def settings(size: int) -> bytes:
    """SETTINGS with a table size."""
    return frame(4, 0, b"\x00\x03\x00\x00\x00\x64" + b"\x00\x01" + size.to_bytes(4))


def read_all(data: bytes, *, from_client: bool, step: int = 0) -> list[Http2Fact]:
    """What a reader finds in bytes that come in pieces of `step`."""
    reader = Http2Reader(from_client=from_client)
    step = step or len(data) or 1
    return [fact for at in range(0, len(data), step) for fact in reader.feed(data[at : at + step])]


@pytest.mark.parametrize("step", [0, 1, 7])
def test_requests(step: int) -> None:
    """Heads are read whatever the pieces; bodies, trailers, unknown frames and acknowledgements are passed over."""
    encoder = hpack.Encoder()
    data = PREFACE + settings(8192) + frame(4, 0, flags=1) + frame(0xF0, 0, b"unknown")
    data += frame(1, 1, encoder.encode(GET), END_HEADERS) + frame(0, 1, bytes(5000))
    data += frame(1, 1, encoder.encode([(b"trailer", b"x")]), END_HEADERS | 1)
    data += frame(3, 1, (8).to_bytes(4)) + frame(1, 3, encoder.encode(GET), END_HEADERS | 1)
    assert read_all(data, from_client=True, step=step) == [
        TableSize(8192),
        Request(1, "GET", "https", "example.com", "/a?b=…"),
        Reset(1, 8),
        Request(3, "GET", "https", "example.com", "/a?b=…"),
    ]


def test_padding_priority_and_continuation() -> None:
    """A field block may be padded, have a priority before it, and come in several frames (RFC 9113, 6.2 and 6.10)."""
    block = hpack.Encoder().encode(OK)
    first = b"\x03" + bytes(5) + block[:4] + bytes(3)
    data = frame(1, 1, first, 0x28) + frame(9, 1, block[4:6]) + frame(9, 1, block[6:], END_HEADERS)
    assert read_all(data, from_client=False) == [Response(1, 200, ("clear",))]


def test_pushed_requests_keep_the_table_right() -> None:
    """A PUSH_PROMISE says nothing, but what it puts into the table is there for the response after it."""
    encoder = hpack.Encoder()
    promise = frame(5, 1, bytes(4) + encoder.encode([*GET, (b"alt-svc", b"clear")]), END_HEADERS)
    block = encoder.encode(OK)
    assert read_all(promise + frame(1, 1, block, END_HEADERS), from_client=False) == [Response(1, 200, ("clear",))]


def test_larger_tables_only_where_they_are_allowed() -> None:
    """A table larger than 4,096 bytes is followed once the other side's SETTINGS allow it."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 16_384
    data = frame(1, 1, encoder.encode(OK), END_HEADERS)
    with pytest.raises(DecodeError):
        read_all(data, from_client=False)
    reader = Http2Reader(from_client=False)
    reader.allow_table(16_384)
    assert reader.feed(data) == [Response(1, 200, ("clear",))]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n" + bytes(20),
        PREFACE + frame(9, 1, b"", END_HEADERS),
        PREFACE + frame(1, 1, b"\x82") + frame(0, 1, b"data"),
        PREFACE + frame(1, 1, b"\x82") + frame(9, 3, b"\x84", END_HEADERS),
        PREFACE + frame(1, 0, b"\x82", END_HEADERS),
        PREFACE + frame(1, 1, b"\xff\x00", END_HEADERS),
        PREFACE + frame(1, 1, b"\xff", 8),
        PREFACE + frame(3, 1, b"\x00"),
        PREFACE + frame(1, 1, bytes(LARGEST_BLOCK)) + frame(9, 1, bytes(1)),
        PREFACE + frame(4, 0, bytes(7)),
    ],
    ids=[
        "no-preface",
        "no-start",
        "interrupted",
        "other-stream",
        "no-stream",
        "index",
        "padding",
        "reset",
        "size",
        "settings",
    ],
)
def test_what_breaks_the_rules_ends_the_reading(data: bytes) -> None:
    """Once the state is lost the reader says so, again and again, and finds nothing more."""
    reader = Http2Reader(from_client=True)
    with pytest.raises(DecodeError):
        reader.feed(data)
    assert reader.held == 0
    with pytest.raises(DecodeError):
        reader.feed(frame(1, 1, hpack.Encoder().encode(GET), END_HEADERS))


def test_what_was_found_before_damage_is_told() -> None:
    """Heads before the damage come out; the next call says that there are no more."""
    reader = Http2Reader(from_client=False)
    data = frame(1, 1, hpack.Encoder().encode(OK), END_HEADERS) + frame(9, 5)
    assert reader.feed(data) == [Response(1, 200, ("clear",))]
    with pytest.raises(DecodeError):
        reader.feed(b"")


def test_a_bomb_is_not_unpacked() -> None:
    """A small block that refers to a large field over and over is refused (CVE-2016-6581)."""
    bomb = b"\x40\x01a\x7f\xe1\x1e" + bytes(4000) + b"\xbe" * 60_000
    with pytest.raises(DecodeError):
        read_all(frame(1, 1, bomb, END_HEADERS), from_client=False)


def test_error_names() -> None:
    """Codes have names, unknown ones their number."""
    assert (error_name(8), error_name(0x99)) == ("CANCEL", "0x99")


@given(st.lists(st.binary(max_size=60), max_size=10), st.booleans())
def test_any_bytes(pieces: list[bytes], from_client: bool) -> None:  # noqa: FBT001 - hypothesis's
    """Bytes of any kind give facts or `DecodeError`."""
    reader = Http2Reader(from_client=from_client)
    try:
        reader.feed(PREFACE if from_client else b"")
        for piece in pieces:
            reader.feed(piece)
    except DecodeError:
        assert reader.lost is not None


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 3, 4, 5, 9]), st.integers(0, 3), st.binary(max_size=40), st.integers(0, 255))
    )
)
def test_any_frames(frames: list[tuple[int, int, bytes, int]]) -> None:
    """Frames of any kind give facts or `DecodeError`."""
    with contextlib.suppress(DecodeError):
        read_all(
            b"".join(frame(kind, stream, payload, flags) for kind, stream, payload, flags in frames), from_client=False
        )
