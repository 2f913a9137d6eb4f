"""Names, literals and words."""

from __future__ import annotations

import pytest

from h3probe.redact import names


def test_suffixes() -> None:
    """A name and what it ends in, the longest first."""
    assert list(names.suffixes("a.b.c")) == ["a.b.c", "b.c", "c"]


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        (b"192.0.2.1", bytes((192, 0, 2, 1))),
        (b"[::1]", bytes(15) + b"\x01"),
        (b"::1", bytes(15) + b"\x01"),
        (b"example.org", None),
        (b"\xff", None),
    ],
)
def test_literal(text: bytes, packed: bytes | None) -> None:
    """Addresses are told from names, brackets or not."""
    assert names.literal(text) == packed


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        (b"response", True),
        (b"30", True),
        (b"25:No", True),
        (b"(timeout),", True),
        (b"0x12f", True),
        (b"num_packets:", True),
        (b"host.example", False),
        (b"/home/ann", False),
        (b"ann@example", False),
        (b"fe80::1", False),
    ],
)
def test_words(word: bytes, plain: bool) -> None:  # noqa: FBT001 - a column
    """What may hold a name or an address is told from ordinary words and numbers."""
    assert list(names.words(b" " + word + b" ")) == [(1, 1 + len(word), plain)]


def test_protocol_labels_stay() -> None:
    """Labels of protocols and ports (RFC 8552) are no names."""
    assert names.is_attrleaf("_8443")
    assert names.is_attrleaf("_https")
    assert not names.is_attrleaf("_ann")


def test_public_names_of_ech_are_reserved() -> None:
    """A name that stands in front of others is recognised afterwards too."""
    assert {"cloudflare-ech.com", "com"} <= names.RESERVED
