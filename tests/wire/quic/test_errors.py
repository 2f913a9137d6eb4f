from __future__ import annotations

import pytest

from h3probe.wire.quic.errors import error_name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x0, "NO_ERROR"),
        (0xC, "APPLICATION_ERROR"),
        (0x11, "VERSION_NEGOTIATION_ERROR"),
        (0x12, None),
        (0x100, "CRYPTO_ERROR: close_notify"),
        (0x130, "CRYPTO_ERROR: unknown_ca"),
        (0x178, "CRYPTO_ERROR: no_application_protocol"),
        (0x1FF, "CRYPTO_ERROR: alert_255"),
        (0x200, None),
    ],
)
def test_transport_codes(code: int, name: str | None) -> None:
    """Codes of the transport are RFC 9000's, and 0x100 to 0x1ff are TLS alerts whatever the application."""
    assert error_name(code, application=False) == name
    assert error_name(code, application=False, protocol=None) == name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x33, "H3_DATAGRAM_ERROR"),
        (0x100, "H3_NO_ERROR"),
        (0x110, "H3_VERSION_FALLBACK"),
        (0x202, "QPACK_DECODER_STREAM_ERROR"),
        (0x0, None),
        (0x178, None),
    ],
)
def test_application_codes(code: int, name: str | None) -> None:
    """Codes of the application are HTTP/3's and QPACK's, for HTTP/3 and its drafts."""
    assert error_name(code, application=True) == name
    assert error_name(code, application=True, protocol="h3-29") == name


@pytest.mark.parametrize("protocol", ["doq", "h3x", "", None])
def test_codes_of_another_application_have_no_name(protocol: str | None) -> None:
    """What a code means to a protocol that is not HTTP/3 is not guessed."""
    assert error_name(0x100, application=True, protocol=protocol) is None
