"""ICMP (RFC 792, 1812, 4884) and ICMPv6 (RFC 4443) errors, and the packet that each one quotes."""

from __future__ import annotations

import struct
from typing import Final, Literal, NamedTuple

from h3probe.errors import DecodeError, TruncatedError
from h3probe.events import Endpoint
from h3probe.wire import ip

Kind = Literal[
    "port-unreachable",
    "host-unreachable",
    "network-unreachable",
    "prohibited",
    "protocol-unreachable",
    "too-big",
    "time-exceeded",
    "other",
]

Meaning = tuple[Kind, str]

# RFC 792, RFC 1122 section 3.2.2.1, RFC 1812 section 5.2.7.1
UNREACHABLE: Final[dict[int, Meaning]] = {
    0: ("network-unreachable", "network unreachable"),
    1: ("host-unreachable", "host unreachable"),
    2: ("protocol-unreachable", "protocol unreachable"),
    3: ("port-unreachable", "port unreachable"),
    4: ("too-big", "fragmentation needed and forbidden"),
    5: ("other", "source route failed"),
    6: ("network-unreachable", "destination network unknown"),
    7: ("host-unreachable", "destination host unknown"),
    8: ("host-unreachable", "source host isolated"),
    9: ("prohibited", "network administratively prohibited"),
    10: ("prohibited", "host administratively prohibited"),
    11: ("network-unreachable", "network unreachable for this type of service"),
    12: ("host-unreachable", "host unreachable for this type of service"),
    13: ("prohibited", "communication administratively prohibited"),
    14: ("prohibited", "host precedence violation"),
    15: ("prohibited", "precedence cutoff in effect"),
}
TIME_EXCEEDED: Final[dict[int, Meaning]] = {
    0: ("time-exceeded", "time to live exceeded in transit"),
    1: ("time-exceeded", "fragment reassembly time exceeded"),
}
# RFC 4443 section 3.1, and RFC 8883 for code 7 and beyond
UNREACHABLE_V6: Final[dict[int, Meaning]] = {
    0: ("network-unreachable", "no route to destination"),
    1: ("prohibited", "communication administratively prohibited"),
    2: ("network-unreachable", "beyond scope of source address"),
    3: ("host-unreachable", "address unreachable"),
    4: ("port-unreachable", "port unreachable"),
    5: ("prohibited", "source address failed ingress/egress policy"),
    6: ("prohibited", "reject route to destination"),
    7: ("other", "error in source routing header"),
    8: ("too-big", "headers too long"),
}
TIME_EXCEEDED_V6: Final[dict[int, Meaning]] = {
    0: ("time-exceeded", "hop limit exceeded in transit"),
    1: ("time-exceeded", "fragment reassembly time exceeded"),
}

_ERRORS: Final[dict[int, dict[int, tuple[str, dict[int, Meaning]]]]] = {
    ip.ICMP: {
        3: ("destination unreachable", UNREACHABLE),
        4: ("source quench", {0: ("other", "source quench")}),
        11: ("time exceeded", TIME_EXCEEDED),
        12: ("parameter problem", {0: ("other", "parameter problem")}),
    },
    ip.ICMPV6: {
        1: ("destination unreachable", UNREACHABLE_V6),
        2: ("packet too big", {0: ("too-big", "packet too big")}),
        3: ("time exceeded", TIME_EXCEEDED_V6),
        4: ("parameter problem", {0: ("other", "parameter problem")}),
    },
}
# RFC 4884, section 3: the types that have a length field.
_EXTENSIBLE: Final = frozenset({(ip.ICMP, 3), (ip.ICMP, 11), (ip.ICMP, 12), (ip.ICMPV6, 1), (ip.ICMPV6, 3)})


