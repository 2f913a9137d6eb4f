"""Packets inside packets: GRE, and the tunnels that ride on UDP.

A UDP port is only a hint, since any client may have picked it. A tunnel is believed when what is
inside has the lengths of an IP packet that fills it; otherwise the datagram is what it seems to be.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from h3probe.wire.encapsulation import by_ethertype, ethernet, ppp_payload, raw

if TYPE_CHECKING:
    from collections.abc import Callable

Inner = tuple[int, int]
"""IP version (4 or 6) and offset of the packet inside."""

_L2TP: Final = 1701
_GTP_U: Final = 2152
_TEREDO: Final = 3544
_VXLAN: Final = 4789
_VXLAN_BEFORE_IANA: Final = 8472  # what Linux, and with it flannel, used first and still uses
_VXLAN_GPE: Final = 4790
_GENEVE: Final = 6081
_ETHERIP_VERSION: Final = 3
_MPLS_IN_UDP: Final = 6635
_TZSP: Final = 37008

_VXLAN_GPE_PROTOCOLS: Final = {1: 4, 2: 6}

_ETHERNET: Final = 0x6558
_ERSPAN_II: Final = 0x88BE
_ERSPAN_III: Final = 0x22EB
_PPP: Final = 0x880B
_WCCP: Final = 0x883E
_EOIP: Final = 0x6400
_MPLS: Final = 0x8847


def unwrap_gre(data: bytes, start: int, end: int) -> Inner | None:
    """The IP packet in a GRE packet (RFC 2784, 2890; version 1 of RFC 2637; ERSPAN), or None.

    Args:
        data: The buffer.
        start: Where the GRE header begins.
        end: Where its captured bytes end.
    """
    try:
        return _gre(data[:end], start)
    except (struct.error, IndexError):
        return None


def unwrap_etherip(data: bytes, start: int, end: int) -> Inner | None:
    """The IP packet in an Ethernet frame behind two bytes, the first of which is version 3 (RFC 3378, 3), or None."""
    try:
        version, offset, _ = ethernet(data[:end], start + 2)
        return (version, offset) if version and data[start] >> 4 == _ETHERIP_VERSION else None
    except (struct.error, IndexError):
        return None


def unwrap_udp(source: int, destination: int, payload: bytes, length: int) -> Inner | None:
    """The IP packet that a UDP datagram carries for one of the tunnels in `TUNNEL_PORTS`, or None.

    Args:
        source: The datagram's source port.
        destination: Its destination port.
        payload: Its payload, as captured.
        length: Of the payload, by the UDP header.
    """
    unwrap = TUNNEL_PORTS.get(destination) or TUNNEL_PORTS.get(source)
    if unwrap is None:
        return None
    try:
        inner = unwrap(payload, length)
        return inner if inner is not None and _fits(*inner, payload, length) else None
    except (struct.error, IndexError):
        return None


def _fits(version: int, offset: int, payload: bytes, length: int) -> bool:
    """Whether an IP header stands at `offset` and its packet ends within the tunnel's payload."""
    room = length - offset
    if version == 4:
        first, total = struct.unpack_from(">BxH", payload, offset)
        header = (first & 0x0F) * 4
        return bool(first >> 4 == 4 and 20 <= header <= total <= room)
    if version == 6:
        first, size = struct.unpack_from(">B3xH", payload, offset)
        return bool(first >> 4 == 6 and size + 40 <= room)
    return False


def _gre(data: bytes, start: int) -> Inner | None:
    flags, ethertype = struct.unpack_from(">HH", data, start)
    if flags & 0x4000:  # source routing, deprecated by RFC 2784
        return None
    offset = start + 4
    has_sequence = bool(flags & 0x1000)
    # Checksum, key, sequence number; version 1 has its key always and an acknowledgement number too.
    offset += 4 * (bool(flags & 0x8000) + bool(flags & 0x2000) + has_sequence)
    if flags & 0x0007 == 1:
        offset += 4 * bool(flags & 0x0080)
    version, inner = _gre_payload(ethertype, data, offset, has_sequence=has_sequence)
    return (version, inner) if version else None


def _gre_payload(ethertype: int, data: bytes, offset: int, *, has_sequence: bool) -> tuple[int, int]:
    if ethertype == _PPP:
        return _ppp(data, offset)
    if ethertype == _WCCP:  # a proxy's redirection: its second version has a header of four bytes before the packet
        return raw(data, offset if data[offset] >> 4 == 4 else offset + 4)[:2]
    if ethertype in (_ETHERNET, _EOIP):
        return ethernet(data, offset)[:2]
    if ethertype == _ERSPAN_II:  # type I has no header of its own, and no sequence number in GRE's
        return ethernet(data, offset + 8 if has_sequence else offset)[:2]
    if ethertype == _ERSPAN_III:
        return ethernet(data, offset + (20 if data[offset + 11] & 1 else 12))[:2]
    return by_ethertype(max(ethertype, 1501), data, offset)


