from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.wire.tunnels import TUNNEL_PORTS, unwrap_gre, unwrap_udp
from tests.wire.packets import ethernet, ipv4, ipv6, udp

INNER4 = ipv4(udp())
INNER6 = ipv6(udp())

GRE = {
    "IPv4": (b"\0\0\x08\0", 4),
    "IPv6": (b"\0\0\x86\xdd", 6),
    "checksum, key and sequence number": (b"\xb0\0\x08\0" + bytes(12), 4),
    "PPTP with acknowledgement": (b"\x30\x81\x88\x0b" + bytes(12) + b"\xff\x03\x00\x21", 4),
    "bridged Ethernet": (b"\0\0\x65\x58" + ethernet(b"", 0x86DD), 6),
    "MPLS": (b"\0\0\x88\x47\0\1\1\x3f", 4),
    "WCCP": (b"\0\0\x88\x3e", 4),
    "WCCP version 2": (b"\0\0\x88\x3e" + bytes(4), 4),
    "EoIP of MikroTik": (b"\x20\1\x64\0\0\x2a\5\0" + ethernet(b""), 4),
    "ERSPAN type I": (b"\0\0\x88\xbe" + ethernet(b""), 4),
    "ERSPAN type II": (b"\x10\0\x88\xbe" + bytes(4) + bytes(8) + ethernet(b""), 4),
    "ERSPAN type III": (b"\x10\0\x22\xeb" + bytes(4) + bytes(12) + ethernet(b""), 4),
    "ERSPAN type III, subheader": (b"\x10\0\x22\xeb" + bytes(4) + bytes(11) + b"\1" + bytes(8) + ethernet(b""), 4),
}

UDP_TUNNELS = {
    "GTP-U": (2152, b"\x30\xff" + struct.pack(">HI", len(INNER4), 9), 4),
    "GTP-U with a sequence number": (2152, b"\x32\xff" + struct.pack(">HI", len(INNER6) + 4, 9) + bytes(4), 6),
    "GTP-U with extension headers": (
        2152,
        b"\x34\xff" + struct.pack(">HI", len(INNER4) + 16, 9) + b"\0\0\0\x85\1\0\0\xc0\2\0\0\0\0\0\0\0",
        4,
    ),
    "VXLAN": (4789, b"\x08\0\0\0\0\0\x2a\0" + ethernet(b""), 4),
    "VXLAN with group policy": (4789, b"\x88\x40\x12\x34\0\0\x2a\0" + ethernet(b"", 0x86DD), 6),
    "VXLAN of a VLAN, old port": (8472, b"\x08\0\0\0\0\0\x2a\0" + ethernet(b"\0\1\x08\0", 0x8100), 4),
    "VXLAN-GPE, IPv4": (4790, b"\x0c\0\0\1\0\0\x2a\0", 4),
    "VXLAN-GPE, IPv6": (4790, b"\x0c\0\0\2\0\0\x2a\0", 6),
    "VXLAN-GPE, Ethernet": (4790, b"\x0c\0\0\3\0\0\x2a\0" + ethernet(b""), 4),
    "Geneve": (6081, b"\0\0\x65\x58\0\0\x2a\0" + ethernet(b""), 4),
    "Geneve with options": (6081, b"\2\x40\x86\xdd\0\0\x2a\0" + bytes(8), 6),
    "L2TP": (1701, b"\0\2\0\5\0\6\xff\3\0\x21", 4),
    "L2TP, everything there is": (1701, b"\x4a\2\0\x63\0\5\0\6\0\1\0\1\0\2xx\0\x57", 6),
    "MPLS": (6635, bytes.fromhex("0001003f0002013f"), 4),
    "MPLS, IPv6": (6635, bytes.fromhex("0001013f"), 6),
    "TZSP": (37008, b"\1\0\0\1\0\x0a\1\x99\1" + ethernet(b""), 4),
    "Teredo": (3544, b"", 6),
    "Teredo with authentication and origin": (3544, b"\0\1\2\3" + bytes(5 + 9) + b"\0\0" + bytes(6), 6),
}


@pytest.mark.parametrize(("header", "version"), GRE.values(), ids=GRE)
def test_gre(header: bytes, version: int) -> None:
    """GRE in all its forms leads to the IP packet inside."""
    data = b"outer" + header + (INNER4 if version == 4 else INNER6)
    assert unwrap_gre(data, 5, len(data)) == (version, 5 + len(header))


@pytest.mark.parametrize(
    "data", [b"", b"\x40\0\x08\0" + bytes(40), b"\0\0\x08\x06" + bytes(28), b"\x10\0\x65\x58" + bytes(9)]
)
def test_gre_with_nothing_to_follow(data: bytes) -> None:
    """Source routing, other protocols and cut headers give nothing."""
    assert unwrap_gre(data, 0, len(data)) is None


@pytest.mark.parametrize(("port", "header", "version"), UDP_TUNNELS.values(), ids=UDP_TUNNELS)
def test_udp_tunnels(port: int, header: bytes, version: int) -> None:
    """Each tunnel over UDP is opened in both directions, also where a snaplen cut what it carries."""
    payload = header + (INNER4 if version == 4 else INNER6)
    inner = (version, len(header))
    assert unwrap_udp(50000, port, payload, len(payload)) == inner
    assert unwrap_udp(port, 50000, payload, len(payload)) == inner
    assert unwrap_udp(50000, port, payload[: len(header) + 24], len(payload)) == inner


@pytest.mark.parametrize(("port", "header", "version"), UDP_TUNNELS.values(), ids=UDP_TUNNELS)
def test_udp_tunnels_must_hold_a_packet(port: int, header: bytes, version: int) -> None:
    """Without an IP packet that its lengths allow there is no tunnel, whatever the port."""
    packet = INNER4 if version == 4 else INNER6
    assert unwrap_udp(50000, port, header + packet[:-1], len(header + packet) - 1) is None
    assert unwrap_udp(50000, port, header + b"\x15" + packet[1:], len(header + packet)) is None
    assert unwrap_udp(50000, port, header, len(header)) is None
    assert unwrap_udp(50000, 443, header + packet, len(header + packet)) is None


@pytest.mark.parametrize("port", TUNNEL_PORTS)
def test_quic_on_a_tunnel_s_port_stays_quic(port: int) -> None:
    """A client whose ephemeral port happens to be a tunnel's is not misread: no QUIC packet looks like one."""
    for first in (0xC0, 0x40, 0x5A, 0x60, 0x7F):
        payload = bytes([first]) + b"\0\0\0\1\x08" + bytes(1194)
        assert unwrap_udp(port, 443, payload, len(payload)) is None


def test_gtp_extension_header_of_length_zero() -> None:
    """An extension header without a length ends the attempt instead of repeating it for ever."""
    payload = b"\x34\xff\x00\x40" + bytes(4) + b"\0\0\0\x85" + bytes(60)
    assert unwrap_udp(2152, 2152, payload, len(payload)) is None


@given(st.sampled_from(sorted(TUNNEL_PORTS)), st.binary(max_size=120), st.integers(0, 50))
def test_any_bytes(port: int, payload: bytes, missing: int) -> None:
    """Any bytes give a packet's place within them, or nothing."""
    inner = unwrap_udp(port, port, payload, len(payload) + missing)
    assert inner is None or (inner[0] in {4, 6} and inner[1] < len(payload))
    inner = unwrap_gre(payload, 0, len(payload))
    assert inner is None or inner[0] in {4, 6}
