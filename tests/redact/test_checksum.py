"""The Internet checksum."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact.checksum import checksum, pseudo_header


def test_the_rfcs_example() -> None:
    """RFC 1071, section 3: the words add up to ddf2."""
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xDDF2 ^ 0xFFFF


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_words_added_up(data: bytes) -> None:
    """It is the sum of all words with the carries added, inverted."""
    padded = data + bytes(len(data) % 2)
    total = sum(int.from_bytes(padded[at : at + 2]) for at in range(0, len(padded), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert checksum(data) == total ^ 0xFFFF


def test_pseudo_header() -> None:
    """Addresses, length, protocol, in four-byte fields, whose sum is that of IPv4's too."""
    assert pseudo_header(b"aaaa", b"bbbb", 17, 9) == b"aaaabbbb" + b"\0\0\0\x09" + b"\0\0\0\x11"
