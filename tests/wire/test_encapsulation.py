from __future__ import annotations

import struct

import pytest

from h3probe.wire.link import network_layer
from tests.wire.link_frames import PACKET4, SNAP, LinkFrame, assert_found, assert_never_misread, u16
from tests.wire.packets import STATION, ethernet

FRAMES = {
    "ethernet": (1, ethernet(b""), 4, STATION),
    "one VLAN tag": (1, ethernet(u16(7, 0x0800), 0x8100), 4, STATION),
    "QinQ": (1, ethernet(u16(7, 0x8100, 8, 0x86DD), 0x88A8), 6, STATION),
    "three tags": (1, ethernet(u16(7, 0x9100, 8, 0x8100, 9, 0x0800), 0x9100), 4, STATION),
    "two MPLS labels": (1, ethernet(bytes.fromhex("0001003f0002013f"), 0x8847), 4, STATION),
    "Ethernet over MPLS with a control word": (
        1,
        ethernet(bytes.fromhex("0001013f") + bytes(4) + ethernet(b""), 0x8847),
        4,
        STATION,
    ),
    "Ethernet over MPLS without one": (
        1,
        ethernet(bytes.fromhex("0001013f") + ethernet(u16(7, 0x86DD), 0x8100), 0x8847),
        6,
        STATION,
    ),
    "HSR": (1, ethernet(u16(100, 1, 0x0800), 0x892F), 4, STATION),
    "Cisco's metadata": (1, ethernet(u16(0x0101, 1, 5, 0x0800), 0x8909), 4, STATION),
    "VN-Tag": (1, ethernet(u16(0, 5, 0x86DD), 0x8926), 6, STATION),
    "a provider's backbone": (1, ethernet(bytes(4) + ethernet(u16(7, 0x0800), 0x8100), 0x88E7), 4, STATION),
    "PPPoE": (1, ethernet(bytes.fromhex("110000010030") + u16(0x0057), 0x8864), 6, STATION),
    "PPPoE in a VLAN": (1, ethernet(u16(7, 0x8864) + bytes.fromhex("110000010030") + u16(0x21), 0x8100), 4, STATION),
    "a service header": (1, ethernet(bytes.fromhex("0fc2020100000aff"), 0x894F), 4, STATION),
    "one with metadata": (1, ethernet(bytes.fromhex("0fc6010200000aff") + bytes(16), 0x894F), 6, STATION),
    "Ethernet behind a service header": (
        1,
        ethernet(bytes.fromhex("0fc2020300000aff") + ethernet(b"", 0x86DD), 0x894F),
        6,
        STATION,
    ),
    "MACsec in the clear": (1, ethernet(bytes.fromhex("000000000001") + u16(0x0800), 0x88E5), 4, STATION),
    "MACsec with a channel": (1, ethernet(b"\x20" + bytes(13) + u16(0x8100, 7, 0x86DD), 0x88E5), 6, STATION),
    "802.3 with SNAP": (1, ethernet(SNAP, 60), 4, STATION),
    "802.3 with IP's own SAP": (1, ethernet(b"\x06\x06\x03", 60), 4, STATION),
    "RAW": (101, b"", 4, None),
    "RAW of OpenBSD": (14, b"", 6, None),
    "RAW of BSD": (12, b"", 4, None),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_finds_the_ip_header(frame: LinkFrame) -> None:
    """Tags, labels and encapsulations lead to the packet right behind them, and to the sender's address."""
    assert_found(frame)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_truncated_headers(frame: LinkFrame) -> None:
    """A frame cut anywhere inside its headers is reported as truncated, or found to hold no packet, never misread."""
    assert_never_misread(frame)


@pytest.mark.parametrize(
    ("link_type", "data"),
    [
        (1, ethernet(bytes(28), 0x0806)),
        (1, ethernet(b"\xaa\xaa\x03\0\0\x0c\x20\0" + PACKET4, 60)),
        (1, ethernet(bytes.fromhex("42420300000000"), 38)),
        (1, ethernet(bytes.fromhex("0001013f00000000"), 0x8847)),
        (1, ethernet(bytes.fromhex("12000001003000210000"), 0x8864)),
        (1, ethernet(struct.pack(">HH", 7, 0x8100) * 40, 0x8100)),
        (101, b"\x00" + bytes(40)),
    ],
)
def test_names_no_version_for_other_protocols(link_type: int, data: bytes) -> None:
    """What carries something other than IP gives version 0."""
    assert network_layer(link_type, data)[0] == 0


def test_headers_inside_each_other_end() -> None:
    """LLC and VLAN tags inside each other, as many as a frame holds, are given up and not followed to the last."""
    nested = (SNAP[:6] + u16(0x8100, 5, 100)) * 5000
    assert network_layer(1, ethernet(nested, 100))[0] == 0
