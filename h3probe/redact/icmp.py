"""ICMP messages, rewritten in place: echoes, errors with the packet that they quote, and neighbour discovery."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from h3probe.events import Endpoint
from h3probe.redact import dns
from h3probe.redact.checksum import checksum
from h3probe.track.names import DNS_PORTS
from h3probe.wire import ip
from h3probe.wire.ip import parse_ipv4, parse_ipv6

if TYPE_CHECKING:
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.quic import QuicRewriter
    from h3probe.wire.ip import IpPacket

_ECHOES: Final = {ip.ICMP: (0, 8), ip.ICMPV6: (128, 129)}
_ERRORS: Final = {ip.ICMP: (3, 4, 5, 11, 12), ip.ICMPV6: (1, 2, 3, 4)}
_REDIRECT: Final = 5
# Neighbour discovery (RFC 4861, 4): where addresses stand, and where the options begin.
_DISCOVERY: Final[dict[int, tuple[tuple[int, ...], int]]] = {
    133: ((), 8),
    134: ((), 16),
    135: ((8,), 24),
    136: ((8,), 24),
    137: ((8, 24), 40),
}
_LINK_ADDRESSES, _PREFIX, _MTU, _DNS_SERVERS = (1, 2), 3, 5, 25


def rewrite(data: bytearray, packet: IpPacket, mapping: Mapping, quic: QuicRewriter) -> bool:
    """Rewrite a message; False where it is of a type that this does not know.

    Raises:
        DecodeError: What it quotes is broken.
        IndexError: It ends too early.
    """
    start, end, protocol = packet.start, packet.end, packet.protocol
    kind = data[start]
    if kind in _ECHOES[protocol]:
        data[start + 8 : end] = mapping.noise(bytes(data[start:end]), max(end - start - 8, 0))
    elif kind in _ERRORS[protocol]:
        if protocol == ip.ICMP and kind == _REDIRECT:
            data[start + 4 : start + 8] = mapping.address(bytes(data[start + 4 : start + 8]))
        _quote(data, start + 8, end, mapping, quic)
    elif protocol == ip.ICMPV6 and kind in _DISCOVERY:
        addresses, options = _DISCOVERY[kind]
        for at in addresses:
            data[start + at : start + at + 16] = mapping.address(bytes(data[start + at : start + at + 16]))
        _options(data, start + options, end, mapping)
    else:
        return False
    return True


def _quote(data: bytearray, start: int, end: int, mapping: Mapping, quic: QuicRewriter) -> None:
    """The start of the packet that an error is about."""
    if start >= end:
        return
    original = bytes(data)
    is_ipv4 = data[start] >> 4 == 4
    packet = (parse_ipv4 if is_ipv4 else parse_ipv6)(original, start, end, end)
    source, destination = mapping.address(packet.source), mapping.address(packet.destination)
    if is_ipv4:
        data[start + 12 : start + 20] = source + destination
        header = start + (data[start] & 0x0F) * 4
        data[start + 20 : header] = b"\x01" * (header - start - 20)
        data[header : packet.start] = bytes(packet.start - header)  # an authentication header
        data[start + 10 : start + 12] = b"\0\0"
        data[start + 10 : start + 12] = checksum(bytes(data[start:header])).to_bytes(2)
    else:
        data[start + 8 : start + 40] = source + destination
        data[start + 40 : packet.start] = bytes(packet.start - start - 40)
        if packet.start > start + 40:
            data[start + 6] = 59  # no next header: what stood between is gone
    at, stop = packet.start, packet.end
    data[stop:end] = bytes(end - stop)
    is_first = packet.fragment is None or packet.fragment.offset == 0
    if packet.protocol == ip.UDP and is_first and stop - at >= 8:
        ports = struct.unpack_from(">HH", original, at)
        data[at + 6 : at + 8] = b"\0\0"
        payload = original[at + 8 : stop]
        if DNS_PORTS.intersection(ports):
            data[at + 8 : stop] = dns.rewrite(payload, mapping)
        else:
            ends = Endpoint(packet.source, ports[0]), Endpoint(packet.destination, ports[1])
            data[at + 8 : stop] = quic.quoted(*ends, payload)
    elif packet.protocol == ip.TCP and is_first:
        # Ports, sequence and acknowledgement numbers, flags and window; neither checksum nor options nor payload.
        data[at + 16 : stop] = bytes(max(stop - at - 16, 0))
        if stop - at > 12:
            data[at + 12] = 0x50
    else:
        data[at:stop] = bytes(stop - at)


def _options(data: bytearray, at: int, end: int, mapping: Mapping) -> None:
    """Neighbour discovery options (RFC 4861, 4.6; RFC 8106): what is not known becomes zeros."""
    while at + 8 <= end:
        kind, size = data[at], data[at + 1] * 8
        if not size or at + size > end:
            break
        if kind in _LINK_ADDRESSES:
            data[at + 2 : at + size] = mapping.mac(bytes(data[at + 2 : at + size]))
        elif kind == _PREFIX and size == 32:
            data[at + 16 : at + 32] = mapping.address(bytes(data[at + 16 : at + 32]))
        elif kind == _DNS_SERVERS:
            for start in range(at + 8, at + size - 15, 16):
                data[start : start + 16] = mapping.address(bytes(data[start : start + 16]))
        elif kind != _MTU:
            data[at + 2 : at + size] = bytes(size - 2)
        at += size
    data[at:end] = bytes(max(end - at, 0))
