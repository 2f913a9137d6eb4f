"""One frame, from the link layer to the transport: addresses replaced, payloads handed on, checksums made anew.

Everything is rewritten in place. What this does not know how to rewrite is not let through.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from h3probe.errors import DecodeError
from h3probe.events import Endpoint
from h3probe.redact import dns, icmp
from h3probe.redact.checksum import checksum, pseudo_header
from h3probe.redact.piece import Known
from h3probe.track.names import DNS_PORTS
from h3probe.wire import ip, tunnels
from h3probe.wire.ip import IpPacket, parse_ipv4, parse_ipv6
from h3probe.wire.link_names import link_type_name
from h3probe.wire.transport import parse_tcp, parse_udp

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Frame
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.piece import Piece
    from h3probe.redact.quic import QuicRewriter
    from h3probe.redact.tcp import TcpRewriter

_VLAN_TAGS: Final = frozenset({0x8100, 0x88A8, 0x9100})
_IPV4, _IPV6, _ARP, _PPPOE, _BRIDGED = 0x0800, 0x86DD, 0x0806, 0x8864, 0x6558
_PPP: Final = {0x0021: _IPV4, 0x0057: _IPV6}
"""By the PPP protocol field, in its form of two bytes (RFC 1661, 2)."""
_GRE: Final = 47
_VXLAN: Final = frozenset({4789, 8472})
_MAX_DEPTH: Final = 8
_PAD_N: Final = 1
_NOP: Final = 1
# TCP options that say nothing about the host but what its stack can do: MSS, window scale, SACK, timestamps.
_TCP_OPTIONS: Final = frozenset({2, 3, 4, 5, 8})
_NULL_FAMILIES: Final = {2: 4, 10: 6, 23: 6, 24: 6, 26: 6, 28: 6, 30: 6}


class CannotRedactError(DecodeError):
    """A frame that cannot be rewritten so that nothing is left in it; the message is the reason it is counted by."""


class _Inside(NamedTuple):
    """Where what comes next may end: what was captured, and what was on the wire; and how deep it stands in tunnels."""

    end: int
    wire_end: int
    depth: int = 0


@dataclass(slots=True)
class Held:
    """A frame whose payload may wait for another frame.

    Attributes:
        frame: As captured.
        data: Its bytes, rewritten but for the pieces.
        pieces: Where each piece belongs.
        sums: Checksums, the innermost first, to be made once the pieces are in place.
        has_fcs: Whether the frame ends with Ethernet's own checksum.
    """

    frame: Frame
    data: bytearray
    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    sums: list[Callable[[bytearray], None]] = field(default_factory=list)
    has_fcs: bool = False

    @property
    def ready(self) -> bool:
        """Whether it waits for nothing more."""
        return all(piece.ready for _, piece in self.pieces)

    def give_up(self) -> None:
        """Wait no longer."""
        for _, piece in self.pieces:
            piece.give_up()

    def build(self, interface: str | None) -> Frame:
        """Put it together."""
        for at, piece in self.pieces:
            made = piece.take()
            self.data[at : at + len(made)] = made
        for make in self.sums:
            make(self.data)
        if self.has_fcs:
            self.data[-4:] = zlib.crc32(self.data[:-4]).to_bytes(4, "little")
        return replace(self.frame, data=bytes(self.data), interface=interface)


class FrameRewriter:
    """Rewrites frames, one after the other."""

    def __init__(self, mapping: Mapping, quic: QuicRewriter, tcp: TcpRewriter) -> None:
        self._mapping = mapping
        self._quic = quic
        self._tcp = tcp
        self._links: dict[int, Callable[[Held], None]] = {
            0: self._null,
            9: self._ppp,
            1: lambda held: self._ethernet(held, 0, _outermost(held)),
            12: self._raw,
            14: self._raw,
            101: self._raw,
            108: self._null,
            113: self._sll,
            228: self._raw,
            229: self._raw,
            276: self._sll2,
        }

    def frame(self, frame: Frame) -> Held:
        """Rewrite a frame as far as it can be alone.

        Raises:
            CannotRedactError: It must not be let through.
        """
        held = Held(frame, bytearray(frame.data))
        rewrite = self._links.get(frame.link_type)
        if rewrite is None:
            raise CannotRedactError(f"link type {link_type_name(frame.link_type)}")
        try:
            rewrite(held)
        except CannotRedactError:
            raise
        except (DecodeError, struct.error, IndexError):
            raise CannotRedactError("a malformed packet, or one cut within its headers") from None
        return held

    def _ethernet(self, held: Held, at: int, inside: _Inside) -> None:
        data = held.data
        if inside.depth == 0 and len(data) > 64 and zlib.crc32(data[:-4]).to_bytes(4, "little") == data[-4:]:
            held.has_fcs = True
        (ethertype,) = struct.unpack_from(">H", data, at + 12)
        for start in (at, at + 6):
            data[start : start + 6] = self._mapping.mac(bytes(data[start : start + 6]))
        self._ethertype(held, ethertype, at + 14, inside)

    def _sll(self, held: Held) -> None:
        length, ethertype = struct.unpack_from(">4xH8xH", held.data)
        self._station(held, 6, length)
        self._ethertype(held, max(ethertype, 1501), 16, _outermost(held))

    def _sll2(self, held: Held) -> None:
        ethertype, length = struct.unpack_from(">H9xB8x", held.data)
        self._station(held, 12, length)
        self._ethertype(held, max(ethertype, 1501), 20, _outermost(held))

    def _station(self, held: Held, at: int, length: int) -> None:
        """Linux's cooked address field: 8 bytes, of which the first few are the address."""
        length = min(length, 8)
        address = self._mapping.mac(bytes(held.data[at : at + length]))
        held.data[at : at + 8] = address.ljust(8, b"\0")

    def _null(self, held: Held) -> None:
        family = min(struct.unpack_from("<I", held.data)[0], struct.unpack_from(">I", held.data)[0])
        version = _NULL_FAMILIES.get(family)
        if version is None:
            raise CannotRedactError(f"address family {family}")
        self._ip(held, version, 4, _outermost(held))

    def _ppp(self, held: Held) -> None:
        """PPP in HDLC-like framing (RFC 1662), or without it."""
        at = 2 if held.data[:2] == b"\xff\x03" else 0
        (protocol,) = struct.unpack_from(">H", held.data, at)
        self._ethertype(held, _PPP.get(protocol, 0xFFFF), at + 2, _outermost(held))

    def _raw(self, held: Held) -> None:
        self._ip(held, held.data[0] >> 4, 0, _outermost(held))

    def _ethertype(self, held: Held, ethertype: int, at: int, inside: _Inside) -> None:
        data = held.data
        while ethertype in _VLAN_TAGS:
            (ethertype,) = struct.unpack_from(">H", data, at + 2)
            at += 4
        if ethertype == _PPPOE and data[at : at + 2] == b"\x11\0":
            (protocol,) = struct.unpack_from(">H", data, at + 6)
            ethertype, at = _PPP.get(protocol, ethertype), at + 8
        if ethertype in (_IPV4, _IPV6):
            self._ip(held, 4 if ethertype == _IPV4 else 6, at, inside)
        elif ethertype == _ARP:
            self._arp(held, at, inside.end)
        elif ethertype <= 1500:
            raise CannotRedactError("IEEE 802.3 with LLC")
        else:
            raise CannotRedactError(f"EtherType 0x{ethertype:04x}")

    def _arp(self, held: Held, at: int, end: int) -> None:
        """Ethernet and IPv4 (RFC 826)."""
        data = held.data
        if struct.unpack_from(">HHBB", data, at) != (1, _IPV4, 6, 4) or end - at < 28:
            raise CannotRedactError("ARP of other networks")
        for start in (at + 8, at + 18):
            data[start : start + 6] = self._mapping.mac(bytes(data[start : start + 6]))
        for start in (at + 14, at + 24):
            data[start : start + 4] = self._mapping.address(bytes(data[start : start + 4]))
        data[at + 28 : end] = bytes(end - at - 28)

    def _ip(self, held: Held, version: int, at: int, inside: _Inside) -> None:
        if version not in (4, 6):
            raise CannotRedactError(f"IP version {version}")
        if inside.depth > _MAX_DEPTH:
            raise CannotRedactError("packets inside each other")
        data = held.data
        packet = (parse_ipv4 if version == 4 else parse_ipv6)(held.frame.data, at, inside.end, inside.wire_end)
        if packet.fragment is not None:
            raise CannotRedactError("IP fragment")
        source, destination = self._mapping.address(packet.source), self._mapping.address(packet.destination)
        if version == 4:
            data[at + 12 : at + 20] = source + destination
            header_end = at + (data[at] & 0x0F) * 4
            if data[at + 9] != packet.protocol:
                raise CannotRedactError("authentication header")
            data[at + 20 : header_end] = bytes((_NOP,)) * (header_end - at - 20)
            held.sums.append(lambda made: _put(made, at + 10, checksum(_without(made, at, header_end, 10))))
        else:
            data[at + 8 : at + 40] = source + destination
            _scrub_extensions(data, at, packet.start)
        self._transport(held, packet, inside.depth)
        # Padding, whatever a network card left behind the packet, or what a tunnel carries behind it.
        data[packet.end : inside.end] = bytes(max(inside.end - packet.end, 0))

    def _transport(self, held: Held, packet: IpPacket, depth: int) -> None:
        data = held.data
        if packet.protocol == ip.UDP:
            self._udp(held, packet, depth)
        elif packet.protocol == ip.TCP:
            self._tcp_segment(held, packet)
        elif packet.protocol in (ip.ICMP, ip.ICMPV6):
            known = icmp.rewrite(data, packet, self._mapping, self._quic)
            if not known:
                raise CannotRedactError(
                    f"{'ICMP' if packet.protocol == ip.ICMP else 'ICMPv6'} type {data[packet.start]}"
                )
            header = b"" if packet.protocol == ip.ICMP else self._pseudo(packet)
            held.sums.append(_summed(packet, 2, header))
        elif packet.protocol in (4, 41):
            self._ip(held, 4 if packet.protocol == 4 else 6, packet.start, _inside(packet, depth))
        elif packet.protocol == _GRE:
            self._gre(held, packet, depth)
        else:
            raise CannotRedactError(f"IP protocol {packet.protocol}")

    def _gre(self, held: Held, packet: IpPacket, depth: int) -> None:
        """GRE (RFC 2784, 2890) without a checksum or routing."""
        flags, ethertype = struct.unpack_from(">HH", held.data, packet.start)
        if flags & 0xC007:
            raise CannotRedactError("GRE of other kinds")
        at = packet.start + 4 + 4 * (bool(flags & 0x2000) + bool(flags & 0x1000))
        inside = _inside(packet, depth)
        if ethertype == _BRIDGED:
            self._ethernet(held, at, inside)
        else:
            self._ethertype(held, ethertype, at, inside)

    def _udp(self, held: Held, packet: IpPacket, depth: int) -> None:
        original = held.frame.data
        source, destination, payload, length = parse_udp(original, packet.start, packet.end, packet.length)
        at = packet.start + 8
        end = at + len(payload)
        if (source in tunnels.TUNNEL_PORTS or destination in tunnels.TUNNEL_PORTS) and tunnels.unwrap_udp(
            source, destination, payload, length
        ):
            if destination not in _VXLAN:
                port = destination if destination in tunnels.TUNNEL_PORTS else source
                raise CannotRedactError(f"tunnel over UDP port {port}")
            self._ethernet(held, at + 8, _Inside(end, at + length, depth + 1))
        elif payload:
            if source in DNS_PORTS or destination in DNS_PORTS:
                piece: Piece = Known(dns.rewrite(payload, self._mapping))
            else:
                piece = self._quic.datagram(
                    Endpoint(packet.source, source), Endpoint(packet.destination, destination), payload, length
                )
            held.pieces.append((at, piece))
        held.data[end : packet.end] = bytes(max(packet.end - end, 0))
        if any(original[packet.start + 6 : at]) or len(packet.source) == 16:  # 0: none (RFC 768)
            size = length + 8
            header = self._pseudo(packet, size)
            held.sums.append(_summed(packet._replace(length=size, end=min(packet.end, packet.start + size)), 6, header))

    def _tcp_segment(self, held: Held, packet: IpPacket) -> None:
        original = held.frame.data
        source, destination, seq, ack, flags, payload, length = parse_tcp(
            original, packet.start, packet.end, packet.length
        )
        header_end = min(packet.start + (original[packet.start + 12] >> 4) * 4, packet.end)
        _scrub_tcp_options(held.data, packet.start + 20, header_end)
        piece = self._tcp.segment(
            Endpoint(packet.source, source), Endpoint(packet.destination, destination), seq, ack, flags, payload, length
        )
        if piece is not None and (source in DNS_PORTS or destination in DNS_PORTS) and dns.is_whole(payload):
            piece = Known(payload[:2] + dns.rewrite(payload[2:], self._mapping))
        if piece is not None:
            held.pieces.append((header_end, piece))
        else:
            held.data[header_end : packet.end] = bytes(packet.end - header_end)
        held.sums.append(_summed(packet, 16, self._pseudo(packet)))

    def _pseudo(self, packet: IpPacket, length: int | None = None) -> bytes:
        source, destination = self._mapping.address(packet.source), self._mapping.address(packet.destination)
        return pseudo_header(source, destination, packet.protocol, packet.length if length is None else length)


