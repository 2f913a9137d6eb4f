"""Code points of TLS that are named in what h3probe says (IANA's TLS registries)."""

from __future__ import annotations

from types import MappingProxyType

SERVER_NAME = 0
SUPPORTED_GROUPS = 10
SIGNATURE_ALGORITHMS = 13
ALPN = 16
PRE_SHARED_KEY = 41
EARLY_DATA = 42
SUPPORTED_VERSIONS = 43
KEY_SHARE = 51
QUIC_TRANSPORT_PARAMETERS = 57
ENCRYPTED_CLIENT_HELLO = 0xFE0D
# Until RFC 9001: draft-ietf-quic-tls-33 and earlier.
QUIC_TRANSPORT_PARAMETERS_DRAFT = 0xFFA5

CLIENT_HELLO = 1
SERVER_HELLO = 2

CHANGE_CIPHER_SPEC = 20
ALERT = 21
HANDSHAKE = 22
APPLICATION_DATA = 23
HEARTBEAT = 24

ALERTS = MappingProxyType(
    {
        0: "close_notify",
        10: "unexpected_message",
        20: "bad_record_mac",
        21: "decryption_failed",
        22: "record_overflow",
        30: "decompression_failure",
        40: "handshake_failure",
        41: "no_certificate",
        42: "bad_certificate",
        43: "unsupported_certificate",
        44: "certificate_revoked",
        45: "certificate_expired",
        46: "certificate_unknown",
        47: "illegal_parameter",
        48: "unknown_ca",
        49: "access_denied",
        50: "decode_error",
        51: "decrypt_error",
        60: "export_restriction",
        70: "protocol_version",
        71: "insufficient_security",
        80: "internal_error",
        86: "inappropriate_fallback",
        90: "user_canceled",
        100: "no_renegotiation",
        109: "missing_extension",
        110: "unsupported_extension",
        111: "certificate_unobtainable",
        112: "unrecognized_name",
        113: "bad_certificate_status_response",
        114: "bad_certificate_hash_value",
        115: "unknown_psk_identity",
        116: "certificate_required",
        117: "general_error",
        120: "no_application_protocol",
        121: "ech_required",
    }
)


def alert_name(code: int) -> str:
    """The name of an alert (RFC 8446, 6, and its registry), `alert_NNN` for one without."""
    return ALERTS.get(code, f"alert_{code}")


def is_grease(value: int) -> bool:
    """Whether a 16-bit code point is one that means nothing, sent to keep peers tolerant (RFC 8701, 2)."""
    return value & 0x0F0F == 0x0A0A and value >> 8 == value & 0xFF
