from __future__ import annotations

import struct

import pytest

from h3probe.errors import EncryptedError
from h3probe.wire.link import network_layer
from tests.wire.link_frames import PACKET4, SNAP, LinkFrame, assert_found, assert_never_misread, u16
from tests.wire.packets import STATION

FRAMES = {
    "802.11 to the access point": (105, b"\x08\x01\0\0" + b"A" * 6 + STATION + b"C" * 6 + b"\0\0" + SNAP, 4, STATION),
    "802.11 from it, QoS": (105, b"\x88\x02\0\0" + b"A" * 12 + STATION + bytes(4) + SNAP, 4, STATION),
    "802.11 between two": (105, b"\x08\x03\0\0" + b"A" * 18 + b"\0\0" + STATION + SNAP, 4, STATION),
    "radiotap": (127, b"\0\0\x08\0\0\0\0\0\x08\0\0\0" + b"A" * 6 + STATION + bytes(8) + SNAP, 4, STATION),
    "radiotap, padded": (
        127,
        b"\0\0\x19\0\x03\0\0\x80\0\0\0\0" + bytes(12) + b"\x20" + b"\x88\0\0\0" + b"A" * 6 + STATION + bytes(12) + SNAP,
        4,
        STATION,
    ),
    "802.11, the first of an A-MSDU": (
        105,
        b"\x88\x01\0\0" + b"A" * 6 + STATION + bytes(8) + b"\x80\0" + bytes(12) + u16(99) + SNAP,
        4,
        STATION,
    ),
    "Prism": (
        119,
        struct.pack("<II", 0x44, 16) + bytes(8) + b"\x08\x01\0\0" + b"A" * 6 + STATION + bytes(8) + SNAP,
        4,
        STATION,
    ),
    "AVS as Prism": (
        119,
        struct.pack(">II", 0x80211001, 16) + bytes(8) + b"\x08\x01\0\0" + b"A" * 6 + STATION + bytes(8) + SNAP,
        4,
        STATION,
    ),
    "AVS": (
        163,
        struct.pack(">II", 0x80211001, 16) + bytes(8) + b"\x08\x01\0\0" + b"A" * 6 + STATION + bytes(8) + SNAP,
        4,
        STATION,
    ),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_finds_the_ip_header(frame: LinkFrame) -> None:
    """Each kind of frame leads to the packet right behind its headers, and to the station that sent it."""
    assert_found(frame)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_truncated_headers(frame: LinkFrame) -> None:
    """A frame cut anywhere inside its headers is reported as truncated, or found to hold no packet, never misread."""
    assert_never_misread(frame)


@pytest.mark.parametrize(
    ("link_type", "data"),
    [
        (105, b"\x80\0" + bytes(40)),
        (105, b"\x48\0" + bytes(40)),
        (105, b"\x88\x01" + bytes(22) + b"\x80\0" + SNAP + PACKET4),
    ],
)
def test_names_no_version_for_other_protocols(link_type: int, data: bytes) -> None:
    """What carries something other than IP gives version 0."""
    assert network_layer(link_type, data)[0] == 0


def test_an_encrypted_802_11_frame_says_so() -> None:
    """A data frame with the Protected bit carries what nobody can read, which is told from carrying nothing."""
    with pytest.raises(EncryptedError, match=r"802\.11"):
        network_layer(105, b"\x08\x41" + bytes(60))
