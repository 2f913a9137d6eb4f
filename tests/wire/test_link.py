from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.wire.link import is_read, network_layer
from h3probe.wire.link_names import LINK_TYPE_NAMES
from tests.wire.link_frames import PACKET4, SNAP, LinkFrame, assert_found, assert_never_misread, u16
from tests.wire.packets import STATION, ethernet


def _nflog(number: int, value: bytes) -> bytes:
    return struct.pack("<HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


FRAMES = {
    "NULL little-endian": (0, struct.pack("<I", 2), 4, None),
    "NULL big-endian": (0, struct.pack(">I", 2), 4, None),
    "NULL, macOS IPv6": (0, struct.pack("<I", 30), 6, None),
    "NULL, FreeBSD IPv6": (0, struct.pack("<I", 28), 6, None),
    "LOOP": (108, struct.pack(">I", 24), 6, None),
    "IPV4": (228, b"", 4, None),
    "IPV6": (229, b"", 6, None),
    "SLL": (113, u16(4, 1, 6) + STATION + b"\0\0" + u16(0x0800), 4, STATION),
    "SLL of a tunnel device": (113, u16(0, 65534, 0) + bytes(8) + u16(0x86DD), 6, None),
    "SLL with a VLAN tag": (113, u16(4, 1, 6) + STATION + b"\0\0" + u16(0x8100, 7, 0x0800), 4, STATION),
    "SLL with LLC": (113, u16(0, 1, 6) + STATION + b"\0\0" + u16(4) + SNAP, 4, STATION),
    "SLL2": (276, u16(0x86DD, 0, 0, 3, 1) + b"\x00\x06" + STATION + b"\0\0", 6, STATION),
    "ENC of OpenBSD": (109, bytes(12), 6, None),
    "PFLOG": (117, b"\x3d\x02" + bytes(62), 4, None),
    "Juniper, Ethernet": (178, b"MGC\x01" + ethernet(b""), 4, STATION),
    "Juniper, extensions": (178, b"MGC\x80" + u16(3) + b"abc" + ethernet(b"", 0x86DD), 6, STATION),
    "Juniper, no Ethernet": (178, b"MGC\x02" + bytes(4), 4, None),
    "MPLS": (219, bytes.fromhex("0001003f0002013f"), 6, None),
    "IP over InfiniBand": (242, bytes(40) + u16(0x0800, 0), 4, None),
    "Broadcom's switch tag": (281, ethernet(b"")[:12] + bytes(4) + u16(0x0800), 4, STATION),
    "Broadcom's switch tag in front": (282, bytes(4) + ethernet(b""), 4, STATION),
    "Marvell's switch tag": (283, ethernet(b"")[:12] + bytes(4) + u16(0x86DD), 6, STATION),
    "Marvell's switch tag with an EtherType": (284, ethernet(b"")[:12] + bytes(8) + u16(0x0800), 4, STATION),
    "PPI": (192, struct.pack("<BBHI", 0, 0, 8, 1) + ethernet(b""), 4, STATION),
    "PKTAP": (258, struct.pack("<III", 108, 1, 1) + bytes(96) + ethernet(b"", 0x86DD), 6, STATION),
    "PKTAP as written by macOS": (149, struct.pack("<III", 108, 1, 0) + bytes(96) + struct.pack("<I", 2), 4, None),
    "NFLOG": (
        239,
        b"\x02\0\0\0"
        + _nflog(1, b"\x08\0\0\0")
        + _nflog(8, b"\0\x06\0\0" + STATION + b"\0\0")
        + struct.pack("<HH", 99, 9),
        4,
        STATION,
    ),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_finds_the_ip_header(frame: LinkFrame) -> None:
    """Every link type leads to the packet right behind its headers, and to the sender's address."""
    assert_found(frame)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_truncated_headers(frame: LinkFrame) -> None:
    """A frame cut anywhere inside its headers is reported as truncated, or found to hold no packet, never misread."""
    assert_never_misread(frame)


@pytest.mark.parametrize(
    ("link_type", "data"),
    [
        (0, struct.pack("<I", 7) + PACKET4),
        (258, struct.pack("<III", 108, 0, 1) + bytes(200)),
        (258, struct.pack("<III", 12, 1, 258) + bytes(200)),
        (239, b"\x02\0\0\0" + _nflog(1, b"\x08\0\0\0") + bytes(4)),
        (7777, PACKET4),
    ],
)
def test_names_no_version_for_other_protocols(link_type: int, data: bytes) -> None:
    """A frame that carries something other than IP, or that is unknown, gives version 0."""
    assert network_layer(link_type, data)[0] == 0


@given(st.sampled_from(sorted(LINK_TYPE_NAMES)), st.binary(max_size=200))
def test_any_bytes(link_type: int, data: bytes) -> None:
    """Any bytes under any link type give a version of 0, 4 or 6, or a DecodeError."""
    try:
        version, offset, _ = network_layer(link_type, data)
    except DecodeError:
        return
    assert version in {0, 4, 6}
    assert offset >= 0


def test_link_types_that_are_read() -> None:
    """Ethernet is read; what only has a name is not."""
    assert is_read(1)
    assert not is_read(189)
