"""One direction: places in the stream, and messages over several records."""

from __future__ import annotations

import pytest

from h3probe.redact.side import Handshake, Side
from tests.wire.hello_builder import message


@pytest.mark.parametrize(("seq", "offset"), [(0xFFFF_FFF0, 0), (0x10, 0x20), (0xFFFF_FFEF, -1)])
def test_sequence_numbers_wrap(seq: int, offset: int) -> None:
    """A place is counted from the first byte, also past the largest number, and before it for a keep-alive."""
    side = Side(base=0xFFFF_FFF0)
    assert side.offset(seq) == offset
    side.seen = 0x20
    assert side.offset(seq) == offset


def test_a_message_over_two_records() -> None:
    """Records end with a message only where its last byte is in them."""
    whole = message(11, bytes(300))
    handshake = Handshake()
    assert not handshake.add(whole[:3])
    assert not handshake.add(whole[3:] + whole[:10])
    assert handshake.boundary == len(whole)
    assert handshake.add(whole[10:])
