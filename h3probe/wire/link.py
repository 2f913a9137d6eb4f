"""From a link-layer frame to the network layer in it.

Every link type leads through a chain of headers (VLAN tags, MPLS labels, PPPoE, LLC/SNAP) to one
question: where does an IPv4 or IPv6 header begin? `network_layer` answers it without copying.
Layouts: https://www.tcpdump.org/linktypes.html and the IEEE and RFC documents named beside each.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from h3probe.errors import TruncatedError
from h3probe.wire.encapsulation import Network, by_ethertype, ethernet, raw
from h3probe.wire.link_names import link_type_name
from h3probe.wire.link_radio import avs, ieee80211, prism, radiotap
from h3probe.wire.link_serial import cisco_hdlc, frame_relay, ppp, ppp_over_ethernet, ppp_with_direction

if TYPE_CHECKING:
    from collections.abc import Callable

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_LE32: Final = struct.Struct("<I")

# The address family is the capturing host's own number: AF_INET is 2 everywhere, AF_INET6 is not.
_NULL_FAMILIES: Final = {2: 4, 10: 6, 23: 6, 24: 6, 26: 6, 28: 6, 30: 6}


def is_read(link_type: int) -> bool:
    """Whether `network_layer` knows a LINKTYPE_ number."""
    return link_type in _LINKS


def network_layer(link_type: int, data: bytes) -> Network:
    """Find the IP header in a frame.

    Args:
        link_type: A LINKTYPE_ number.
        data: The frame as captured.

    Returns:
        The IP version (0 when the frame carries something else, or the link type is not known), the
        offset of the IP header, and the link-layer source address where the link has one.

    Raises:
        TruncatedError: The frame ends inside a header that it began.
        EncryptedError: What the frame carries is encrypted.
    """
    decode = _LINKS.get(link_type)
    if decode is None:
        return 0, 0, None
    try:
        return decode(data)
    except (struct.error, IndexError):
        raise TruncatedError(
            f"a {link_type_name(link_type)} frame of {len(data)} bytes ends inside its headers"
        ) from None


# What each link type begins with.


def _null(data: bytes) -> Network:
    """BSD loopback: an address family in either byte order."""
    family = min(_LE32.unpack_from(data)[0], _U32.unpack_from(data)[0])
    return _NULL_FAMILIES.get(family, 0), 4, None


def _sll(data: bytes) -> Network:
    """Linux cooked capture: type, ARPHRD, address length, address (8 bytes), EtherType."""
    length, address, ethertype = struct.unpack_from(">4xH8sH", data)
    version, start = _cooked(ethertype, data, 16)
    return version, start, address[:length] or None


def _sll2(data: bytes) -> Network:
    """Linux cooked capture version 2: EtherType first, the address last."""
    ethertype, length, address = struct.unpack_from(">H9xB8s", data)
    version, start = _cooked(ethertype, data, 20)
    return version, start, address[:length] or None


def _cooked(ethertype: int, data: bytes, offset: int) -> tuple[int, int]:
    # Below 1501 stand Linux's own numbers, of which 4 is "802.2 LLC"; none of them is a length.
    return by_ethertype(0 if ethertype == 4 else max(ethertype, 1501), data, offset)


def _ppi(data: bytes) -> Network:
    """Per-Packet Information: its length and the link type of what follows."""
    length, link_type = struct.unpack_from("<2xHI", data)
    return _nested(link_type, data, length)


def _pktap(data: bytes) -> Network:
    """Apple's packet tap: its length, record type 1 (a packet), the link type of what follows."""
    length, record_type, link_type = struct.unpack_from("<III", data)
    if record_type != 1:
        return 0, 0, None
    return _nested(link_type, data, length)


def _nested(link_type: int, data: bytes, offset: int) -> Network:
    """The frame inside a wrapper; wrappers do not nest."""
    decode = _LINKS.get(link_type)
    if decode is None or decode in (_ppi, _pktap) or not 0 < offset < len(data):
        return 0, 0, None
    version, start, station = decode(data[offset:])
    return version, offset + start, station


def _nflog(data: bytes) -> Network:
    """Netfilter's log: TLVs in the host's byte order; number 9 is the packet, number 8 its hardware address."""
    offset, station = 4, None
    while True:
        length, number = struct.unpack_from("<HH", data, offset)
        if number == 9:
            version, start, _ = raw(data, offset + 4)
            return version, start, station
        if length < 4:
            return 0, offset, None
        if number == 8 and length >= 8:
            (address_length,) = _U16.unpack_from(data, offset + 4)
            station = data[offset + 8 : offset + 8 + min(address_length, 8)] or None
        offset += (length + 3) & ~3


def _behind(size: int) -> Callable[[bytes], Network]:
    """An IP packet behind a header of so many bytes."""
    return lambda data: raw(data, size)


def _switch_tag(size: int) -> Callable[[bytes], Network]:
    """Ethernet with the tag of a switch chip behind its addresses (Linux's DSA)."""

    def decode(data: bytes) -> Network:
        (ethertype,) = _U16.unpack_from(data, 12 + size)
        return *by_ethertype(ethertype, data, 14 + size), data[6:12]

    return decode


def _pflog(data: bytes) -> Network:
    """The packet filter of the BSDs: the length of its header, which is padded to 4 bytes."""
    return raw(data, (data[0] + 3) & ~3)


def _juniper_ethernet(data: bytes) -> Network:
    """Juniper's routers: flags behind three bytes of magic, perhaps extensions; without Ethernet a protocol number."""
    flags = data[3]
    offset = 6 + _U16.unpack_from(data, 4)[0] if flags & 0x80 else 4
    return raw(data, offset + 4) if flags & 0x02 else ethernet(data, offset)


def _infiniband(data: bytes) -> Network:
    """IP over InfiniBand (RFC 4391): a header for routing, the EtherType, two bytes reserved."""
    return *by_ethertype(max(_U16.unpack_from(data, 40)[0], 1501), data, 44), None


_LINKS: Final[dict[int, Callable[[bytes], Network]]] = {
    0: _null,
    1: ethernet,
    9: ppp,
    12: raw,
    14: raw,
    50: ppp,
    51: ppp_over_ethernet,
    101: raw,
    104: cisco_hdlc,
    105: ieee80211,
    107: frame_relay,
    108: _null,
    109: _behind(12),
    113: _sll,
    117: _pflog,
    119: prism,
    127: radiotap,
    149: _pktap,
    163: avs,
    166: ppp_with_direction,
    178: _juniper_ethernet,
    192: _ppi,
    204: ppp_with_direction,
    219: lambda data: (*by_ethertype(0x8847, data, 0), None),
    228: raw,
    229: raw,
    239: _nflog,
    242: _infiniband,
    258: _pktap,
    276: _sll2,
    281: _switch_tag(4),
    282: lambda data: ethernet(data, 4),
    283: _switch_tag(4),
    284: _switch_tag(8),
}
