"""Stand-ins in DER (X.690) of exactly a given length, for what a certificate or an OCSP answer would give away.

A field that may have any length takes up the rest, and lengths are written in two bytes where that is more than is
needed, so that every length can be met.
"""

from __future__ import annotations

_CN = bytes.fromhex("0603550403")  # id-at-commonName
_SHA256_RSA = bytes.fromhex("300d06092a864886f70d01010b0500")
_VALIDITY = bytes.fromhex("301e170d3730303130313030303030305a170d3730303130313030303030305a")
_KEY = bytes.fromhex("301a300d06092a864886f70d010101050003090030060201010201" + "03")
_PRODUCED = bytes.fromhex("180f") + b"19700101000000Z"
_OCSP_BASIC = bytes.fromhex("06092b0601050507300101")


def certificate(length: int) -> bytes:
    """A certificate without a name, or zeros where that many bytes hold none."""
    name = b"\x30\x00"
    signed = b"".join((b"\x02\x01\x01", _SHA256_RSA, name, _VALIDITY, name, _KEY))
    start = _long(0x30, len(signed)) + signed + _SHA256_RSA
    signature = length - 4 - len(start) - 4
    if signature < 1:
        return bytes(length)
    return _long(0x30, length - 4) + start + _long(0x03, signature) + bytes(signature)


def name(length: int) -> bytes:
    """A distinguished name, `CN=xxx`, or zeros where that many bytes hold none."""
    value = length - 16 - len(_CN)
    if value < 0:
        return b"\x30\x00" + bytes(length - 2) if length >= 2 else bytes(length)
    text = _long(0x0C, value) + b"x" * value
    pair = _long(0x30, len(_CN) + len(text)) + _CN + text
    return _long(0x30, len(pair) + 4) + _long(0x31, len(pair)) + pair


def ocsp_response(length: int) -> bytes:
    """An OCSP answer (RFC 6960) that says nothing of any certificate, or zeros where that many bytes hold none."""
    said = _long(0xA2, 22) + b"\x04\x14" + bytes(20) + _PRODUCED + b"\x30\x00"
    start = _long(0x30, len(said)) + said + _SHA256_RSA
    signature = length - 8 - 3 - 8 - len(_OCSP_BASIC) - 4 - len(start) - 4
    if signature < 1:
        return bytes(length)
    basic = _long(0x30, len(start) + 4 + signature) + start + _long(0x03, signature) + bytes(signature)
    inner = _OCSP_BASIC + _long(0x04, len(basic)) + basic
    answer = _long(0x30, len(inner)) + inner
    return _long(0x30, length - 4) + b"\x0a\x01\x00" + _long(0xA0, len(answer)) + answer


def _long(tag: int, length: int) -> bytes:
    """A tag, and a length in two bytes."""
    return bytes((tag, 0x82)) + length.to_bytes(2)
