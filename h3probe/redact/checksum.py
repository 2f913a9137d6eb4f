"""The Internet checksum (RFC 1071)."""

from __future__ import annotations


def checksum(data: bytes) -> int:
    """The ones' complement of the ones' complement sum of all 16-bit words; the field itself counts as zero."""
    if len(data) % 2:
        data += b"\0"
    # 2^16 is 1 modulo 65535, so the remainder of the whole is that of the words' sum.
    total = int.from_bytes(data) % 0xFFFF
    if total == 0 and any(data):
        total = 0xFFFF
    return total ^ 0xFFFF


def pseudo_header(source: bytes, destination: bytes, protocol: int, length: int) -> bytes:
    """What TCP, UDP and ICMPv6 put before themselves (RFC 9293, 3.1; RFC 8200, 8.1)."""
    return source + destination + length.to_bytes(4) + protocol.to_bytes(4)