class IcmpMessage(NamedTuple):
    """An ICMP or ICMPv6 error.

    Attributes:
        icmp_type: As sent.
        icmp_code: As sent.
        kind: What it means for the packet's sender.
        meaning: The same in plain words.
        mtu: The next hop's, in bytes, where a `too-big` names it.
        protocol: Of the quoted packet.
        source: Of the quoted packet; port 0 where the protocol has none or the quote is too short.
        destination: The same.
        quoted: UDP: the payload behind the 8-byte header. Anything else: the transport's own bytes
            from its first one (for TCP the header, whose sequence number tells which segment).
    """

    icmp_type: int
    icmp_code: int
    kind: Kind
    meaning: str
    mtu: int | None
    protocol: int
    source: Endpoint
    destination: Endpoint
    quoted: bytes


def meaning(protocol: int, icmp_type: int, icmp_code: int) -> Meaning | None:
    """What a type and a code mean; None when that type is no error.

    Args:
        protocol: 1 for ICMP, 58 for ICMPv6.
        icmp_type: As sent.
        icmp_code: As sent; one that no RFC names is `other` with its number.
    """
    entry = _ERRORS[protocol].get(icmp_type)
    if entry is None:
        return None
    name, codes = entry
    return codes.get(icmp_code) or ("other", f"{name}, code {icmp_code}")


def parse_error(protocol: int, data: bytes, start: int, end: int) -> IcmpMessage | None:
    """Read an ICMP message; None when it is no error.

    Args:
        protocol: 1 for ICMP, 58 for ICMPv6.
        data: The buffer.
        start: Where the ICMP header begins.
        end: Where its captured bytes end.

    Raises:
        TruncatedError: The message, or the packet it quotes, ends too early.
        DecodeError: What it quotes is no IP packet.
    """
    if end - start < 8:
        raise TruncatedError("an ICMP header takes 8 bytes")
    icmp_type, icmp_code = data[start], data[start + 1]
    known = meaning(protocol, icmp_type, icmp_code)
    if known is None:
        return None
    kind, words = known
    packet = _quoted_packet(protocol, data, start + 8, _quote_end(protocol, data, start, end))
    source_port, destination_port, quoted = _quoted_transport(packet, data)
    return IcmpMessage(
        icmp_type,
        icmp_code,
        kind,
        words,
        _mtu(protocol, kind, data, start),
        packet.protocol,
        Endpoint(packet.source, source_port),
        Endpoint(packet.destination, destination_port),
        quoted,
    )


def _quote_end(protocol: int, data: bytes, start: int, end: int) -> int:
    """Where the quoted packet ends: RFC 4884 gives its length, in words, when extensions follow it."""
    if (protocol, data[start]) not in _EXTENSIBLE:
        return end
    size = data[start + 5] * 4 if protocol == ip.ICMP else data[start + 4] * 8
    return min(end, start + 8 + size) if size else end


def _mtu(protocol: int, kind: Kind, data: bytes, start: int) -> int | None:
    """The next hop's MTU (RFC 1191 section 4; RFC 4443 section 3.2); 0 says that the router is too old to tell."""
    if kind != "too-big":
        return None
    field = (
        struct.unpack_from(">H", data, start + 6) if protocol == ip.ICMP else struct.unpack_from(">I", data, start + 4)
    )
    return int(field[0]) or None


def _quoted_packet(protocol: int, data: bytes, start: int, end: int) -> ip.IpPacket:
    if start >= end:
        raise TruncatedError("an ICMP error without the packet it is about")
    version = data[start] >> 4
    if version != (4 if protocol == ip.ICMP else 6):
        raise DecodeError(f"an ICMP error quotes a packet of IP version {version}")
    parse = ip.parse_ipv4 if version == 4 else ip.parse_ipv6
    return parse(data, start, end, end)


def _quoted_transport(packet: ip.IpPacket, data: bytes) -> tuple[int, int, bytes]:
    start, end = packet.start, packet.end
    is_first = packet.fragment is None or packet.fragment.offset == 0
    if packet.protocol not in (ip.TCP, ip.UDP) or not is_first or end - start < 4:
        return 0, 0, data[start:end]
    source, destination = struct.unpack_from(">HH", data, start)
    return source, destination, data[start + 8 if packet.protocol == ip.UDP else start : end]
