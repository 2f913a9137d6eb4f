"""Stand-ins of every length."""

from __future__ import annotations

import pytest
from cryptography import x509

from h3probe.redact import der


@pytest.mark.parametrize("length", [0, 1, 50, 110, 127, 128, 200, 255, 256, 1000, 4000])
def test_lengths(length: int) -> None:
    """Each is exactly as long as it is to be."""
    for make in (der.certificate, der.name, der.ocsp_response):
        assert len(make(length)) == length


@pytest.mark.parametrize("length", [128, 700, 1300, 20000])
def test_nested_lengths_fit(length: int) -> None:
    """The outermost element ends where the bytes do, and holds what it should."""
    for make in (der.certificate, der.name, der.ocsp_response):
        made = make(length)
        assert made[:2] == b"\x30\x82"
        assert int.from_bytes(made[2:4]) == length - 4


def test_a_name_is_a_name() -> None:
    """A reader of certificates finds a common name in it."""
    assert b"\x06\x03\x55\x04\x03" in der.name(40)
    assert x509.NameOID.COMMON_NAME.dotted_string == "2.5.4.3"
