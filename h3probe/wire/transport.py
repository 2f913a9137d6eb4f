"""UDP (RFC 768) and TCP (RFC 9293) headers, read in place."""

from __future__ import annotations

import struct
from typing import Final

from h3probe.errors import DecodeError, TruncatedError

FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
PSH: Final = 0x08
ACK: Final = 0x10

_UDP: Final = struct.Struct(">HHH")
_TCP: Final = struct.Struct(">HHIIBB")


def parse_udp(data: bytes, start: int, end: int, length: int) -> tuple[int, int, bytes, int]:
    """Read a UDP header.

    Args:
        data: The buffer.
        start: Where the header begins.
        end: Where the captured bytes of the packet end.
        length: How many bytes the IP header says that header and payload take.

    Returns:
        Source port, destination port, the payload as captured, and its length by the UDP header.

    Raises:
        TruncatedError: The header does not end within `end`.
        DecodeError: The header says that it is longer than the datagram.
    """
    if end - start < 8:
        raise TruncatedError("a UDP header takes 8 bytes")
    source, destination, size = _UDP.unpack_from(data, start)
    if size < 8:
        if size:
            raise DecodeError(f"a UDP datagram of {size} bytes is shorter than its header")
        size = length  # a jumbogram (RFC 2675, section 4)
    return source, destination, data[start + 8 : min(end, start + size)], size - 8


def parse_tcp(data: bytes, start: int, end: int, length: int) -> tuple[int, int, int, int, int, bytes, int]:
    """Read a TCP header.

    Args:
        data: The buffer.
        start: Where the header begins.
        end: Where the captured bytes of the packet end.
        length: How many bytes the IP header says that header and payload take.

    Returns:
        Source port, destination port, sequence number, acknowledgement number, flags, the payload
        as captured, and its length by the IP header.

    Raises:
        TruncatedError: The fixed part of the header does not end within `end`.
        DecodeError: The header has an impossible length.
    """
    if end - start < 20:
        raise TruncatedError("a TCP header takes 20 bytes")
    source, destination, sequence, acknowledgement, size, flags = _TCP.unpack_from(data, start)
    header = (size >> 4) * 4
    if header < 20 or header > length:
        raise DecodeError(f"a TCP header of {header} bytes in a segment of {length}")
    return source, destination, sequence, acknowledgement, flags, data[start + header : end], length - header
