from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.vantage import synthesis
from h3probe.vantage.synthesis import ACK, FIN, PSH, SYN, Segment

IPV4 = Endpoint(bytes([10, 0, 0, 1]), 40000), Endpoint(bytes([10, 0, 0, 2]), 443)
IPV6 = Endpoint(bytes(15) + b"\x01", 40000), Endpoint(bytes(15) + b"\x02", 443)
BOTH = pytest.mark.parametrize("ends", [IPV4, IPV6], ids=["ipv4", "ipv6"])

endpoints = st.builds(Endpoint, st.binary(min_size=4, max_size=4), st.integers(0, 65535))


def ones_complement_sum(data: bytes) -> int:
    """The sum of RFC 1071, word by word."""
    total: int = sum(word for (word,) in struct.iter_unpack("!H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def transport(packet: bytes) -> tuple[int, bytes]:
    """The protocol and what the IP header carries, with lengths and checksums verified as a receiver does."""
    if packet[0] >> 4 == 4:
        assert packet[0] == 0x45
        assert int.from_bytes(packet[2:4]) == len(packet)
        assert ones_complement_sum(packet[:20]) == 0xFFFF
        protocol, content = packet[9], packet[20:]
        pseudo = packet[12:20] + struct.pack("!HH", protocol, len(content))
    else:
        assert packet[0] == 0x60
        assert int.from_bytes(packet[4:6]) == len(packet) - 40
        protocol, content = packet[6], packet[40:]
        pseudo = packet[8:40] + struct.pack("!II", len(content), protocol)
    assert ones_complement_sum((b"" if protocol == 1 else pseudo) + content) == 0xFFFF
    return protocol, content


@BOTH
def test_udp(ends: tuple[Endpoint, Endpoint]) -> None:
    """A datagram has its ports, its length, its payload and a right checksum."""
    protocol, content = transport(synthesis.udp(*ends, b"payload"))
    assert protocol == 17
    assert struct.unpack("!HHH", content[:6]) == (40000, 443, 15)
    assert content[8:] == b"payload"


@BOTH
def test_tcp_cut(ends: tuple[Endpoint, Endpoint]) -> None:
    """A segment whose payload is not at hand has the lengths of the whole one, and the checksum of zeros."""
    packet = synthesis.tcp(*ends, Segment(PSH | ACK, 5, 7, missing=1000))
    _, content = transport(packet + bytes(1000))
    assert content[20:] == bytes(1000)
    assert packet + bytes(1000) == synthesis.tcp(*ends, Segment(PSH | ACK, 5, 7, bytes(1000)))


@BOTH
def test_tcp(ends: tuple[Endpoint, Endpoint]) -> None:
    """A segment has its ports, numbers, flags and payload, and a right checksum."""
    protocol, content = transport(synthesis.tcp(*ends, Segment(PSH | ACK, 2**32 + 5, 7, b"payload")))
    assert protocol == 6
    assert struct.unpack("!HHIIBB", content[:14]) == (40000, 443, 5, 7, 0x50, 0x18)
    assert content[20:] == b"payload"


def test_no_acknowledgment_without_its_flag() -> None:
    """A SYN acknowledges nothing."""
    _, content = transport(synthesis.tcp(*IPV4, Segment(SYN, 1, 99)))
    assert content[8:12] == bytes(4)


@BOTH
@pytest.mark.parametrize("size", [0, 1, 548, 1232, 65000])
def test_port_unreachable(ends: tuple[Endpoint, Endpoint], size: int) -> None:
    """A refusal quotes the datagram from its first byte, and stays within the size of an ICMP error."""
    refused = synthesis.udp(*ends, b"q" * size)
    packet = synthesis.port_unreachable(ends[1], ends[0], refused)
    protocol, content = transport(packet)
    assert (protocol, content[0], content[1]) == ((1, 3, 3) if len(ends[0].host) == 4 else (58, 1, 4))
    assert refused.startswith(content[8:])
    limit = 576 if protocol == 1 else 1280
    assert len(packet) == min(limit, len(packet) - len(content[8:]) + len(refused))


@BOTH
def test_largest_datagram(ends: tuple[Endpoint, Endpoint]) -> None:
    """The largest datagram that the family has is made, and one byte more is refused."""
    largest = 65507 if len(ends[0].host) == 4 else 65527
    assert len(transport(synthesis.udp(*ends, bytes(largest)))[1]) == 8 + largest
    with pytest.raises(ValueError, match="more than a datagram"):
        synthesis.udp(*ends, bytes(largest + 1))


def test_largest_segment() -> None:
    """The largest segment fits IPv4's length field exactly."""
    packet = synthesis.tcp(*IPV4, Segment(ACK, 1, 1, bytes(synthesis.MAX_SEGMENT)))
    assert len(packet) == 65535
    transport(packet)


@given(endpoints, endpoints, st.binary(max_size=300))
def test_any_datagram_verifies(source: Endpoint, destination: Endpoint, payload: bytes) -> None:
    """Whatever is sent between whom, a receiver finds the checksums right, and never a zero one."""
    _, content = transport(synthesis.udp(source, destination, payload))
    assert content[6:8] != bytes(2)
    assert content[8:] == payload


def test_checksum_that_would_be_zero() -> None:
    """A UDP checksum that comes out as zero is sent as 0xffff, since zero means none (RFC 768)."""
    for guess in range(0x10000):
        packet = synthesis.udp(Endpoint(bytes(4), 0), Endpoint(bytes(4), 0), guess.to_bytes(2))
        if packet[26:28] == b"\xff\xff":
            transport(packet)
            return
    pytest.fail("no payload gives such a checksum")


@given(st.binary(min_size=1, max_size=200).filter(any))
def test_checksum_is_the_word_by_word_one(data: bytes) -> None:
    """The checksum by one division is that of RFC 1071's sum of words."""
    assert synthesis.checksum(data) == 0xFFFF - ones_complement_sum(data)


def test_fin_counts_as_flags_say() -> None:
    """Flags are written as they are given."""
    assert transport(synthesis.tcp(*IPV6, Segment(FIN | ACK, 1, 2)))[1][13] == 0x11
