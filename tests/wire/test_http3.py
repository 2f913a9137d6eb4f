from __future__ import annotations

import contextlib

import pylsqpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.wire.http3 import STREAMS_LIMIT, Http3Fact, Http3Reader, TableCapacity
from h3probe.wire.http_fields import Request, Response
from h3probe.wire.qpack import check_section
from tests.wire.quic_builder import varint

OK = [(b":status", b"200"), (b"alt-svc", b'h3=":443"'), (b"x-long", b"a value that goes into the table")]
GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"example.com"), (b":path", b"/a?b=c")]
HEAD = Response(0, 200, ('h3=":443"',))
CONTROL, ENCODER = 3, 7


def frame(kind: int, payload: bytes) -> bytes:
    """An HTTP/3 frame."""
    return varint(kind) + varint(len(payload)) + payload


def encoded() -> tuple[bytes, bytes]:
    """A response's field section that refers to the dynamic table, and the encoder stream that makes it."""
    encoder = pylsqpack.Encoder()
    stream = encoder.apply_settings(4096, 16)
    stream += encoder.encode(0, OK)[0]  # Only what comes again goes into the table.
    control, section = encoder.encode(4, OK)
    assert check_section(section)
    return stream + control, section


def feed_all(reader: Http3Reader, stream: int, data: bytes, step: int = 0) -> list[Http3Fact]:
    """What a reader finds in bytes that come in pieces of `step`."""
    step = step or len(data) or 1
    return [fact for at in range(0, len(data), step) for fact in reader.feed(stream, data[at : at + step])]


@pytest.mark.parametrize("step", [0, 1, 5])
def test_a_request(step: int) -> None:
    """A head is read whatever the pieces; unknown frames before it and the body after it are passed over."""
    _, section = pylsqpack.Encoder().encode(4, GET)
    reader = Http3Reader(from_client=True)
    data = frame(0x21, b"grease") + frame(1, section) + frame(0, bytes(3000)) + frame(1, section)
    expected = Request(4, "GET", "https", "example.com", "/a?b=…")
    assert feed_all(reader, 4, data, step) == [expected, expected]
    assert reader.held == 0


@pytest.mark.parametrize("step", [0, 1])
def test_settings(step: int) -> None:
    """The control stream says what the other direction may use."""
    reader = Http3Reader(from_client=True)
    data = b"\x00" + frame(4, varint(6) + varint(9000) + varint(1) + varint(4096)) + frame(0xD, b"\x05")
    assert feed_all(reader, 2, data, step) == [TableCapacity(4096)]


def test_sections_wait_for_the_settings_and_for_the_encoder() -> None:
    """Whatever comes first, a section is decoded once everything that it needs is there."""
    stream, section = encoded()
    reader = Http3Reader(from_client=False)
    assert reader.feed(0, frame(1, section)) == []
    assert reader.feed(ENCODER, b"\x02" + stream[:5]) == []
    assert reader.allow_table(4096) == []
    assert reader.feed(ENCODER, stream[5:]) == [HEAD]
    early = Http3Reader(from_client=False)
    assert early.feed(ENCODER, b"\x02" + stream) == []
    assert early.feed(0, frame(1, section)) == []
    assert early.allow_table(4096) == [HEAD]


def test_a_lost_encoder_stream_costs_only_what_refers_to_it() -> None:
    """Sections that do without the dynamic table are decoded all the same."""
    _, section = encoded()
    _, plain = pylsqpack.Encoder().encode(8, OK)
    reader = Http3Reader(from_client=False)
    reader.allow_table(4096)
    with pytest.raises(DecodeError):
        reader.feed(ENCODER, b"\x02" + b"\x3f" + b"\xff" * 9 + b"\x01")
    with pytest.raises(DecodeError):
        reader.feed(0, frame(1, section))
    assert reader.feed(8, frame(1, plain)) == [Response(8, 200, HEAD.alt_svc)]


def test_a_table_too_large_is_not_kept() -> None:
    """A peer that allows a huge table makes nobody keep one."""
    _, section = encoded()
    reader = Http3Reader(from_client=False)
    assert reader.allow_table(1 << 40) == []
    with pytest.raises(DecodeError):
        reader.feed(0, frame(1, section))


def test_streams_of_the_other_direction_are_not_read() -> None:
    """A direction's own unidirectional streams and the client's bidirectional ones are all that there is to read."""
    assert [Http3Reader(from_client=True).reads(stream) for stream in range(4)] == [True, False, True, False]
    assert [Http3Reader(from_client=False).reads(stream) for stream in range(4)] == [True, False, False, True]


def test_oversized_frames_and_many_streams() -> None:
    """Memory is bounded: by the size of a frame, and by the number of streams; the control stream stays."""
    reader = Http3Reader(from_client=False)
    reader.feed(CONTROL, b"\x00")
    with pytest.raises(DecodeError):
        reader.feed(0, varint(1) + varint(1 << 20))
    for stream in range(0, 8 * STREAMS_LIMIT, 4):
        reader.feed(stream, varint(1) + varint(1000) + bytes(100))
    assert reader.held <= STREAMS_LIMIT * 103
    assert reader.feed(CONTROL, frame(4, b"")) == [TableCapacity(0)]


STREAMS = st.sampled_from([0, 3, 7, 4, 11])


@given(st.lists(st.tuples(STREAMS, st.binary(max_size=60)), max_size=12), st.integers(0, 5000))
def test_any_bytes(pieces: list[tuple[int, bytes]], capacity: int) -> None:
    """Bytes of any kind on any stream give facts or `DecodeError`."""
    reader = Http3Reader(from_client=False)
    for number, (stream, data) in enumerate(pieces):
        if number == len(pieces) // 2:
            reader.allow_table(capacity)
        try:
            reader.feed(stream, data)
        except DecodeError:
            continue
    assert reader.held >= 0


@given(st.lists(st.tuples(st.sampled_from([0, 1, 4]), st.binary(max_size=60)), max_size=8))
def test_any_frames(frames: list[tuple[int, bytes]]) -> None:
    """Frames of any kind give facts or `DecodeError`."""
    reader = Http3Reader(from_client=False)
    reader.allow_table(4096)
    with contextlib.suppress(DecodeError):
        reader.feed(0, b"".join(frame(kind, payload) for kind, payload in frames))
