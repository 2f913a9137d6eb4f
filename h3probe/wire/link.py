"""From a link-layer frame to the network layer in it.

Every link type leads through a chain of headers (VLAN tags, MPLS labels, PPPoE, LLC/SNAP) to one
question: where does an IPv4 or IPv6 header begin? `network_layer` answers it without copying.
Layouts: https://www.tcpdump.org/linktypes.html and the IEEE and RFC documents named beside each.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from h3probe.errors import EncryptedError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Callable

Network = tuple[int, int, bytes | None]
"""IP version (4, 6, or 0 for something else), offset of its header, link-layer source address."""

LINK_TYPE_NAMES: Final[dict[int, str]] = {
    0: "NULL",
    1: "EN10MB",
    6: "IEEE802",
    7: "ARCNET",
    8: "SLIP",
    9: "PPP",
    10: "FDDI",
    11: "ATM_RFC1483",
    12: "RAW",
    14: "RAW",
    50: "PPP_SERIAL",
    51: "PPP_ETHER",
    99: "SYMANTEC_FIREWALL",
    101: "RAW",
    104: "C_HDLC",
    105: "IEEE802_11",
    107: "FRELAY",
    108: "LOOP",
    109: "ENC",
    113: "SLL",
    117: "PFLOG",
    119: "PRISM_HEADER",
    122: "IP_OVER_FC",
    123: "SUNATM",
    127: "IEEE802_11_RADIO",
    143: "DOCSIS",
    147: "USER0",
    149: "PKTAP",
    163: "IEEE802_11_RADIO_AVS",
    166: "PPP_PPPD",
    178: "JUNIPER_ETHER",
    187: "BLUETOOTH_HCI_H4",
    189: "USB_LINUX",
    192: "PPI",
    195: "IEEE802_15_4_WITHFCS",
    197: "ERF",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR",
    204: "PPP_WITH_DIR",
    219: "MPLS",
    220: "USB_LINUX_MMAPPED",
    226: "IPNET",
    227: "CAN_SOCKETCAN",
    228: "IPV4",
    229: "IPV6",
    230: "IEEE802_15_4_NOFCS",
    239: "NFLOG",
    240: "NETANALYZER",
    241: "NETANALYZER_TRANSPARENT",
    242: "INFINIBAND_IPOIB",
    249: "USBPCAP",
    251: "BLUETOOTH_LE_LL",
    252: "WIRESHARK_UPPER_PDU",
    253: "NETLINK",
    254: "BLUETOOTH_LINUX_MONITOR",
    256: "BLUETOOTH_LE_LL_WITH_PHDR",
    258: "PKTAP",
    266: "USB_DARWIN",
    271: "VSOCK",
    272: "NORDIC_BLE",
    276: "SLL2",
    281: "DSA_TAG_BRCM",
    282: "DSA_TAG_BRCM_PREPEND",
    283: "DSA_TAG_DSA",
    284: "DSA_TAG_EDSA",
}

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_LE16: Final = struct.Struct("<H")
_LE32: Final = struct.Struct("<I")

_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_BY_VERSION: Final = {4: _IPV4, 6: _IPV6}
_NOTHING: Final = 0xFFFF
"""An EtherType that nobody may use: what is there is no IP."""

# Headers that stand before the EtherType of what follows, and their bytes: VLAN tags (IEEE 802.1Q and 802.1ad, and
# one from before it), HSR (IEC 62439-3), Cisco's metadata and VN-Tag, and a provider's backbone (IEEE 802.1ah).
_TAGS: Final = {0x8100: 2, 0x88A8: 2, 0x9100: 2, 0x892F: 4, 0x8909: 6, 0x8926: 4, 0x88E7: 16}
_MPLS: Final = frozenset({0x8847, 0x8848})
_PPPOE_SESSION: Final = 0x8864

# The address family is the capturing host's own number: AF_INET is 2 everywhere, AF_INET6 is not.
_NULL_FAMILIES: Final = {2: 4, 10: 6, 23: 6, 24: 6, 26: 6, 28: 6, 30: 6}

_PPP_PROTOCOLS: Final = {0x0021: _IPV4, 0x0057: _IPV6, 0x0281: 0x8847, 0x0283: 0x8848}

_MAX_NESTED_HEADERS: Final = 16


def is_read(link_type: int) -> bool:
    """Whether `network_layer` knows a LINKTYPE_ number."""
    return link_type in _LINKS


def link_type_name(link_type: int) -> str:
    """The usual short name of a LINKTYPE_ number (`EN10MB`, `SLL2`), or `LINKTYPE_<number>`."""
    return LINK_TYPE_NAMES.get(link_type) or f"LINKTYPE_{link_type}"


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
        elif ethertype == _PPPOE_SESSION:
            ethertype, offset = _pppoe(data, offset)
        elif ethertype in _MPLS:
            ethertype, offset = _mpls(data, offset)
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


# What each link type begins with.


def _null(data: bytes) -> Network:
    """BSD loopback: an address family in either byte order."""
    family = min(_LE32.unpack_from(data)[0], _U32.unpack_from(data)[0])
    return _NULL_FAMILIES.get(family, 0), 4, None


def _ppp(data: bytes) -> Network:
    """PPP with or without HDLC-like framing (RFC 1662), or Cisco HDLC under the same link type."""
    if data[0] in (0x0F, 0x8F):
        return _cisco_hdlc(data)
    offset = 2 if data[:2] == b"\xff\x03" else 0
    version, start = ppp_payload(data, offset)
    return version, start, None


def _ppp_with_direction(data: bytes) -> Network:
    """PPP behind a byte for the direction, which pppd writes in place of the address."""
    version, start = ppp_payload(data, 3 if data[1:3] == b"\xff\x03" else 2 if data[1] == 0x03 else 1)
    return version, start, None


def _ppp_over_ethernet(data: bytes) -> Network:
    version, start = by_ethertype(_PPPOE_SESSION, data, 0)
    return version, start, None


def _cisco_hdlc(data: bytes) -> Network:
    """Address, control, EtherType (RFC 1547, section 4.3.1)."""
    version, start = by_ethertype(max(_U16.unpack_from(data, 2)[0], 1501), data, 4)
    return version, start, None


def _frame_relay(data: bytes) -> Network:
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


def _ieee80211(data: bytes, offset: int = 0, *, padded: bool = False) -> Network:
    """An unencrypted IEEE 802.11 data frame (section 9.3.2.1) with an LLC header."""
    control, flags = data[offset], data[offset + 1]
    is_data, has_payload, is_qos = control & 0x0C == 0x08, not control & 0x40, bool(control & 0x80)
    if control & 0x03 or not is_data or not has_payload:
        return 0, offset, None
    if flags & 0x40:
        raise EncryptedError("802.11 frames with encryption")
    to_ds, from_ds = flags & 0x01, flags & 0x02
    length = 30 if to_ds and from_ds else 24
    source = 24 if to_ds and from_ds else 16 if from_ds else 10
    is_aggregate = False
    if is_qos:
        is_aggregate = bool(data[offset + length] & 0x80)
        length += 2
        if flags & 0x80:  # +HTC
            length += 4
    if padded:
        length = (length + 3) & ~3
    if is_aggregate:  # an A-MSDU (9.3.2.2.2): of several packets, each behind a header of its own, the first
        length += 14
    version, start = by_ethertype(0, data, offset + length)
    return version, start, data[offset + source : offset + source + 6]


def _radiotap(data: bytes) -> Network:
    """Radiotap (radiotap.org): its own length, then an 802.11 frame that a flag may say is padded."""
    (length,) = _LE16.unpack_from(data, 2)
    (present,) = _LE32.unpack_from(data, 4)
    fields = 8
    more = present
    while more & 0x80000000:
        (more,) = _LE32.unpack_from(data, fields)
        fields += 4
    padded = False
    if present & 0x2:
        if present & 0x1:  # TSFT, 8 bytes, naturally aligned
            fields = ((fields + 7) & ~7) + 8
        padded = bool(data[fields] & 0x20)
    return _ieee80211(data, length, padded=padded)


def _prism(data: bytes) -> Network:
    """The header of Prism's driver, with its length in the host's byte order, or AVS's, before an 802.11 frame."""
    if data[:3] == b"\x80\x21\x10":
        return _avs(data)
    length = min(_LE32.unpack_from(data, 4)[0], _U32.unpack_from(data, 4)[0])
    return _ieee80211(data, length)


def _avs(data: bytes) -> Network:
    """AVS: version and length, then what it knows of the radio."""
    return _ieee80211(data, _U32.unpack_from(data, 4)[0])


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
    9: _ppp,
    12: raw,
    14: raw,
    50: _ppp,
    51: _ppp_over_ethernet,
    101: raw,
    104: _cisco_hdlc,
    105: _ieee80211,
    107: _frame_relay,
    108: _null,
    109: _behind(12),
    113: _sll,
    117: _pflog,
    119: _prism,
    127: _radiotap,
    149: _pktap,
    163: _avs,
    166: _ppp_with_direction,
    178: _juniper_ethernet,
    192: _ppi,
    204: _ppp_with_direction,
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
