from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.wire.quic.frames import ConnectionClose, Crypto
from h3probe.wire.quic.stream_frames import NewConnectionId, StreamData, StreamReset, parse_stream_frames

PASSED_OVER = {
    "padding": bytes(40),
    "ping": b"\x01",
    "ack": b"\x02\x05\x00\x01\x00\x01\x00",
    "ack-ecn": b"\x03\x05\x00\x00\x00\x01\x02\x03",
    "stop-sending": b"\x05\x04\x00",
    "new-token": b"\x07\x03abc",
    "max-data": b"\x10\x01",
    "max-stream-data": b"\x11\x00\x01",
    "max-streams": b"\x12\x01\x13\x01",
    "blocked": b"\x14\x01\x15\x00\x01\x16\x01\x17\x01",
    "retire": b"\x19\x01",
    "path": b"\x1a12345678\x1b12345678",
    "done": b"\x1e",
    "datagram": b"\x31\x02hi",
    "ack-frequency": b"\x40\xaf\x01\x02\x03\x04\x1f",
}


@pytest.mark.parametrize("frame", PASSED_OVER.values(), ids=PASSED_OVER)
def test_frames_that_are_passed_over(frame: bytes) -> None:
    """Frames that say nothing about streams do not hide the one behind them."""
    assert parse_stream_frames(frame + b"\x0b\x04\x02hi") == ([StreamData(4, 0, b"hi", fin=True)], True)


def test_frames_that_matter() -> None:
    """Pieces of streams in each form, resets in both, connection IDs, CRYPTO and both kinds of close."""
    payload = (
        b"\x0e\x04\x05\x02hi" + b"\x04\x04\x41\x0b\x07" + b"\x24\x08\x01\x09\x05" + b"\x06\x00\x02xx"
        b"\x18\x01\x00\x05abcde" + bytes(16) + b"\x1c\x0a\x08\x01x" + b"\x1d\x41\x00\x00" + b"\x08\x0cto the end"
    )
    assert parse_stream_frames(payload) == (
        [
            StreamData(4, 5, b"hi", fin=False),
            StreamReset(4, 0x10B, 7),
            StreamReset(8, 1, 9),
            Crypto(0, b"xx"),
            NewConnectionId(5),
            ConnectionClose(0x0A, 8, "x", application=False),
            ConnectionClose(0x100, None, "", application=True),
            StreamData(12, 0, b"to the end", fin=False),
        ],
        True,
    )


@pytest.mark.parametrize("rest", [b"\x7f\xff", b"\x0a\x04\x05hi", b"\x30"[:0] + b"\x02\x01"])
def test_what_cannot_be_read_is_said(rest: bytes) -> None:
    """An unknown or a cut frame ends the reading; what came before it counts."""
    assert parse_stream_frames(b"\x0a\x04\x02hi" + rest) == ([StreamData(4, 0, b"hi", fin=False)], False)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Bytes of any kind raise nothing."""
    parse_stream_frames(data)
