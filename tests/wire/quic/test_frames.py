from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire.quic.frames import Ack, ConnectionClose, Crypto, Other, Padding, Ping, parse_frames
from tests.wire import quic_builder as build
from tests.wire.quic import vectors


def test_frames_of_rfc_9001() -> None:
    """The sample Initials hold a padded ClientHello, and an ACK with a ServerHello."""
    crypto, padding = parse_frames(vectors.CLIENT_PAYLOAD)
    assert isinstance(crypto, Crypto)
    assert (crypto.offset, len(crypto.data), crypto.data[0]) == (0, 241, 1)
    assert padding == Padding(1162 - 245)
    ack, crypto = parse_frames(vectors.SERVER_PAYLOAD)
    assert ack == Ack(0, 0, ((0, 0),))
    assert isinstance(crypto, Crypto)
    assert (len(crypto.data), crypto.data[0]) == (90, 2)


def test_frames_in_any_order() -> None:
    """Padding between frames is one run, and pieces of the handshake keep the order they were sent in."""
    payload = b"\x00\x00\x01" + build.crypto(70_000, b"late") + b"\x00" + build.crypto(0, b"") + b"\x40\x00"
    assert parse_frames(payload) == [
        Padding(2),
        Ping(),
        Crypto(70_000, b"late"),
        Padding(1),
        Crypto(0, b""),
        Padding(1),
    ]


def test_ack_ranges_count_down() -> None:
    """Gaps and lengths become runs of packet numbers, and the ECN counts are passed over."""
    ranges = b"\x14\x05\x02\x03" + b"\x01\x02" + b"\x00\x00"
    expected = Ack(20, 5, ((17, 20), (12, 14), (10, 10)))
    assert parse_frames(b"\x02" + ranges) == [expected]
    assert parse_frames(b"\x03" + ranges + b"\x01\x02\x40\x03" + b"\x01") == [expected, Ping()]


@pytest.mark.parametrize("ranges", ["05000006", "0500010301 00", "05000105 0000", "05 00 01 00 06"])
def test_an_ack_below_zero_is_an_error(ranges: str) -> None:
    """Runs that reach below packet number 0 raise DecodeError."""
    with pytest.raises(DecodeError):
        parse_frames(b"\x02" + bytes.fromhex(ranges) + bytes(4))


def test_close_by_transport_and_by_application() -> None:
    """The frame's type tells whose code it is, and only the transport's names a frame."""
    assert parse_frames(build.close(0x178, b"no ALPN", 6)) == [ConnectionClose(0x178, 6, "no ALPN", application=False)]
    assert parse_frames(build.close(0x100, b"", None)) == [ConnectionClose(0x100, None, "", application=True)]


def test_a_reason_keeps_what_is_text() -> None:
    """A reason is UTF-8 with replacement, and is not cleaned of control characters here."""
    (close,) = parse_frames(build.close(0, b"gr\xc3\xbc\xff\x1b[31m"))
    assert isinstance(close, ConnectionClose)
    assert close.reason == "gr\u00fc\ufffd\x1b[31m"


@pytest.mark.parametrize("frame_type", [0x08, 0x1E, 0x30, 0x2AB2])
def test_a_frame_that_does_not_belong_ends_the_list(frame_type: int) -> None:
    """A frame not allowed in Initial packets is named, and nothing after it is read."""
    assert parse_frames(b"\x01" + build.varint(frame_type) + b"\x06junk") == [Ping(), Other(frame_type)]


@pytest.mark.parametrize(
    "frame", [build.crypto(300, b"data"), build.close(0x178, b"why"), bytes.fromhex("03140501020301020304")]
)
def test_a_frame_cut_anywhere_is_truncated(frame: bytes) -> None:
    """A frame that ends before its own lengths say raises TruncatedError wherever it was cut."""
    assert len(parse_frames(frame)) == 1
    for length in range(1, len(frame)):
        with pytest.raises(TruncatedError):
            parse_frames(frame[:length])


def test_an_ack_that_claims_countless_ranges_ends_with_its_bytes() -> None:
    """A range count of 2^62 costs no more than the bytes that are there."""
    with pytest.raises(TruncatedError):
        parse_frames(b"\x02" + build.varint((1 << 62) - 1) + b"\x00" + build.varint((1 << 62) - 1) + bytes(64))


@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from([0, 1, 2, 3, 6, 0x1C, 0x1D, 64])).map(bytes)))
def test_any_bytes_give_frames_or_decode_error(payload: bytes) -> None:
    """Whatever the bytes, frames are returned or DecodeError is raised, and only the last one may be foreign."""
    try:
        found = parse_frames(payload)
    except DecodeError:
        return
    assert not any(isinstance(frame, Other) for frame in found[:-1])
    assert bool(found) == bool(payload)
