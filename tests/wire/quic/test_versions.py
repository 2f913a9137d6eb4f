from __future__ import annotations

import pytest

from h3probe.wire.quic.versions import V1, V2, is_gquic, is_reserved, known, version_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0x00000001, "v1"),
        (0x6B3343CF, "v2"),
        (0xFF00001D, "draft-29"),
        (0xFF000009, "draft-09"),
        (0x51303433, "Q043"),
        (0x51303436, "Q046"),
        (0x54303531, "T051"),
        (0xFACEB002, "0xfaceb002"),
        (0x1A2A3A4A, "0x1a2a3a4a"),
        (0x00000000, "0x00000000"),
        (0xFF000000, "0xff000000"),
        (0x51FF3433, "0x51ff3433"),
    ],
)
def test_versions_have_names(number: int, name: str) -> None:
    """Final versions, drafts and Google's are named, everything else is its number in hex."""
    assert version_name(number) == name


def test_known_versions_are_those_whose_initials_open() -> None:
    """Versions 1 and 2 and drafts 23 to 34 are known under their own names, their neighbours are not."""
    for number in (V1, V2, *range(0xFF000017, 0xFF000023)):
        version = known(number)
        assert version is not None
        assert (version.number, version.name, len(version.salt)) == (number, version_name(number), 20)
    assert known(0xFF000016) is None
    assert known(0xFF000023) is None
    assert known(0x51303530) is None


def test_type_bits_are_turned_in_version_2() -> None:
    """Version 2 gives each type of packet the number after version 1's (RFC 9369, 3.2)."""
    first, second = known(V1), known(V2)
    assert first is not None
    assert second is not None
    assert [second.long_types[(n + 1) % 4] for n in range(4)] == list(first.long_types)


def test_reserved_and_google_versions() -> None:
    """Reserved versions follow 0x?a?a?a?a, Google's are a letter and three digits, and the final ones are neither."""
    assert is_reserved(0x0A1A2A3A)
    assert is_gquic(0x51303530)
    for number in (V1, V2, 0xFF00001D, 0x0A0A0A0B, 0x51303A30):
        assert not is_reserved(number)
        assert not is_gquic(number)
