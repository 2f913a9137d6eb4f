from __future__ import annotations

import pylsqpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.wire.qpack import BLOCKED_LIMIT, LARGEST_SECTION, LARGEST_TABLE, QpackDecoder, check_section

FIELDS = [(b":status", b"200"), (b"x-name", b"a value that goes into the table"), (b"cookie", b"x" * 300)]


def sections() -> tuple[bytes, bytes, bytes]:
    """The encoder stream, and two sections that refer to the table it makes."""
    encoder = pylsqpack.Encoder()
    stream = encoder.apply_settings(4096, 16)
    stream += encoder.encode(0, FIELDS)[0]  # Only what comes again goes into the table.
    first, one = encoder.encode(4, FIELDS)
    second, two = encoder.encode(8, FIELDS)
    return stream + first + second, one, two


def test_in_any_order() -> None:
    """A section waits for the encoder stream, and for the SETTINGS, and comes out with its number."""
    stream, one, two = sections()
    assert check_section(two)
    decoder = QpackDecoder()
    assert decoder.decode(1, one) is None
    assert decoder.allow(4096) == []
    assert decoder.decode(2, two) is None
    assert sorted(decoder.feed_encoder(stream)) == [(1, FIELDS), (2, FIELDS)]
    early = QpackDecoder()
    assert early.feed_encoder(stream) == []
    assert early.decode(7, two) is None
    assert early.allow(4096) == [(7, FIELDS)]


def test_without_the_table() -> None:
    """A section without references needs neither."""
    _, section = pylsqpack.Encoder().encode(0, FIELDS)
    assert check_section(section) == 0
    assert QpackDecoder().decode(1, section) == FIELDS


def test_how_many_wait_is_bounded() -> None:
    """Sections that wait for ever fill no memory."""
    _, _, two = sections()
    for allowed in (False, True):
        decoder = QpackDecoder()
        if allowed:
            decoder.allow(4096)
        for token in range(BLOCKED_LIMIT):
            assert decoder.decode(token, two) is None
        with pytest.raises(DecodeError):
            decoder.decode(BLOCKED_LIMIT, two)


def test_how_much_comes_early_is_bounded() -> None:
    """So does an encoder stream that no SETTINGS allow."""
    decoder = QpackDecoder()
    for _ in range(100):
        decoder.feed_encoder(bytes(1024))
    assert decoder.lost


@pytest.mark.parametrize(
    "section",
    [
        b"",
        b"\x00",
        b"\x00\x00\xff",
        b"\x00\x00\x37\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x00\x00\x21a\x05b",
        b"\x02\x00" + b"\x80" * 300,
        b"\x00\x00" + b"\xd1" * 2000,
        b"\x00\x00" + b"\xd1" * LARGEST_SECTION,
    ],
)
def test_sections_that_are_not_decoded(section: bytes) -> None:
    """No length is taken on trust, and no section may blow up: many references to one large field are refused."""
    decoder = QpackDecoder()
    decoder.allow(LARGEST_TABLE)
    with pytest.raises(DecodeError):
        decoder.decode(1, section)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=80)), max_size=10))
def test_any_bytes(pieces: list[tuple[bool, bytes]]) -> None:
    """Bytes of any kind give fields or `DecodeError`."""
    decoder = QpackDecoder()
    decoder.allow(4096)
    for token, (is_encoder, data) in enumerate(pieces):
        try:
            if is_encoder:
                decoder.feed_encoder(data)
            else:
                decoder.decode(token, data)
        except DecodeError:
            continue


@given(st.data())
def test_damaged_sections(data: st.DataObject) -> None:
    """Sound sections and instructions with a byte changed give fields or `DecodeError`."""
    parts = [bytearray(part) for part in sections()]
    which = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(0, len(parts[which]) - 1))
    parts[which][at] ^= data.draw(st.integers(1, 255))
    decoder = QpackDecoder()
    decoder.allow(4096)
    for token, part in enumerate(parts):
        try:
            decoder.feed_encoder(bytes(part)) if token == 0 else decoder.decode(token, bytes(part))
        except DecodeError:
            continue
