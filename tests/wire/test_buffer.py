from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import TruncatedError
from h3probe.wire.buffer import Reader
from tests.wire.quic_builder import varint


def test_reads_big_endian_in_order() -> None:
    """Each read returns the next bytes and moves past exactly those."""
    reader = Reader(bytes(range(1, 14)))
    assert (reader.u8(), reader.u16(), reader.u24(), reader.u32()) == (0x01, 0x0203, 0x040506, 0x0708090A)
    assert (reader.position, reader.remaining) == (10, 3)
    assert reader.take(1) == b"\x0b"
    assert reader.rest() == b"\x0c\x0d"
    assert reader.rest() == b""


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("c2197c5eff14e88c", 151_288_809_941_952_652),
        ("9d7f3e7d", 494_878_333),
        ("7bbd", 15_293),
        ("25", 37),
        ("4025", 37),
    ],
)
def test_varint_examples_of_rfc_9000(encoded: str, value: int) -> None:
    """The sample encodings of RFC 9000, A.1 are read as the RFC says."""
    reader = Reader(bytes.fromhex(encoded))
    assert reader.varint() == value
    assert reader.remaining == 0


@given(st.integers(0, (1 << 62) - 1))
def test_varint_round_trip(value: int) -> None:
    """Every integer below 2^62 comes back from its shortest encoding."""
    assert Reader(varint(value)).varint() == value


@pytest.mark.parametrize(
    ("read", "data"),
    [
        ("u8", b""),
        ("u16", b"\x00"),
        ("u24", b"\x00\x00"),
        ("u32", b"\x00\x00\x00"),
        ("varint", b""),
        ("varint", b"\x40"),
        ("varint", b"\xc0" + bytes(6)),
    ],
)
def test_a_read_past_the_end_moves_nothing(read: str, data: bytes) -> None:
    """A read that does not fit raises TruncatedError and leaves the position where it was."""
    reader = Reader(data)
    with pytest.raises(TruncatedError):
        getattr(reader, read)()
    assert reader.position == 0


def test_a_vector_that_does_not_fit_moves_nothing() -> None:
    """A vector cut in its length or in its contents raises TruncatedError before anything is consumed."""
    for data in (b"\x00", b"\x00\x03ab"):
        reader = Reader(data)
        with pytest.raises(TruncatedError):
            reader.vector(2)
        assert reader.position == 0


def test_bounds_limit_what_is_read() -> None:
    """A reader over a part of its data sees nothing before or after that part, whatever the buffer's type."""
    reader = Reader(memoryview(b"abcdef"), 2, 4)
    assert reader.rest() == b"cd"
    with pytest.raises(TruncatedError):
        reader.u8()
