"""From an EtherType, or what stands for one, to the network layer: VLAN tags, MPLS labels, PPPoE, LLC, NSH, MACsec.

Nothing is copied. Where a frame ends inside its headers, `struct.error` or `IndexError` says so to whoever called.
"""

from __future__ import annotations

import struct
from typing import Final

from h3probe.errors import EncryptedError

Network = tuple[int, int, bytes | None]
"""IP version (4, 6, or 0 for something else), offset of its header, link-layer source address."""

_U16: Final = struct.Struct(">H")

_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_BY_VERSION: Final = {4: _IPV4, 6: _IPV6}
_NOTHING: Final = 0xFFFF
"""An EtherType that nobody may use: what is there is no IP."""

# Headers that stand before the EtherType of what follows, and their bytes: VLAN tags (IEEE 802.1Q and 802.1ad, and
# one from before it), HSR (IEC 62439-3), Cisco's metadata and VN-Tag, and a provider's backbone (IEEE 802.1ah).
_TAGS: Final = {0x8100: 2, 0x88A8: 2, 0x9100: 2, 0x892F: 4, 0x8909: 6, 0x8926: 4, 0x88E7: 16}
_MPLS: Final = frozenset({0x8847, 0x8848})
PPPOE_SESSION: Final = 0x8864
_NSH: Final = 0x894F
_MACSEC: Final = 0x88E5

_PPP_PROTOCOLS: Final = {0x0021: _IPV4, 0x0057: _IPV6, 0x0281: 0x8847, 0x0283: 0x8848}

_MAX_NESTED_HEADERS: Final = 16


def ethernet(data: bytes, offset: int = 0) -> Network:
    """An Ethernet II or IEEE 802.3 frame that begins at `offset`; also the inside of a tunnel.

    Raises:
        struct.error: The frame ends inside its headers.
        IndexError: The same.
    """
    (ethertype,) = _U16.unpack_from(data, offset + 12)
    station = data[offset + 6 : offset + 12]
    if ethertype == _IPV4:
        return 4, offset + 14, station
    if ethertype == _IPV6:
        return 6, offset + 14, station
    version, start = by_ethertype(ethertype, data, offset + 14)
    return version, start, station


def by_ethertype(ethertype: int, data: bytes, offset: int) -> tuple[int, int]:
    """Follow tags, labels and encapsulations from an EtherType to an IP header.

    Raises:
        struct.error: The frame ends inside its headers.
        IndexError: The same.
    """
    for _ in range(_MAX_NESTED_HEADERS):
        if ethertype == _IPV4:
            return 4, offset
        if ethertype == _IPV6:
            return 6, offset
        if ethertype <= 1500:  # a length: IEEE 802.3 with an LLC header
            ethertype, offset = _llc(data, offset)
        elif ethertype in _TAGS:
            size = _TAGS[ethertype]
            (ethertype,) = _U16.unpack_from(data, offset + size)
            offset += size + 2
        elif ethertype == PPPOE_SESSION:
            ethertype, offset = _pppoe(data, offset)
        elif ethertype in _MPLS:
            ethertype, offset = _mpls(data, offset)
        elif ethertype in _HEADERS:
            ethertype, offset = _HEADERS[ethertype](data, offset)
        else:
            break
    return 0, offset


def raw(data: bytes, offset: int = 0) -> Network:
    """An IP packet without a link layer: its first four bits tell which."""
    version = data[offset] >> 4
    return (version if version in (4, 6) else 0), offset, None


def ppp_payload(data: bytes, offset: int) -> tuple[int, int]:
    """What follows a PPP protocol field of one or two bytes (RFC 1661, section 6.5)."""
    protocol, start = _ppp_protocol(data, offset)
    return by_ethertype(protocol, data, start)


# What follows a header, as an EtherType, and where.


def _ppp_protocol(data: bytes, offset: int) -> tuple[int, int]:
    if data[offset] & 1:
        protocol = data[offset]
        offset += 1
    else:
        (protocol,) = _U16.unpack_from(data, offset)
        offset += 2
    return _PPP_PROTOCOLS.get(protocol, _NOTHING), offset


def _llc(data: bytes, offset: int) -> tuple[int, int]:
    """LLC with SNAP (RFC 1042), or with the SAP of IP itself."""
    if data[offset : offset + 3] == b"\xaa\xaa\x03":
        organisation = data[offset + 3 : offset + 6]
        (ethertype,) = _U16.unpack_from(data, offset + 6)
        if organisation in (b"\0\0\0", b"\0\0\xf8") and ethertype > 1500:
            return ethertype, offset + 8
    elif data[offset : offset + 3] == b"\x06\x06\x03":
        return _BY_VERSION.get(data[offset + 3] >> 4, _NOTHING), offset + 3
    return _NOTHING, offset


def _mpls(data: bytes, offset: int) -> tuple[int, int]:
    """A stack of labels (RFC 3032); only the bytes after it tell what it carries."""
    while not data[offset + 2] & 1:
        offset += 4
    offset += 4
    first = data[offset] >> 4
    if first in _BY_VERSION:
        return _BY_VERSION[first], offset
    # Ethernet (RFC 4448), behind a control word, whose first four bits are zero, or at once.
    for start in (offset + 4, offset) if not first else (offset,):
        ethertype = int.from_bytes(data[start + 12 : start + 14])
        if ethertype in _BY_VERSION.values() or ethertype in _TAGS:
            return ethertype, start + 14
    return _NOTHING, offset


def _pppoe(data: bytes, offset: int) -> tuple[int, int]:
    """A PPPoE session frame (RFC 2516, section 4): version and type 1, code 0."""
    if data[offset] != 0x11 or data[offset + 1] != 0:
        return _NOTHING, offset
    return _ppp_protocol(data, offset + 6)


def _nsh(data: bytes, offset: int) -> tuple[int, int]:
    """A Network Service Header (RFC 8300, section 2.2): its length in words of four bytes, and what follows."""
    start, follows = offset + (data[offset + 1] & 0x3F) * 4, data[offset + 3]
    if data[offset] & 0xC0 or start < offset + 8:
        return _NOTHING, offset
    if follows == _NSH_ETHERNET:
        (ethertype,) = _U16.unpack_from(data, start + 12)
        return ethertype, start + 14
    return _NSH_PROTOCOLS.get(follows, _NOTHING), start


def _macsec(data: bytes, offset: int) -> tuple[int, int]:
    """A SecTAG (IEEE 802.1AE, section 9.3), with a channel's identifier or without; integrity alone hides nothing."""
    flags = data[offset]
    if flags & 0x80:
        return _NOTHING, offset
    if flags & 0x0C:
        raise EncryptedError("MACsec frames with encryption")
    start = offset + (14 if flags & 0x20 else 6)
    (ethertype,) = _U16.unpack_from(data, start)
    return ethertype, start + 2


_NSH_ETHERNET: Final = 3
_NSH_PROTOCOLS: Final = {1: _IPV4, 2: _IPV6, 4: _NSH, 5: 0x8847}
_HEADERS: Final = {_NSH: _nsh, _MACSEC: _macsec}
