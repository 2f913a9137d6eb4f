"""Names of the error codes that close QUIC connections."""

from __future__ import annotations

from types import MappingProxyType

from h3probe.wire.tls_names import alert_name

# RFC 9000, 20.1; RFC 9368, 8.
TRANSPORT = MappingProxyType(
    {
        0x00: "NO_ERROR",
        0x01: "INTERNAL_ERROR",
        0x02: "CONNECTION_REFUSED",
        0x03: "FLOW_CONTROL_ERROR",
        0x04: "STREAM_LIMIT_ERROR",
        0x05: "STREAM_STATE_ERROR",
        0x06: "FINAL_SIZE_ERROR",
        0x07: "FRAME_ENCODING_ERROR",
        0x08: "TRANSPORT_PARAMETER_ERROR",
        0x09: "CONNECTION_ID_LIMIT_ERROR",
        0x0A: "PROTOCOL_VIOLATION",
        0x0B: "INVALID_TOKEN",
        0x0C: "APPLICATION_ERROR",
        0x0D: "CRYPTO_BUFFER_EXCEEDED",
        0x0E: "KEY_UPDATE_ERROR",
        0x0F: "AEAD_LIMIT_REACHED",
        0x10: "NO_VIABLE_PATH",
        0x11: "VERSION_NEGOTIATION_ERROR",
    }
)

# RFC 9114, 8.1; RFC 9204, 8.3; RFC 9297, 5.2.
HTTP3 = MappingProxyType(
    {
        0x33: "H3_DATAGRAM_ERROR",
        0x100: "H3_NO_ERROR",
        0x101: "H3_GENERAL_PROTOCOL_ERROR",
        0x102: "H3_INTERNAL_ERROR",
        0x103: "H3_STREAM_CREATION_ERROR",
        0x104: "H3_CLOSED_CRITICAL_STREAM",
        0x105: "H3_FRAME_UNEXPECTED",
        0x106: "H3_FRAME_ERROR",
        0x107: "H3_EXCESSIVE_LOAD",
        0x108: "H3_ID_ERROR",
        0x109: "H3_SETTINGS_ERROR",
        0x10A: "H3_MISSING_SETTINGS",
        0x10B: "H3_REQUEST_REJECTED",
        0x10C: "H3_REQUEST_CANCELLED",
        0x10D: "H3_REQUEST_INCOMPLETE",
        0x10E: "H3_MESSAGE_ERROR",
        0x10F: "H3_CONNECT_ERROR",
        0x110: "H3_VERSION_FALLBACK",
        0x200: "QPACK_DECOMPRESSION_FAILED",
        0x201: "QPACK_ENCODER_STREAM_ERROR",
        0x202: "QPACK_DECODER_STREAM_ERROR",
    }
)


def error_name(code: int, *, application: bool, protocol: str | None = "h3") -> str | None:
    """The name of an error code, None if it has none.

    The same number means two things: 0x100 is H3_NO_ERROR from the application and a TLS alert from the
    transport, so which frame carried it decides.

    Args:
        code: The code.
        application: Whether it came in a CONNECTION_CLOSE of type 0x1d.
        protocol: The ALPN of the application; only `h3` and its drafts have codes that are known here.
    """
    if application:
        is_http3 = protocol is not None and (protocol == "h3" or protocol.startswith("h3-"))
        return HTTP3.get(code) if is_http3 else None
    if 0x100 <= code <= 0x1FF:
        return f"CRYPTO_ERROR: {alert_name(code & 0xFF)}"
    return TRANSPORT.get(code)
