"""IPv4 (RFC 791) and IPv6 (RFC 8200) headers, read in place.

Two lengths matter and are kept apart: how many bytes the header says there are, and how many of
them were captured. A snaplen makes the second smaller; segmentation offload makes the first zero.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from h3probe.errors import DecodeError, TruncatedError

TCP: Final = 6
UDP: Final = 17
ICMP: Final = 1
ICMPV6: Final = 58

_FRAGMENT: Final = 44
_AUTHENTICATION: Final = 51
# Hop-by-hop, routing, destination options, mobility, HIP, shim6: all have the length in the second
# byte, in units of 8 beyond the first 8 (RFC 6564).
_OPTIONS: Final = frozenset({0, 43, 60, 135, 139, 140})
_CHAINED: Final = _OPTIONS | {_FRAGMENT, _AUTHENTICATION}

_IPV4: Final = struct.Struct(">BxHHHxBxx4s4s")
_IPV6: Final = struct.Struct(">B3xHBx16s16s")
_FRAGMENT_HEADER: Final = struct.Struct(">BxHI")


INITIAL_HOP_LIMITS: Final = frozenset({64, 128, 255})


class Fragment(NamedTuple):
    """Which part of a fragmented packet this is.

    Attributes:
        identification: What all its fragments share, together with the addresses.
        offset: In bytes, into the fragmented part.
        more: Whether another fragment follows this one.
    """

    identification: int
    offset: int
    more: bool


class IpPacket(NamedTuple):
    """A packet's header, and where in its buffer the payload stands.

    Attributes:
        source: Packed, 4 or 16 bytes.
        destination: The same.
        protocol: Of the payload: 6 TCP, 17 UDP, ... (behind the extension headers).
        start: Where the payload begins.
        end: Where its captured bytes end.
        length: Of the payload on the wire: `end - start`, or more when the capture cut it.
        fragment: Set when the payload is only a part.
    """

    source: bytes
    destination: bytes
    protocol: int
    start: int
    end: int
    length: int
    fragment: Fragment | None


def is_first_hop(version: int, data: bytes, offset: int) -> bool:
    """Whether no router has passed a packet on yet: its hop limit is one that systems start with."""
    at = offset + (8 if version == 4 else 7)
    return at < len(data) and data[at] in INITIAL_HOP_LIMITS


def parse_ipv4(data: bytes, offset: int, limit: int, wire_end: int) -> IpPacket:
    """Read an IPv4 header.

    Args:
        data: The buffer.
        offset: Where the header begins.
        limit: Where the captured bytes of the enclosing layer end.
        wire_end: Where that layer ended on the wire; `limit` or beyond.

    Raises:
        TruncatedError: The header does not end within `limit`.
        DecodeError: This is no IPv4 header.
    """
    if limit - offset < 20:
        raise TruncatedError("an IPv4 header takes 20 bytes")
    first, total, identification, flags, protocol, source, destination = _IPV4.unpack_from(data, offset)
    header = (first & 0x0F) * 4
    if first >> 4 != 4 or header < 20:
        raise DecodeError(f"no IPv4 header begins with {first:#04x}")
    # 0: a segment on its way to a network card that will cut it into packets. Too much: a header that
    # lies, and whose missing bytes nobody should wait for.
    if not 0 < total <= wire_end - offset:
        total = wire_end - offset
    start = offset + header
    end = min(offset + total, limit)
    if total < header or start > limit:
        raise TruncatedError(f"an IPv4 header of {header} bytes in a packet of {total}")
    fragment = None
    if flags & 0x3FFF:
        fragment = Fragment(identification, (flags & 0x1FFF) * 8, bool(flags & 0x2000))
    packet = IpPacket(source, destination, protocol, start, end, total - header, fragment)
    if protocol == _AUTHENTICATION and fragment is None:
        return skip_extensions(data, packet)
    return packet


def parse_ipv6(data: bytes, offset: int, limit: int, wire_end: int) -> IpPacket:
    """Read an IPv6 header and the extension headers behind it.

    Args:
        data: The buffer.
        offset: Where the header begins.
        limit: Where the captured bytes of the enclosing layer end.
        wire_end: Where that layer ended on the wire; `limit` or beyond.

    Raises:
        TruncatedError: The headers do not end within `limit`.
        DecodeError: This is no IPv6 header.
    """
    start = offset + 40
    if start > limit:
        raise TruncatedError("an IPv6 header takes 40 bytes")
    first, length, protocol, source, destination = _IPV6.unpack_from(data, offset)
    if first >> 4 != 6:
        raise DecodeError(f"no IPv6 header begins with {first:#04x}")
    if not 0 < length <= wire_end - start:  # 0: a jumbogram (RFC 2675), or a segment before its segmentation
        length = wire_end - start
    packet = IpPacket(source, destination, protocol, start, min(start + length, limit), length, None)
    if protocol in _CHAINED:
        return skip_extensions(data, packet)
    return packet


def skip_extensions(data: bytes, packet: IpPacket) -> IpPacket:
    """Walk the extension headers (RFC 8200, section 4) up to the transport or a fragment header.

    Raises:
        TruncatedError: A header reaches past the packet.
    """
    source, destination, protocol, start, end, length, _ = packet
    wire_end = start + length
    fragment = None
    while protocol in _CHAINED and fragment is None:
        if start + 8 > end:
            raise TruncatedError("an extension header takes 8 bytes")
        if protocol == _FRAGMENT:
            protocol, position, identification = _FRAGMENT_HEADER.unpack_from(data, start)
            start += 8
            if position & 0xFFF9:  # else a whole packet that wears the header (RFC 6946)
                fragment = Fragment(identification, position & 0xFFF8, bool(position & 1))
        else:
            size = (data[start + 1] + 2) * 4 if protocol == _AUTHENTICATION else (data[start + 1] + 1) * 8
            protocol = data[start]
            start += size
        if start > end:
            raise TruncatedError("an extension header reaches past its packet")
    return IpPacket(source, destination, protocol, start, end, wire_end - start, fragment)
