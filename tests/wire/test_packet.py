from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.wire.link_names import LINK_TYPE_NAMES
from h3probe.wire.packet import ACK, PSH, IcmpError, PacketDecoder, TcpSegment, UdpDatagram
from tests.wire.packets import (
    DESTINATION4,
    DESTINATION6,
    SECOND,
    SOURCE4,
    SOURCE6,
    STATION,
    ethernet,
    frame,
    ipv4,
    ipv6,
    tcp,
    udp,
)

CLIENT4, SERVER4 = Endpoint(SOURCE4, 50000), Endpoint(DESTINATION4, 443)
CLIENT6, SERVER6 = Endpoint(SOURCE6, 50000), Endpoint(DESTINATION6, 443)
INNER = ipv4(udp(b"inside"))


def test_udp() -> None:
    """A datagram becomes a fact with its frame, time, ends, payload and station."""
    decoder = PacketDecoder()
    fact = decoder.decode(frame(ethernet(ipv4(udp(b"hello"))), number=7))
    assert fact == UdpDatagram(7, SECOND, CLIENT4, SERVER4, b"hello", 5, STATION)
    assert (decoder.malformed, decoder.ignored, decoder.fragments_dropped) == (0, 0, 0)
    assert decoder.link_types == {1}


def test_tcp() -> None:
    """A segment becomes a fact with its numbers and flags."""
    fact = PacketDecoder().decode(frame(ipv6(tcp(b"hello"), 6), 101))
    assert fact == TcpSegment(1, SECOND, CLIENT6, SERVER6, 1000, 2000, PSH | ACK, b"hello", 5, None)


def test_icmp() -> None:
    """An ICMP error becomes a fact that names who sent it, to whom, and about which packet."""
    message = b"\x03\x03" + bytes(6) + ipv4(udp(b"hello"))
    fact = PacketDecoder().decode(frame(ethernet(ipv4(message, 1, source=DESTINATION4))))
    assert isinstance(fact, IcmpError)
    assert (fact.sender, fact.kind, fact.meaning) == (DESTINATION4, "port-unreachable", "port unreachable")
    assert (fact.source, fact.destination, fact.quoted) == (CLIENT4, SERVER4, b"hello")
    assert (fact.protocol, fact.station) == (17, STATION)


def test_icmp_of_the_other_ip_version_is_malformed() -> None:
    """ICMPv6 inside IPv4 says nothing about anything."""
    decoder = PacketDecoder()
    assert decoder.decode(frame(ipv4(b"\x01\x04" + bytes(6) + ipv6(udp()), 58), 101)) is None
    assert decoder.malformed == 1


def test_snaplen() -> None:
    """A datagram cut by a snaplen keeps its length."""
    data = ethernet(ipv4(udp(bytes(1200))))
    fact = PacketDecoder().decode(frame(data[:128], length=len(data)))
    assert isinstance(fact, UdpDatagram)
    assert (len(fact.payload), fact.length) == (128 - 42, 1200)


def test_segmentation_offload() -> None:
    """A segment without an IP length reaches to the end of its frame."""
    data = ethernet(ipv4(tcp(bytes(70000)), 6, total=0))
    fact = PacketDecoder().decode(frame(data[:200], length=len(data)))
    assert isinstance(fact, TcpSegment)
    assert (len(fact.payload), fact.length) == (200 - 54, 70000)


def test_ethernet_padding_is_no_payload() -> None:
    """The padding of a short frame is not taken for data."""
    fact = PacketDecoder().decode(frame(ethernet(ipv4(tcp(b""), 6)) + bytes(6)))
    assert isinstance(fact, TcpSegment)
    assert (fact.payload, fact.length) == (b"", 0)


TUNNELLED = {
    "IP in IP": ipv4(INNER, 4),
    "6in4": ipv4(ipv6(udp(b"inside")), 41),
    "4in6": ipv6(INNER, 4),
    "GRE": ipv4(b"\0\0\x08\0" + INNER, 47),
    "GRE in GRE": ipv6(b"\0\0\x08\0" + ipv4(b"\0\0\x08\0" + INNER, 47), 47),
    "EtherIP": ipv4(b"\x30\0" + ethernet(INNER), 97),
    "GTP-U": ipv4(udp(b"\x30\xff" + struct.pack(">HI", len(INNER), 9) + INNER, 2152, 2152)),
    "VXLAN": ipv4(udp(b"\x08\0\0\0\0\0\x2a\0" + ethernet(INNER), 50001, 4789)),
    "Teredo": ipv4(udp(ipv6(udp(b"inside")), 50001, 3544)),
}


