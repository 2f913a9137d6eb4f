"""Packets as they would have been on the wire, for vantage points that see only payload.

All begin with an IP header (LINKTYPE_RAW, 101) and carry right checksums. Both endpoints of a packet are of one family.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from h3probe.events import Endpoint

LINKTYPE_RAW = 101

FIN = 0x01
SYN = 0x02
RST = 0x04
PSH = 0x08
ACK = 0x10

MAX_SEGMENT = 65535 - 20 - 20
"""The largest payload that one synthesised TCP segment holds: IPv4's length field counts both headers."""

_ICMP, _TCP, _UDP, _ICMPV6 = 1, 6, 17, 58
_TTL = 64


def udp(source: Endpoint, destination: Endpoint, payload: bytes) -> bytes:
    """A UDP datagram (RFC 768).

    Raises:
        ValueError: The payload is longer than a datagram can be.
    """
    length = 8 + len(payload)
    if length > 65535 - (20 if len(source.host) == 4 else 0):
        raise ValueError(f"{len(payload)} bytes are more than a datagram holds")
    header = struct.pack("!HHHH", source.port, destination.port, length, 0)
    total = checksum(_pseudo_header(source, destination, _UDP, length) + header + payload)
    return _ip(source, destination, _UDP, header[:6] + struct.pack("!H", total or 0xFFFF) + payload)


@dataclass(frozen=True, slots=True)
class Segment:
    """What a TCP segment says (RFC 9293, 3.1).

    Attributes:
        flags: A sum of FIN, SYN, RST, PSH and ACK.
        sequence: Taken modulo 2**32.
        acknowledgment: The same; written as 0 where there is no ACK.
        payload: At most `MAX_SEGMENT` bytes, together with the missing ones.
        missing: How many bytes were on the wire behind the payload, and are not at hand: the packet that is made ends
            before them, as one that a snap length cut, and its checksum takes them for zeros.
    """

    flags: int
    sequence: int
    acknowledgment: int
    payload: bytes = b""
    missing: int = 0


def tcp(source: Endpoint, destination: Endpoint, segment: Segment) -> bytes:
    """A TCP segment without options (RFC 9293)."""
    header = struct.pack(
        "!HHIIBBHHH",
        source.port,
        destination.port,
        segment.sequence & 0xFFFFFFFF,
        segment.acknowledgment & 0xFFFFFFFF if segment.flags & ACK else 0,
        5 << 4,
        segment.flags,
        0xFFFF,
        0,
        0,
    )
    content = header + segment.payload
    total = checksum(_pseudo_header(source, destination, _TCP, len(content) + segment.missing) + content)
    content = content[:16] + struct.pack("!H", total) + content[18:]
    return _ip(source, destination, _TCP, content, missing=segment.missing)


def port_unreachable(sender: Endpoint, receiver: Endpoint, refused: bytes) -> bytes:
    """The ICMP error with which a host refuses a datagram for a closed port (RFC 792: 3/3; RFC 4443: 1/4).

    Args:
        sender: Who refuses.
        receiver: Who is told.
        refused: The datagram from its IP header on, quoted as far as an error may (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
    """
    if len(sender.host) == 4:
        body = struct.pack("!BBHI", 3, 3, 0, 0) + refused[: 576 - 20 - 8]
        total = checksum(body)
        return _ip(sender, receiver, _ICMP, body[:2] + struct.pack("!H", total) + body[4:])
    body = struct.pack("!BBHI", 1, 4, 0, 0) + refused[: 1280 - 40 - 8]
    total = checksum(_pseudo_header(sender, receiver, _ICMPV6, len(body)) + body)
    return _ip(sender, receiver, _ICMPV6, body[:2] + struct.pack("!H", total) + body[4:])


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of bytes that are not all zero."""
    # In ones' complement 2**16 is congruent to 1, so the sum of all words is the whole number modulo 0xffff.
    # A sum of zero is written 0xffff when it is not the sum of zeros only, and its complement is 0.
    return 0xFFFF - (int.from_bytes(data + b"\0" * (len(data) & 1)) % 0xFFFF or 0xFFFF)


def _pseudo_header(source: Endpoint, destination: Endpoint, protocol: int, length: int) -> bytes:
    if len(source.host) == 4:
        return source.host + destination.host + struct.pack("!HH", protocol, length)
    return source.host + destination.host + struct.pack("!II", length, protocol)


def _ip(source: Endpoint, destination: Endpoint, protocol: int, payload: bytes, *, missing: int = 0) -> bytes:
    length = len(payload) + missing
    if len(source.host) == 16:
        return struct.pack("!IHBB", 6 << 28, length, protocol, _TTL) + source.host + destination.host + payload
    # Don't fragment is set, so an identification of 0 is right (RFC 6864, 4.1).
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, _TTL, protocol, 0)
    header += source.host + destination.host
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload
