from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.events import Endpoint
from h3probe.wire.icmp import IcmpMessage, Kind, meaning, parse_error
from tests.wire.packets import DESTINATION4, DESTINATION6, SOURCE4, SOURCE6, ipv4, ipv6, tcp, udp

ICMP, ICMPV6 = 1, 58


def _message(icmp_type: int, code: int, quoted: bytes, rest: bytes = bytes(4)) -> bytes:
    return struct.pack(">BBH", icmp_type, code, 0) + rest + quoted


def _parse(protocol: int, data: bytes) -> IcmpMessage:
    message = parse_error(protocol, data, 0, len(data))
    assert message is not None
    return message


def test_port_unreachable() -> None:
    """A port unreachable names the quoted packet's two ends and gives its payload behind the UDP header."""
    message = _parse(ICMP, _message(3, 3, ipv4(udp(b"\xc0initial"))))
    assert message == IcmpMessage(
        3,
        3,
        "port-unreachable",
        "port unreachable",
        None,
        17,
        Endpoint(SOURCE4, 50000),
        Endpoint(DESTINATION4, 443),
        b"\xc0initial",
    )


def test_port_unreachable_over_ipv6() -> None:
    """The same for ICMPv6, through the quoted packet's extension headers."""
    message = _parse(ICMPV6, _message(1, 4, ipv6(bytes([17, 0]) + bytes(6) + udp(b"x"), 60)))
    assert (message.kind, message.protocol) == ("port-unreachable", 17)
    assert (message.source, message.destination) == (Endpoint(SOURCE6, 50000), Endpoint(DESTINATION6, 443))
    assert message.quoted == b"x"


@pytest.mark.parametrize(
    ("protocol", "icmp_type", "code", "kind", "words"),
    [
        (ICMP, 3, 0, "network-unreachable", "network unreachable"),
        (ICMP, 3, 1, "host-unreachable", "host unreachable"),
        (ICMP, 3, 2, "protocol-unreachable", "protocol unreachable"),
        (ICMP, 3, 9, "prohibited", "network administratively prohibited"),
        (ICMP, 3, 10, "prohibited", "host administratively prohibited"),
        (ICMP, 3, 13, "prohibited", "communication administratively prohibited"),
        (ICMP, 3, 77, "other", "destination unreachable, code 77"),
        (ICMP, 11, 0, "time-exceeded", "time to live exceeded in transit"),
        (ICMPV6, 1, 0, "network-unreachable", "no route to destination"),
        (ICMPV6, 1, 1, "prohibited", "communication administratively prohibited"),
        (ICMPV6, 1, 3, "host-unreachable", "address unreachable"),
        (ICMPV6, 1, 6, "prohibited", "reject route to destination"),
        (ICMPV6, 3, 1, "time-exceeded", "fragment reassembly time exceeded"),
    ],
)
def test_meanings(protocol: int, icmp_type: int, code: int, kind: Kind, words: str) -> None:
    """Types and codes mean what their RFCs say, and a code without a name keeps its number."""
    assert meaning(protocol, icmp_type, code) == (kind, words)


def test_every_assigned_unreachable_code_has_its_own_words() -> None:
    """ICMP codes 0-15 and ICMPv6 codes 0-7 are all named, each in words of its own."""
    for protocol, icmp_type, codes in ((ICMP, 3, range(16)), (ICMPV6, 1, range(8))):
        words = {found[1] for code in codes if (found := meaning(protocol, icmp_type, code))}
        assert len(words) == len(codes)
        assert not any("code" in text for text in words)


def test_too_big_names_the_mtu() -> None:
    """The next hop's MTU stands in two bytes for ICMP, in four for ICMPv6; a router that does not tell gives none."""
    quoted4, quoted6 = ipv4(udp()), ipv6(udp())
    assert _parse(ICMP, _message(3, 4, quoted4, struct.pack(">HH", 0, 1400))).mtu == 1400
    assert _parse(ICMP, _message(3, 4, quoted4)).mtu is None
    message = _parse(ICMPV6, _message(2, 0, quoted6, struct.pack(">I", 1280)))
    assert (message.mtu, message.kind) == (1280, "too-big")


def test_quoted_tcp_keeps_its_header() -> None:
    """A quoted TCP segment is given from its first byte, so that its sequence number can be read."""
    message = _parse(ICMP, _message(3, 13, ipv4(tcp(seq=77)[:8], 6, total=40)))
    assert (message.protocol, message.source.port, message.destination.port) == (6, 50000, 443)
    assert struct.unpack_from(">I", message.quoted, 4) == (77,)


def test_quoted_protocol_without_ports() -> None:
    """Other protocols, later fragments, and quotes that end before the ports have port 0."""
    for quoted in (ipv4(bytes(8), 50), ipv4(udp(), fragment=8), ipv4(udp())[:22]):
        assert _parse(ICMP, _message(3, 1, quoted)).destination == Endpoint(DESTINATION4, 0)


def test_extensions_are_no_part_of_the_quote() -> None:
    """With RFC 4884's length field the quote ends where it says, before padding and extensions."""
    quoted = ipv4(udp(bytes(200)), total=228)[:128]
    extended = _message(11, 0, quoted + b"\x20\0\0\0extension", bytes([0, 32, 0, 0]))
    assert _parse(ICMP, extended).quoted == bytes(100)


@pytest.mark.parametrize(("protocol", "icmp_type"), [(ICMP, 0), (ICMP, 8), (ICMP, 5), (ICMPV6, 128), (ICMPV6, 135)])
def test_other_messages_are_no_errors(protocol: int, icmp_type: int) -> None:
    """Echoes, redirects and neighbour discovery report nothing about a packet of ours."""
    assert parse_error(protocol, _message(icmp_type, 0, bytes(40)), 0, 48) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x03\x03\0",
        _message(3, 3, b""),
        _message(3, 3, ipv6(udp())),
        _message(3, 3, ipv4(udp())[:19]),
        _message(3, 3, bytes(40)),
    ],
    ids=["3 bytes", "no quote", "IPv6 in ICMP", "half a header", "zeros"],
)
def test_malformed(data: bytes) -> None:
    """An error that quotes no packet of its own IP version is malformed."""
    with pytest.raises(DecodeError):
        parse_error(ICMP, data, 0, len(data))


@given(st.sampled_from([ICMP, ICMPV6]), st.sampled_from([1, 2, 3, 4, 11, 12]), st.binary(max_size=120))
def test_any_bytes(protocol: int, icmp_type: int, rest: bytes) -> None:
    """Any bytes give a message, nothing, or a DecodeError."""
    data = bytes([icmp_type]) + rest
    try:
        message = parse_error(protocol, data, 0, len(data))
    except DecodeError:
        return
    assert message is None or message.quoted in data