def _outermost(held: Held) -> _Inside:
    return _Inside(len(held.data), held.frame.length)


def _inside(packet: IpPacket, depth: int) -> _Inside:
    return _Inside(packet.end, packet.start + packet.length, depth + 1)


def _scrub_extensions(data: bytearray, at: int, end: int) -> None:
    """Empty the options between an IPv6 header and its transport (RFC 8200, section 4)."""
    protocol, position = data[at + 6], at + 40
    while position < end:
        size = (data[position + 1] + 1) * 8
        if protocol == 44:  # a whole packet that wears a fragment header (RFC 6946)
            size = 8
        elif protocol in (0, 60):
            # One option that fills all, or, where it cannot be so long, padding of one byte each (Pad1, zero).
            filling = bytes((_PAD_N, size - 4)) if size - 4 < 256 else b""
            data[position + 2 : position + size] = filling.ljust(size - 2, b"\0")
        else:
            raise CannotRedactError(f"IPv6 extension header {protocol}")
        protocol = data[position]
        position += size


def _scrub_tcp_options(data: bytearray, at: int, end: int) -> None:
    """Overwrite options that hold secrets or addresses (Fast Open, MPTCP, signatures), or are not known."""
    while at < end:
        kind = data[at]
        if kind == 0:
            data[at:end] = bytes(end - at)
            return
        if kind == _NOP:
            at += 1
            continue
        size = data[at + 1] if at + 1 < end else 0
        if size < 2 or at + size > end:
            data[at:end] = bytes((_NOP,)) * (end - at)
            return
        if kind not in _TCP_OPTIONS:
            data[at : at + size] = bytes((_NOP,)) * size
        at += size


def _summed(packet: IpPacket, field_at: int, header: bytes) -> Callable[[bytearray], None]:
    """What makes a transport's checksum; where a part of the packet was not captured there is none to be made."""

    def make(data: bytearray) -> None:
        at = packet.start + field_at
        if at + 2 > packet.end:
            return
        if packet.end - packet.start < packet.length:
            _put(data, at, 0)
            return
        value = checksum(header + _without(data, packet.start, packet.end, field_at))
        _put(data, at, value or (0xFFFF if packet.protocol == ip.UDP else 0))

    return make


def _without(data: bytearray, start: int, end: int, field_at: int) -> bytes:
    """The bytes from `start` to `end` with zeros for the checksum among them."""
    return bytes(data[start : start + field_at]) + b"\0\0" + bytes(data[start + field_at + 2 : end])


def _put(data: bytearray, at: int, value: int) -> None:
    data[at : at + 2] = value.to_bytes(2)
