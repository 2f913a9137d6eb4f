from __future__ import annotations

import pytest

from h3probe.wire.link import network_layer
from tests.wire.link_frames import PACKET4, LinkFrame, assert_found, assert_never_misread

FRAMES = {
    "PPP": (9, b"\x00\x21", 4, None),
    "PPP with address and control": (9, b"\xff\x03\x00\x57", 6, None),
    "PPP with a compressed protocol": (9, b"\x21", 4, None),
    "PPP that carries MPLS": (9, b"\x02\x81\x00\x01\x01\x3f", 4, None),
    "PPP in HDLC": (50, b"\xff\x03\x00\x21", 4, None),
    "Cisco HDLC as PPP_SERIAL": (50, b"\x0f\x00\x08\x00", 4, None),
    "PPPoE without Ethernet": (51, bytes.fromhex("1100000100300021"), 4, None),
    "PPP with a direction": (204, b"\x01\xff\x03\x00\x21", 4, None),
    "Cisco HDLC": (104, b"\x8f\x00\x86\xdd", 6, None),
    "frame relay, NLPID": (107, b"\x18\x41\x03\xcc", 4, None),
    "frame relay, NLPID of IPv6": (107, b"\x18\x41\x03\x8e", 6, None),
    "frame relay, SNAP behind a pad": (107, b"\x18\x41\x03\x00\x80\0\0\0\x86\xdd", 6, None),
    "frame relay, Cisco": (107, b"\x18\x41\x08\x00", 4, None),
    "frame relay, address of four bytes": (107, b"\x18\x40\x40\x41\x03\xcc", 4, None),
    "PPP as pppd writes it": (166, b"\x01\x03\x00\x57", 6, None),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_finds_the_ip_header(frame: LinkFrame) -> None:
    """Each line's headers lead to the packet right behind them."""
    assert_found(frame)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_truncated_headers(frame: LinkFrame) -> None:
    """A frame cut anywhere inside its headers is reported as truncated, or found to hold no packet, never misread."""
    assert_never_misread(frame)


@pytest.mark.parametrize(
    ("link_type", "data"),
    [
        (107, b"\x18\x41\x03\x80\0\x80\xc2\0\7" + PACKET4),
        (9, b"\xc0\x21" + bytes(8)),
        (107, b"\x18\x41\x03\x81" + bytes(20)),
    ],
)
def test_names_no_version_for_other_protocols(link_type: int, data: bytes) -> None:
    """What carries something other than IP gives version 0."""
    assert network_layer(link_type, data)[0] == 0
