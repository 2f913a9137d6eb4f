"""ICMP: errors with their quotations, echoes, neighbour discovery."""

from __future__ import annotations

import struct

import pytest

from h3probe.redact import Mapping
from h3probe.vantage import synthesis
from h3probe.wire.packet import IcmpError
from tests.redact.flows import CLIENT, KEY, NAME, SERVER, STATIONS, Wire, facts, hello, redacted
from tests.redact.test_packet import CLIENT6, SERVER6, sums_are_right
from tests.wire import packets
from tests.wire.quic_builder import DCID, crypto, initial

ROUTER = bytes((10, 20, 30, 1))
MAPPING = Mapping(KEY)
NS_TARGET = bytes.fromhex("20010470aabb00010000000000000077")


def error(quoted: bytes, kind: int = 3, code: int = 3) -> bytes:
    """An ICMP error to the client."""
    return packets.ipv4(struct.pack(">BBHI", kind, code, 0, 0) + quoted, 1, source=ROUTER)


@pytest.mark.parametrize("size", [28, 32, 37, 50, 300, 576])
def test_an_error_about_a_datagram(size: int) -> None:
    """What is quoted has the addresses, ports and connection ID of the packet that it is about, as redacted."""
    wire = Wire()
    first = wire.udp(initial(crypto(0, hello()), size=1200))
    frames = [first, packets.frame(error(first.data[14 : 14 + size]), 101)]
    mapping = Mapping(KEY)
    made = redacted(frames, mapping)
    _, before = facts(frames)
    _, after = facts(made)
    assert isinstance(before, IcmpError)
    assert isinstance(after, IcmpError)
    assert (after.kind, after.meaning) == (before.kind, before.meaning)
    assert after.source == (mapping.address(CLIENT.host), CLIENT.port)
    assert after.destination == (mapping.address(SERVER.host), SERVER.port)
    assert after.sender == mapping.address(ROUTER)
    assert len(after.quoted) == len(before.quoted)
    if size >= 50:
        assert after.quoted[5:14] == b"\x08" + MAPPING.connection_id(DCID)
    assert not any(hidden in made[1].data for hidden in (CLIENT.host, SERVER.host, ROUTER, DCID, NAME))


def test_an_error_about_a_segment() -> None:
    """The sequence number, which tells what it is about, stays; the payload does not."""
    quoted = synthesis.tcp(CLIENT, SERVER, synthesis.Segment(0x18, 77, 88, b"password"))
    frames = [packets.frame(error(quoted), 101)]
    (after,) = facts(redacted(frames))
    assert isinstance(after, IcmpError)
    assert after.quoted[4:8] == (77).to_bytes(4)
    assert b"password" not in after.quoted
    assert len(after.quoted) == 28


def test_an_error_over_ipv6() -> None:
    """The same with ICMPv6, whose checksum covers the addresses."""
    quoted = synthesis.udp(CLIENT6, SERVER6, b"secret of some length")
    packet = packets.ipv6(struct.pack(">BBHI", 1, 4, 0, 0) + quoted, 58, source=SERVER6.host)
    mapping = Mapping(KEY)
    (made,) = redacted([packets.frame(packet, 101)], mapping)
    (after,) = facts([made])
    assert isinstance(after, IcmpError)
    assert after.source.host == mapping.address(CLIENT6.host)
    assert b"secret" not in made.data
    assert sums_are_right(made.data)


@pytest.mark.parametrize("kind", [0, 8])
def test_echoes(kind: int) -> None:
    """An echo keeps its number; what it carries is noise."""
    packet = packets.ipv4(struct.pack(">BBHHH", kind, 0, 0, 5, 6) + b"secret payload", 1)
    (made,) = redacted([packets.frame(packet, 101)])
    assert made.data[24:28] == b"\0\x05\0\x06"
    assert b"secret" not in made.data


def test_neighbour_discovery() -> None:
    """Targets, stations, prefixes and resolvers are replaced; options that are not known are empty."""
    options = b"\x01\x01" + STATIONS[0] + b"\x19\x03\0\0\0\0\0\x09" + NS_TARGET + b"\x26\x02" + b"SECRET-OPTION!"
    packet = packets.ipv6(b"\x87\0\0\0" + bytes(4) + NS_TARGET + options, 58, source=CLIENT6.host)
    mapping = Mapping(KEY)
    (made,) = redacted([packets.frame(packet, 101)], mapping)
    assert made.data.count(mapping.address(NS_TARGET)) == 2
    assert mapping.mac(STATIONS[0]) in made.data
    for hidden in (NS_TARGET, STATIONS[0], b"SECRET"):
        assert hidden not in made.data
    assert sums_are_right(made.data)


def test_an_authentication_header_that_is_quoted() -> None:
    """What stands between a quoted IPv4 header and its transport does not stay (RFC 4302)."""
    header = b"\x11\x04\0\0" + b"secret of 16 byt" + b"e" * 4
    made = redacted([packets.frame(error(packets.ipv4(header + bytes(8), 51)), 101)], Mapping(KEY))
    assert b"secret" not in made[0].data