@pytest.mark.parametrize("packet", TUNNELLED.values(), ids=TUNNELLED)
def test_tunnels(packet: bytes) -> None:
    """What a tunnel carries is the fact, with the station of the outer frame."""
    fact = PacketDecoder().decode(frame(ethernet(packet, 0x0800 if packet[0] == 0x45 else 0x86DD)))
    assert isinstance(fact, UdpDatagram)
    assert (fact.payload, fact.source.port, fact.destination.port) == (b"inside", 50000, 443)
    assert fact.station == STATION


def test_tunnel_cut_by_a_snaplen() -> None:
    """A datagram inside a tunnel keeps its length too."""
    packet = ipv4(b"\0\0\x08\0" + ipv4(udp(bytes(1000))), 47)
    fact = PacketDecoder().decode(frame(packet[:100], 101, length=len(packet)))
    assert isinstance(fact, UdpDatagram)
    assert (len(fact.payload), fact.length) == (100 - 52, 1000)


def test_a_tunnel_s_port_without_a_tunnel() -> None:
    """A datagram on a tunnel's port that carries something else is given as it is."""
    fact = PacketDecoder().decode(frame(ipv4(udp(b"\xc0" + bytes(1199), 4789)), 101))
    assert isinstance(fact, UdpDatagram)
    assert (fact.source.port, fact.length) == (4789, 1200)


def test_tunnel_depth_is_limited() -> None:
    """Packets packed into each other without end are malformed."""
    packet = INNER
    for _ in range(8):
        packet = ipv4(packet, 4)
    decoder = PacketDecoder()
    assert decoder.decode(frame(packet, 101)) is not None
    assert decoder.decode(frame(ipv4(packet, 4), 101)) is None
    assert decoder.malformed == 1


def test_fragments() -> None:
    """A fragmented datagram is a fact of the frame that completed it, in whatever order its parts came."""
    whole = udp(bytes(range(250)) * 10)
    decoder = PacketDecoder()
    last = frame(ethernet(ipv4(whole[1480:], fragment=185)), number=1)
    first = frame(ethernet(ipv4(whole[:1480], fragment=0x2000)), number=2, time_ns=2 * SECOND)
    assert decoder.decode(last) is None
    fact = decoder.decode(first)
    assert fact == UdpDatagram(2, 2 * SECOND, CLIENT4, SERVER4, whole[8:], 2500, STATION)


def test_fragments_over_ipv6_with_extension_headers() -> None:
    """Extension headers in the fragmented part are walked once it is whole."""
    whole = bytes([6, 0]) + bytes(6) + tcp(bytes(100))
    decoder = PacketDecoder()
    first = ipv6(struct.pack(">BBHI", 60, 0, 0 | 1, 5) + whole[:64], 44)
    second = ipv6(struct.pack(">BBHI", 60, 0, 64, 5) + whole[64:], 44)
    assert decoder.decode(frame(first, 101)) is None
    fact = decoder.decode(frame(second, 101))
    assert isinstance(fact, TcpSegment)
    assert (fact.source, fact.payload) == (CLIENT6, bytes(100))


def test_fragmented_tunnel() -> None:
    """A tunnel whose outer packet was fragmented is opened when it is whole."""
    decoder = PacketDecoder()
    outer = b"\0\0\x08\0" + ipv4(udp(bytes(100)))
    assert decoder.decode(frame(ipv4(outer[:64], 47, fragment=0x2000), 101)) is None
    fact = decoder.decode(frame(ipv4(outer[64:], 47, fragment=8), 101))
    assert isinstance(fact, UdpDatagram)
    assert fact.payload == bytes(100)


def test_a_fragment_of_a_fragment_is_malformed() -> None:
    """A packet put together must not be a fragment again."""
    decoder = PacketDecoder()
    inner = struct.pack(">BBHI", 17, 0, 1, 6) + bytes(8)
    assert decoder.decode(frame(ipv6(struct.pack(">BBHI", 44, 0, 1, 5) + inner[:8], 44), 101)) is None
    assert decoder.decode(frame(ipv6(struct.pack(">BBHI", 44, 0, 8, 5) + inner[8:], 44), 101)) is None
    assert decoder.malformed == 1


def test_dropped_fragments_are_counted() -> None:
    """Fragments that contradict each other are counted apart from malformed frames."""
    decoder = PacketDecoder()
    for _ in range(2):
        decoder.decode(frame(ipv4(b"", fragment=0x2000), 101))
    assert (decoder.fragments_dropped, decoder.malformed) == (2, 0)


