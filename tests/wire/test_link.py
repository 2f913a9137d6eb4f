from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, EncryptedError, TruncatedError
from h3probe.wire.link import LINK_TYPE_NAMES, is_read, link_type_name, network_layer
from tests.wire.packets import STATION, ethernet, ipv4, ipv6, udp

PACKET4 = ipv4(udp())
PACKET6 = ipv6(udp())
SNAP = b"\xaa\xaa\x03\0\0\0\x08\x00"


def _u16(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}H", *numbers)


def _nflog(number: int, value: bytes) -> bytes:
    return struct.pack("<HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


FRAMES = {
    "ethernet": (1, ethernet(b""), 4, STATION),
    "one VLAN tag": (1, ethernet(_u16(7, 0x0800), 0x8100), 4, STATION),
    "QinQ": (1, ethernet(_u16(7, 0x8100, 8, 0x86DD), 0x88A8), 6, STATION),
    "three tags": (1, ethernet(_u16(7, 0x9100, 8, 0x8100, 9, 0x0800), 0x9100), 4, STATION),
    "two MPLS labels": (1, ethernet(bytes.fromhex("0001003f0002013f"), 0x8847), 4, STATION),
    "Ethernet over MPLS with a control word": (
        1,
        ethernet(bytes.fromhex("0001013f") + bytes(4) + ethernet(b""), 0x8847),
        4,
        STATION,
    ),
    "Ethernet over MPLS without one": (
        1,
        ethernet(bytes.fromhex("0001013f") + ethernet(_u16(7, 0x86DD), 0x8100), 0x8847),
        6,
        STATION,
    ),
    "HSR": (1, ethernet(_u16(100, 1, 0x0800), 0x892F), 4, STATION),
    "Cisco's metadata": (1, ethernet(_u16(0x0101, 1, 5, 0x0800), 0x8909), 4, STATION),
    "VN-Tag": (1, ethernet(_u16(0, 5, 0x86DD), 0x8926), 6, STATION),
    "a provider's backbone": (1, ethernet(bytes(4) + ethernet(_u16(7, 0x0800), 0x8100), 0x88E7), 4, STATION),
    "PPPoE": (1, ethernet(bytes.fromhex("110000010030") + _u16(0x0057), 0x8864), 6, STATION),
    "PPPoE in a VLAN": (1, ethernet(_u16(7, 0x8864) + bytes.fromhex("110000010030") + _u16(0x21), 0x8100), 4, STATION),
    "802.3 with SNAP": (1, ethernet(SNAP, 60), 4, STATION),
    "802.3 with IP's own SAP": (1, ethernet(b"\x06\x06\x03", 60), 4, STATION),
    "NULL little-endian": (0, struct.pack("<I", 2), 4, None),
    "NULL big-endian": (0, struct.pack(">I", 2), 4, None),
    "NULL, macOS IPv6": (0, struct.pack("<I", 30), 6, None),
    "NULL, FreeBSD IPv6": (0, struct.pack("<I", 28), 6, None),
    "LOOP": (108, struct.pack(">I", 24), 6, None),
    "RAW": (101, b"", 4, None),
    "RAW of OpenBSD": (14, b"", 6, None),
    "RAW of BSD": (12, b"", 4, None),
    "IPV4": (228, b"", 4, None),
    "IPV6": (229, b"", 6, None),
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
    "SLL": (113, _u16(4, 1, 6) + STATION + b"\0\0" + _u16(0x0800), 4, STATION),
    "SLL of a tunnel device": (113, _u16(0, 65534, 0) + bytes(8) + _u16(0x86DD), 6, None),
    "SLL with a VLAN tag": (113, _u16(4, 1, 6) + STATION + b"\0\0" + _u16(0x8100, 7, 0x0800), 4, STATION),
    "SLL with LLC": (113, _u16(0, 1, 6) + STATION + b"\0\0" + _u16(4) + SNAP, 4, STATION),
    "SLL2": (276, _u16(0x86DD, 0, 0, 3, 1) + b"\x00\x06" + STATION + b"\0\0", 6, STATION),
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
        b"\x88\x01\0\0" + b"A" * 6 + STATION + bytes(8) + b"\x80\0" + bytes(12) + _u16(99) + SNAP,
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
    "ENC of OpenBSD": (109, bytes(12), 6, None),
    "PFLOG": (117, b"\x3d\x02" + bytes(62), 4, None),
    "PPP as pppd writes it": (166, b"\x01\x03\x00\x57", 6, None),
    "Juniper, Ethernet": (178, b"MGC\x01" + ethernet(b""), 4, STATION),
    "Juniper, extensions": (178, b"MGC\x80" + _u16(3) + b"abc" + ethernet(b"", 0x86DD), 6, STATION),
    "Juniper, no Ethernet": (178, b"MGC\x02" + bytes(4), 4, None),
    "MPLS": (219, bytes.fromhex("0001003f0002013f"), 6, None),
    "IP over InfiniBand": (242, bytes(40) + _u16(0x0800, 0), 4, None),
    "Broadcom's switch tag": (281, ethernet(b"")[:12] + bytes(4) + _u16(0x0800), 4, STATION),
    "Broadcom's switch tag in front": (282, bytes(4) + ethernet(b""), 4, STATION),
    "Marvell's switch tag": (283, ethernet(b"")[:12] + bytes(4) + _u16(0x86DD), 6, STATION),
    "Marvell's switch tag with an EtherType": (284, ethernet(b"")[:12] + bytes(8) + _u16(0x0800), 4, STATION),
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


@pytest.mark.parametrize(("link_type", "header", "version", "station"), FRAMES.values(), ids=FRAMES)
def test_finds_the_ip_header(link_type: int, header: bytes, version: int, station: bytes | None) -> None:
    """Every link type and encapsulation leads to the packet right behind its headers, and to the sender's address."""
    data = header + (PACKET4 if version == 4 else PACKET6)
    assert network_layer(link_type, data) == (version, len(header), station)


@pytest.mark.parametrize(
    ("link_type", "data"),
    [
        (1, ethernet(bytes(28), 0x0806)),
        (1, ethernet(b"\xaa\xaa\x03\0\0\x0c\x20\0" + PACKET4, 60)),
        (107, b"\x18\x41\x03\x80\0\x80\xc2\0\7" + PACKET4),
        (1, ethernet(bytes.fromhex("42420300000000"), 38)),
        (1, ethernet(bytes.fromhex("0001013f00000000"), 0x8847)),
        (1, ethernet(bytes.fromhex("12000001003000210000"), 0x8864)),
        (1, ethernet(struct.pack(">HH", 7, 0x8100) * 40, 0x8100)),
        (0, struct.pack("<I", 7) + PACKET4),
        (9, b"\xc0\x21" + bytes(8)),
        (105, b"\x80\0" + bytes(40)),
        (105, b"\x48\0" + bytes(40)),
        (105, b"\x88\x01" + bytes(22) + b"\x80\0" + SNAP + PACKET4),
        (107, b"\x18\x41\x03\x81" + bytes(20)),
        (258, struct.pack("<III", 108, 0, 1) + bytes(200)),
        (258, struct.pack("<III", 12, 1, 258) + bytes(200)),
        (239, b"\x02\0\0\0" + _nflog(1, b"\x08\0\0\0") + bytes(4)),
        (101, b"\x00" + bytes(40)),
        (7777, PACKET4),
    ],
)
def test_names_no_version_for_other_protocols(link_type: int, data: bytes) -> None:
    """A frame that carries something other than IP, or that is unknown, gives version 0."""
    assert network_layer(link_type, data)[0] == 0


@pytest.mark.parametrize(("link_type", "header"), [(row[0], row[1]) for row in FRAMES.values()], ids=FRAMES)
def test_truncated_headers(link_type: int, header: bytes) -> None:
    """A frame cut anywhere inside its headers is reported as truncated, or found to hold no packet, never misread."""
    for cut in range(len(header)):
        try:
            _, offset, _ = network_layer(link_type, header[:cut])
        except TruncatedError:
            continue
        assert offset <= len(header)


@given(st.sampled_from(sorted(LINK_TYPE_NAMES)), st.binary(max_size=200))
def test_any_bytes(link_type: int, data: bytes) -> None:
    """Any bytes under any link type give a version of 0, 4 or 6, or a DecodeError."""
    try:
        version, offset, _ = network_layer(link_type, data)
    except DecodeError:
        return
    assert version in {0, 4, 6}
    assert offset >= 0


def test_names() -> None:
    """Link types have their usual short names, and unknown ones their number."""
    assert [link_type_name(n) for n in (0, 1, 9, 101, 113, 228, 229, 276)] == [
        "NULL",
        "EN10MB",
        "PPP",
        "RAW",
        "SLL",
        "IPV4",
        "IPV6",
        "SLL2",
    ]
    assert link_type_name(54321) == "LINKTYPE_54321"


def test_headers_inside_each_other_end() -> None:
    """LLC and VLAN tags inside each other, as many as a frame holds, are given up and not followed to the last."""
    nested = (SNAP[:6] + _u16(0x8100, 5, 100)) * 5000
    assert network_layer(1, ethernet(nested, 100))[0] == 0


def test_an_encrypted_802_11_frame_says_so() -> None:
    """A data frame with the Protected bit carries what nobody can read, which is told from carrying nothing."""
    with pytest.raises(EncryptedError, match=r"802\.11"):
        network_layer(105, b"\x08\x41" + bytes(60))


def test_link_types_that_are_read() -> None:
    """Ethernet is read; what only has a name is not."""
    assert is_read(1)
    assert not is_read(189)
    assert link_type_name(189) == "USB_LINUX"
