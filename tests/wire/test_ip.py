from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire.ip import Fragment, IpPacket, parse_ipv4, parse_ipv6
from tests.wire.packets import DESTINATION4, DESTINATION6, SOURCE4, SOURCE6, ipv4, ipv6, udp

UDP_HEADER_AND_DATA = 12


def _parse4(data: bytes, wire: int | None = None) -> IpPacket:
    return parse_ipv4(data, 0, len(data), len(data) if wire is None else wire)


def _parse6(data: bytes, wire: int | None = None) -> IpPacket:
    return parse_ipv6(data, 0, len(data), len(data) if wire is None else wire)


def _extension(following: int, units: int = 0) -> bytes:
    return bytes([following, units]) + bytes(6 + 8 * units)


def test_ipv4() -> None:
    """A plain IPv4 header gives addresses, protocol, and the place of its payload."""
    assert _parse4(ipv4(udp())) == IpPacket(SOURCE4, DESTINATION4, 17, 20, 32, UDP_HEADER_AND_DATA, None)


def test_ipv4_options_are_skipped() -> None:
    """The payload begins behind the options."""
    assert _parse4(ipv4(udp(), options=b"\x94\x04\0\0\1\1\1\1")).start == 28


def test_ipv4_ends_where_its_length_says() -> None:
    """Ethernet's padding is not part of the packet."""
    assert _parse4(ipv4(udp()) + bytes(14)).end == 32


def test_ipv4_total_length_zero_reaches_to_the_frame_s_end() -> None:
    """A segment captured before its offloaded segmentation has no length, and takes all of the frame."""
    packet = _parse4(ipv4(bytes(3000), 6, total=0), wire=5020)
    assert (packet.end, packet.length) == (3020, 5000)


def test_ipv4_cut_by_a_snaplen_keeps_its_length() -> None:
    """What was on the wire is told apart from what was captured."""
    packet = parse_ipv4(ipv4(bytes(1000))[:128], 0, 128, 1020)
    assert (packet.end, packet.length) == (128, 1000)


def test_ipv4_longer_than_its_frame_is_cut_to_it() -> None:
    """A total length beyond the frame on the wire makes nobody wait for bytes that never were."""
    assert _parse4(ipv4(bytes(12), total=4148)).length == 12


def test_ipv4_fragment() -> None:
    """Offsets are in bytes, and the flag DF alone makes no fragment."""
    assert _parse4(ipv4(bytes(8), identification=7, fragment=0x2000 | 185)).fragment == Fragment(7, 1480, more=True)
    assert _parse4(ipv4(bytes(8), identification=7, fragment=1)).fragment == Fragment(7, 8, more=False)
    assert _parse4(ipv4(udp(), fragment=0x4000)).fragment is None


def test_ipv4_authentication_header() -> None:
    """The transport is found behind an authentication header."""
    header = b"\x11\x04" + bytes(22)
    packet = _parse4(ipv4(header + udp(), 51))
    assert (packet.protocol, packet.start, packet.length) == (17, 44, UDP_HEADER_AND_DATA)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ipv4(b"")[:19],
        b"\x44" + ipv4(b"")[1:],
        b"\x65" + ipv4(b"")[1:],
        ipv4(bytes(8), total=19),
        b"\x4f" + ipv4(bytes(8))[1:],
    ],
    ids=["empty", "19 bytes", "header of 16 bytes", "version 6", "total below the header", "options beyond the end"],
)
def test_ipv4_malformed(data: bytes) -> None:
    """A header that contradicts itself or its frame is an error."""
    with pytest.raises(DecodeError):
        _parse4(data)


def test_ipv6() -> None:
    """A plain IPv6 header gives addresses, protocol, and the place of its payload, without what follows it."""
    assert _parse6(ipv6(udp()) + bytes(5)) == IpPacket(
        SOURCE6, DESTINATION6, 17, 40, 40 + UDP_HEADER_AND_DATA, UDP_HEADER_AND_DATA, None
    )


def test_ipv6_extension_headers() -> None:
    """Hop-by-hop, routing, destination options, mobility and authentication headers are walked to the transport."""
    chain = _extension(43) + _extension(60, 1) + _extension(135) + _extension(51) + b"\x06\x01" + bytes(10)
    packet = _parse6(ipv6(chain + bytes(20), 0))
    assert (packet.protocol, packet.start, packet.length) == (6, 40 + len(chain), 20)


def test_ipv6_fragment() -> None:
    """A fragment header ends the walk and gives the place of the part."""
    header = struct.pack(">BBHI", 17, 0, 1448 | 1, 0xDEADBEEF)
    packet = _parse6(ipv6(_extension(44) + header + bytes(16), 60))
    assert packet.fragment == Fragment(0xDEADBEEF, 1448, more=True)
    assert (packet.protocol, packet.start, packet.length) == (17, 56, 16)


def test_ipv6_atomic_fragment() -> None:
    """A whole packet behind a fragment header is no fragment (RFC 6946)."""
    packet = _parse6(ipv6(struct.pack(">BBHI", 60, 0, 0, 9) + _extension(17) + udp(), 44))
    assert (packet.fragment, packet.protocol, packet.start) == (None, 17, 56)


def test_ipv6_jumbogram() -> None:
    """A payload length of zero reaches to the frame's end."""
    packet = _parse6(ipv6(bytes(70000), 6, length=0))
    assert (packet.end, packet.length) == (70040, 70000)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ipv6(b"")[:39],
        b"\x45" + ipv6(b"")[1:],
        ipv6(_extension(17)[:7], 0),
        ipv6(_extension(17, 9)[:40], 0),
    ],
    ids=["empty", "39 bytes", "version 4", "extension of 7 bytes", "extension beyond the end"],
)
def test_ipv6_malformed(data: bytes) -> None:
    """A header chain that its packet does not hold is an error."""
    with pytest.raises(DecodeError):
        _parse6(data)


def test_extension_header_cut_by_a_snaplen_is_truncated() -> None:
    """A chain whose end was not captured is told apart from a malformed one."""
    data = ipv6(_extension(17, 4) + udp(), 0)[:60]
    with pytest.raises(TruncatedError):
        _parse6(data, wire=200)


@given(st.binary(max_size=120), st.integers(0, 40))
def test_any_bytes(data: bytes, cut: int) -> None:
    """Any bytes give a packet that lies within them, or a DecodeError."""
    for first, parse in ((0x45, parse_ipv4), (0x60, parse_ipv6)):
        packed = bytes([first]) + data
        try:
            packet = parse(packed, 0, len(packed), len(packed) + cut)
        except DecodeError:
            continue
        assert packet.start <= packet.end <= len(packed)
        assert packet.length >= packet.end - packet.start