@pytest.mark.parametrize(
    ("data", "link_type"),
    [
        (ethernet(bytes(28), 0x0806), 1),
        (ipv4(bytes(20), 132), 101),
        (ipv6(b"", 59), 101),
        (ipv4(b"\x08\0" + bytes(30), 1), 101),
        (ipv4(b"\0\0\x08\x06" + bytes(28), 47), 101),
        (ipv4(b"\x30\0" + ethernet(bytes(28), 0x0806), 97), 101),
        (bytes(40), 220),
    ],
    ids=["ARP", "SCTP", "no next header", "echo", "ARP in GRE", "ARP in EtherIP", "USB"],
)
def test_ignored(data: bytes, link_type: int) -> None:
    """Protocols that are not followed here are counted as ignored."""
    decoder = PacketDecoder()
    assert decoder.decode(frame(data, link_type)) is None
    assert (decoder.ignored, decoder.malformed) == (1, 0)


@pytest.mark.parametrize(
    ("data", "link_type", "what"),
    [
        (bytes(40), 220, "frames of link type USB_LINUX_MMAPPED"),
        (b"\x08\x41" + bytes(60), 105, "802.11 frames with encryption"),
        (ethernet(b"\x0c" + bytes(60), 0x88E5), 1, "MACsec frames with encryption"),
        (ipv4(bytes(40), 50), 101, "packets inside IPsec (ESP)"),
    ],
)
def test_closed(data: bytes, link_type: int, what: str) -> None:
    """What may carry TCP or UDP and cannot be looked into is counted by what it is, and is not malformed."""
    decoder = PacketDecoder()
    assert decoder.decode(frame(data, link_type)) is None
    assert (decoder.closed, decoder.ignored, decoder.malformed) == ({what: 1}, 1, 0)


@pytest.mark.parametrize(
    "data",
    [b"", ethernet(b""), ethernet(ipv4(udp()), 0x86DD), ethernet(ipv4(udp()[:7])), ethernet(ipv4(tcp()[:12], 6))],
    ids=["nothing", "no packet", "wrong version", "short UDP", "short TCP"],
)
def test_malformed(data: bytes) -> None:
    """Frames that end too early or contradict themselves are counted as malformed."""
    decoder = PacketDecoder()
    assert decoder.decode(frame(data)) is None
    assert (decoder.malformed, decoder.ignored) == (1, 0)


def _mutations(seed: bytes) -> st.SearchStrategy[bytes]:
    """A packet with a few bytes changed and its end cut: gets deeper into the decoder than arbitrary bytes."""
    changes = st.lists(st.tuples(st.integers(0, len(seed) - 1), st.integers(0, 255)), max_size=6)

    def apply(drawn: tuple[list[tuple[int, int]], int]) -> bytes:
        changed = bytearray(seed)
        for position, value in drawn[0]:
            changed[position] = value
        return bytes(changed[: drawn[1]])

    return st.tuples(changes, st.integers(0, len(seed))).map(apply)


SEEDS = [*TUNNELLED.values(), ipv6(struct.pack(">BBHI", 17, 0, 1, 5) + udp(bytes(8)), 44), ipv4(tcp(), 6)]


@given(st.sampled_from([*sorted(LINK_TYPE_NAMES), 9999]), st.binary(max_size=300), st.integers(0, 100))
def test_any_bytes(link_type: int, data: bytes, missing: int) -> None:
    """Any bytes under any link type never raise, and are counted exactly once unless they gave a fact or wait."""
    decoder = PacketDecoder()
    fact = decoder.decode(frame(data, link_type, length=len(data) + missing))
    waiting = len(decoder._fragments)
    assert (fact is not None) + decoder.malformed + decoder.ignored + decoder.fragments_dropped + waiting == 1


@given(st.sampled_from(SEEDS).flatmap(_mutations), st.integers(0, 100))
def test_damaged_packets(data: bytes, missing: int) -> None:
    """The same for real packets with some bytes changed or cut off."""
    decoder = PacketDecoder()
    fact = decoder.decode(frame(data, 101, length=len(data) + missing))
    waiting = len(decoder._fragments)
    assert (fact is not None) + decoder.malformed + decoder.ignored + decoder.fragments_dropped + waiting == 1
    if isinstance(fact, UdpDatagram | TcpSegment):
        assert fact.payload in data