def _ppp(data: bytes, offset: int) -> tuple[int, int]:
    """PPP, with or without its address and control."""
    return ppp_payload(data, offset + 2 if data[offset : offset + 2] == b"\xff\x03" else offset)


def _l2tp(payload: bytes, length: int) -> Inner | None:
    """L2TP (RFC 2661, section 3.1): a data message of version 2, with PPP in it."""
    (flags,) = struct.unpack_from(">H", payload)
    if flags & 0x800F != 0x0002 or length < 8:
        return None
    offset = 6 + 2 * bool(flags & 0x4000) + 4 * bool(flags & 0x0800)
    if flags & 0x0200:
        offset += 2 + struct.unpack_from(">H", payload, offset)[0]
    return _ppp(payload, offset)


def _gtp_u(payload: bytes, length: int) -> Inner | None:
    """GTP-U (3GPP TS 29.281, section 5): version 1, message type 255, optional fields, extension headers."""
    flags, message, size = struct.unpack_from(">BBH", payload)
    if flags & 0xF0 != 0x30 or message != 0xFF or size + 8 > length:
        return None
    offset = 8
    if flags & 0x07:
        following = payload[11]
        offset = 12
        while flags & 0x04 and following:
            units = payload[offset]
            if not units:
                return None
            offset += units * 4
            following = payload[offset - 1]
    return raw(payload, offset)[:2]


def _vxlan(payload: bytes, length: int) -> Inner | None:
    """VXLAN (RFC 7348, section 5): the I flag, reserved bits zero but for group policy's."""
    flags, network = struct.unpack_from(">II", payload)
    if flags & 0x7FB70000 != 0x08000000 or network & 0xFF or length < 22:
        return None
    return ethernet(payload, 8)[:2]


def _vxlan_gpe(payload: bytes, length: int) -> Inner | None:
    """VXLAN with a protocol number (draft-ietf-nvo3-vxlan-gpe, section 3.2): 1 IPv4, 2 IPv6, 3 Ethernet."""
    flags, network = struct.unpack_from(">II", payload)
    # The P bit, which announces the number, is left out by some senders; the inner lengths decide.
    if flags & 0xFBFFFF00 != 0x08000000 or network & 0xFF or length < 8:
        return None
    if flags & 0xFF == 3:
        return ethernet(payload, 8)[:2]
    return (_VXLAN_GPE_PROTOCOLS.get(flags & 0xFF, 0), 8)


def _geneve(payload: bytes, length: int) -> Inner | None:
    """Geneve (RFC 8926, section 3.4): version 0, options, then what the EtherType says."""
    first, flags, ethertype = struct.unpack_from(">BBH", payload)
    if first & 0xC0 or flags & 0x3F or payload[7] or length < 8:
        return None
    offset = 8 + (first & 0x3F) * 4
    if ethertype == _ETHERNET:
        return ethernet(payload, offset)[:2]
    return by_ethertype(max(ethertype, 1501), payload, offset)


def _teredo(payload: bytes, length: int) -> Inner | None:
    """Teredo (RFC 4380, section 5.1.1): authentication, then origin, then an IPv6 packet that fills the rest."""
    offset = 0
    if payload[:2] == b"\0\1":
        offset = 13 + payload[2] + payload[3]
    if payload[offset : offset + 2] == b"\0\0":
        offset += 8
    (size,) = struct.unpack_from(">H", payload, offset + 4)
    if payload[offset] >> 4 != 6 or offset + 40 + size != length:
        return None
    return 6, offset


def _mpls(payload: bytes, length: int) -> Inner | None:
    """MPLS (RFC 7510): nothing but labels, so that what follows them has to fill the rest."""
    version, offset = by_ethertype(_MPLS, payload, 0)
    at, header = (2, 0) if version == 4 else (4, 40)
    (size,) = struct.unpack_from(">H", payload, offset + at)
    return (version, offset) if offset + header + size == length else None


def _tzsp(payload: bytes, length: int) -> Inner | None:
    """TZSP, in which access points and MikroTik's routers send what they capture: version 1, a packet, Ethernet."""
    version, kind, encapsulation = struct.unpack_from(">BBH", payload)
    if version != 1 or kind > 1 or encapsulation != 1 or length < 5:
        return None
    offset = 4
    while (tag := payload[offset]) != 1:  # the end of the tagged fields; 0 is a pad
        offset += 1 if not tag else 2 + payload[offset + 1]
    return ethernet(payload, offset + 1)[:2]


TUNNEL_PORTS: Final[dict[int, Callable[[bytes, int], Inner | None]]] = {
    _L2TP: _l2tp,
    _GTP_U: _gtp_u,
    _TEREDO: _teredo,
    _VXLAN: _vxlan,
    _VXLAN_BEFORE_IANA: _vxlan,
    _VXLAN_GPE: _vxlan_gpe,
    _GENEVE: _geneve,
    _MPLS_IN_UDP: _mpls,
    _TZSP: _tzsp,
}
