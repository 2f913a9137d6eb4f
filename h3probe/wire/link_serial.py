"""Point-to-point lines: PPP, Cisco's HDLC, frame relay."""

from __future__ import annotations

import struct
from typing import Final

from h3probe.wire.encapsulation import PPPOE_SESSION, Network, by_ethertype, ppp_payload

_U16: Final = struct.Struct(">H")


def ppp(data: bytes) -> Network:
    """PPP with or without HDLC-like framing (RFC 1662), or Cisco HDLC under the same link type."""
    if data[0] in (0x0F, 0x8F):
        return cisco_hdlc(data)
    offset = 2 if data[:2] == b"\xff\x03" else 0
    version, start = ppp_payload(data, offset)
    return version, start, None


def ppp_with_direction(data: bytes) -> Network:
    """PPP behind a byte for the direction, which pppd writes in place of the address."""
    version, start = ppp_payload(data, 3 if data[1:3] == b"\xff\x03" else 2 if data[1] == 0x03 else 1)
    return version, start, None


def ppp_over_ethernet(data: bytes) -> Network:
    """A PPPoE session frame without Ethernet before it."""
    version, start = by_ethertype(PPPOE_SESSION, data, 0)
    return version, start, None


def cisco_hdlc(data: bytes) -> Network:
    """Address, control, EtherType (RFC 1547, section 4.3.1)."""
    version, start = by_ethertype(max(_U16.unpack_from(data, 2)[0], 1501), data, 4)
    return version, start, None


def frame_relay(data: bytes) -> Network:
    """Q.922 address, then either Cisco's EtherType or RFC 2427's NLPID."""
    offset = 2
    while not data[offset - 1] & 1:  # the low bit marks the last byte of the address
        offset += 1
    if data[offset] != 0x03:
        version, start = by_ethertype(max(_U16.unpack_from(data, offset)[0], 1501), data, offset + 2)
        return version, start, None
    offset += 1
    if data[offset] == 0:  # a pad that aligns what follows
        offset += 1
    network_protocol = data[offset]
    if network_protocol == 0xCC:
        return 4, offset + 1, None
    if network_protocol == 0x8E:
        return 6, offset + 1, None
    if network_protocol == 0x80 and data[offset + 1 : offset + 4] == b"\0\0\0":
        version, start = by_ethertype(max(_U16.unpack_from(data, offset + 4)[0], 1501), data, offset + 6)
        return version, start, None
    return 0, offset, None
