"""Builders of real packets, byte by byte, for the tests of what is below QUIC and TLS."""

from __future__ import annotations

import struct

from h3probe.events import Frame

SOURCE4 = bytes([192, 0, 2, 1])
DESTINATION4 = bytes([198, 51, 100, 2])
SOURCE6 = bytes.fromhex("20010db8000000000000000000000001")
DESTINATION6 = bytes.fromhex("20010db8000000000000000000000002")
STATION = bytes.fromhex("020000000001")
SECOND = 1_000_000_000


def ethernet(payload: bytes, ethertype: int = 0x0800) -> bytes:
    """An Ethernet II frame from STATION."""
    return bytes.fromhex("020000000002") + STATION + struct.pack(">H", ethertype) + payload


def ipv4(
    payload: bytes,
    protocol: int = 17,
    *,
    total: int | None = None,
    identification: int = 1,
    fragment: int = 0,
    options: bytes = b"",
    source: bytes = SOURCE4,
) -> bytes:
    """An IPv4 packet; `fragment` is the field of flags and offset in units of 8."""
    words = 5 + len(options) // 4
    length = words * 4 + len(payload) if total is None else total
    header = struct.pack(">BBHHHBBH", 0x40 | words, 0, length, identification, fragment, 64, protocol, 0)
    return header + source + DESTINATION4 + options + payload


def ipv6(payload: bytes, protocol: int = 17, *, length: int | None = None, source: bytes = SOURCE6) -> bytes:
    """An IPv6 packet; extension headers are part of the payload."""
    size = len(payload) if length is None else length
    return struct.pack(">IHBB", 0x60000000, size, protocol, 64) + source + DESTINATION6 + payload


def udp(payload: bytes = b"data", source: int = 50000, destination: int = 443, *, length: int | None = None) -> bytes:
    """A UDP datagram, unsummed."""
    return struct.pack(">HHHH", source, destination, 8 + len(payload) if length is None else length, 0) + payload


def tcp(
    payload: bytes = b"data", *, flags: int = 0x18, seq: int = 1000, ack: int = 2000, options: bytes = b""
) -> bytes:
    """A TCP segment from port 50000 to 443, unsummed."""
    words = 5 + len(options) // 4
    return struct.pack(">HHIIBBHHH", 50000, 443, seq, ack, words << 4, flags, 65535, 0, 0) + options + payload


def frame(
    data: bytes, link_type: int = 1, *, number: int = 1, time_ns: int = SECOND, length: int | None = None
) -> Frame:
    """A frame as a vantage point reports it."""
    return Frame(number, time_ns, link_type, data, len(data) if length is None else length)
