"""A first look at a frame: whether a client may begin a connection with it.

Decoding an Initial takes a millisecond, in which a refused client's socket is gone. This takes microseconds, and may be
wrong either way: it only decides who is asked about early.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from h3probe.events import Endpoint
from h3probe.track.tracker import TCP, UDP

if TYPE_CHECKING:
    from h3probe.events import Frame


class Ends(NamedTuple):
    """Where a packet comes from and goes to.

    Attributes:
        protocol: 6 for TCP, 17 for UDP.
        source: Who sent it.
        destination: Whom it is for.
        begins: Whether it may begin a connection: a TCP SYN, or a QUIC long header over UDP.
        ends: Whether its sender has nothing more to say: a TCP FIN or RST.
    """

    protocol: int
    source: Endpoint
    destination: Endpoint
    begins: bool
    ends: bool = False


_ETHERNET = 1
_RAW = 101
_PORTS = struct.Struct("!HH")
_LONG_HEADER = 0xC0  # form and fixed bit (RFC 9000, 17.2)
_SYN_ACK = 0x12
_SYN = 0x02
_FIN_RST = 0x05


def peek(frame: Frame) -> Ends | None:
    """Return the ends of a TCP segment or UDP datagram.

    Seen are Ethernet and raw IP, IPv4, and IPv6 without extension headers.
    """
    data = frame.data
    at = {_ETHERNET: 14, _RAW: 0}.get(frame.link_type)
    if at is None or len(data) < at + 40:
        return None
    if data[at] >> 4 == 4:
        protocol, source, destination = data[at + 9], data[at + 12 : at + 16], data[at + 16 : at + 20]
        transport = at + (data[at] & 0x0F) * 4
    elif data[at] >> 4 == 6:
        protocol, source, destination = data[at + 6], data[at + 8 : at + 24], data[at + 24 : at + 40]
        transport = at + 40
    else:
        return None
    if protocol not in (TCP, UDP) or len(data) < transport + 14:
        return None
    if protocol == TCP:
        flags = data[transport + 13]
        begins, ends = flags & _SYN_ACK == _SYN, flags & _FIN_RST != 0
    else:
        ends = False
        begins = data[transport + 8] & _LONG_HEADER == _LONG_HEADER
    near, far = _PORTS.unpack_from(data, transport)
    return Ends(protocol, Endpoint(source, near), Endpoint(destination, far), begins, ends)
