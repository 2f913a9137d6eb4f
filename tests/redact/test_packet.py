"""Frames: links, headers, checksums, and what is not let through."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.events import Endpoint, Frame
from h3probe.redact import Mapping, Redactor, dns
from h3probe.redact.checksum import checksum, pseudo_header
from h3probe.vantage import synthesis
from h3probe.vantage.synthesis import Segment
from h3probe.wire.packet import TcpSegment, UdpDatagram
from tests.redact.flows import CLIENT, KEY, SERVER, STATIONS, Wire, facts, payloads, redacted
from tests.redact.test_dns import answer as dns_answer
from tests.wire import packets

CLIENT6 = Endpoint(bytes.fromhex("20010470aabb00010000000000000023"), 50123)
SERVER6 = Endpoint(bytes.fromhex("2a00145040010000000000000000200e"), 443)
PUBLIC4 = bytes((93, 184, 216, 34))


def sums_are_right(packet: bytes) -> bool:
    """Whether an IP packet's own checksum, and its transport's, are right."""
    if packet[0] >> 4 == 4:
        size = (packet[0] & 15) * 4
        protocol, source, destination = packet[9], packet[12:16], packet[16:20]
        if checksum(packet[:size]):
            return False
    else:
        size, protocol, source, destination = 40, packet[6], packet[8:24], packet[24:40]
    body = packet[size:]
    return not checksum(pseudo_header(source, destination, protocol, len(body)) + body)


@pytest.mark.parametrize(("client", "server"), [(CLIENT, SERVER), (CLIENT6, SERVER6)])
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_addresses_and_checksums(client: Endpoint, server: Endpoint, transport: str) -> None:
    """Addresses are the mapping's, ports, sequence numbers and flags stay, and all checksums are right."""
    packet = (
        synthesis.udp(client, server, b"odd")
        if transport == "udp"
        else synthesis.tcp(client, server, synthesis.Segment(0x18, 7, 9, b"odd"))
    )
    mapping = Mapping(KEY)
    (made,) = redacted([packets.frame(packet, 101)], mapping)
    before, after = facts([packets.frame(packet, 101), made])
    assert isinstance(before, UdpDatagram | TcpSegment)
    assert isinstance(after, UdpDatagram | TcpSegment)
    assert after.source == Endpoint(mapping.address(client.host), client.port) != client
    assert after.destination == Endpoint(mapping.address(server.host), server.port) != server
    assert sums_are_right(made.data)
    if isinstance(before, TcpSegment) and isinstance(after, TcpSegment):
        assert (after.seq, after.ack, after.flags) == (before.seq, before.ack, before.flags)


def link(kind: int) -> tuple[bytes, bytes]:
    """A link-layer header of a type that carries IPv4, and the station's address in it."""
    station = STATIONS[0]
    match kind:
        case 0:
            return struct.pack("<I", 2), b""
        case 9:
            return b"\xff\x03\x00\x21", b""
        case 113:
            return struct.pack(">HHH8sH", 0, 1, 6, station, 0x0800), station
        case 276:
            return struct.pack(">HHIHBB8s", 0x0800, 0, 3, 1, 0, 6, station), station
        case _:
            return b"", b""


@pytest.mark.parametrize("kind", [0, 9, 12, 14, 101, 113, 228, 276])
def test_links(kind: int) -> None:
    """On each link type the packet is found, and the station is another one."""
    header, station = link(kind)
    mapping = Mapping(KEY)
    (made,) = redacted([packets.frame(header + synthesis.udp(CLIENT, SERVER, b"data"), kind)], mapping)
    (fact,) = facts([made])
    assert isinstance(fact, UdpDatagram)
    assert fact.source.host == mapping.address(CLIENT.host)
    if station:
        assert station not in made.data
        assert fact.station == mapping.mac(station)


@pytest.mark.parametrize(
    "tags", [b"\x08\x00", b"\x81\x00\x00\x07\x08\x00", b"\x88\xa8\x00\x07\x81\x00\x00\x08\x08\x00",
             b"\x88\x64\x11\x00\x00\x01\x00\x22\x00\x21"]
)  # fmt: skip
def test_tags_before_ip(tags: bytes) -> None:
    """VLAN tags and PPPoE are passed over."""
    data = STATIONS[1] + STATIONS[0] + tags + synthesis.udp(CLIENT, SERVER, b"data")
    (made,) = redacted([packets.frame(data)])
    assert made.data[12 : 12 + len(tags)] == tags
    assert not any(address in made.data for address in (*STATIONS, CLIENT.host, SERVER.host))


@pytest.mark.parametrize("wrap", ["ipip", "gre", "gre-ethernet", "vxlan"])
def test_tunnels(wrap: str) -> None:
    """A packet in a packet is rewritten inside and outside, with right checksums."""
    inner = synthesis.udp(CLIENT, SERVER, b"data")
    frame = STATIONS[1] + STATIONS[0] + b"\x08\x00" + inner
    match wrap:
        case "ipip":
            outer = packets.ipv4(inner, 4, source=PUBLIC4)
        case "gre":
            outer = packets.ipv4(b"\x20\x00\x08\x00KEY!" + inner, 47, source=PUBLIC4)
        case "gre-ethernet":
            outer = packets.ipv4(b"\x00\x00\x65\x58" + frame, 47, source=PUBLIC4)
        case _:
            outer = synthesis.udp(Endpoint(PUBLIC4, 50000), Endpoint(SERVER.host, 4789), b"\x08\0\0\0\0\0\7\0" + frame)
    mapping = Mapping(KEY)
    (made,) = redacted([packets.frame(outer, 101)], mapping)
    (fact,) = facts([made])
    assert isinstance(fact, UdpDatagram)
    assert fact.source == Endpoint(mapping.address(CLIENT.host), CLIENT.port)
    assert not any(address in made.data for address in (*STATIONS, CLIENT.host, SERVER.host, PUBLIC4))
    assert sums_are_right(made.data[-len(inner) :])


def test_arp() -> None:
    """Sender and target are those of the mapping."""
    body = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + STATIONS[0] + CLIENT.host + bytes(6) + SERVER.host + b"trailer"
    mapping = Mapping(KEY)
    (made,) = redacted([packets.frame(b"\xff" * 6 + STATIONS[0] + b"\x08\x06" + body)], mapping)
    assert made.data[:6] == b"\xff" * 6
    assert made.data[22:32] == mapping.mac(STATIONS[0]) + mapping.address(CLIENT.host)
    assert made.data[32:42] == bytes(6) + mapping.address(SERVER.host)
    assert not any(made.data[42:])


def test_options_tell_nothing() -> None:
    """Options that hold addresses, cookies or keys are gone; those of the stack stay."""
    route = b"\x07\x07\x04" + SERVER.host + b"\x00"
    tcp_options = b"\x02\x04\x05\xb4" + b"\x22\x0aCOOKIE!!" + b"\x01\x03\x03\x07\x00\x00"
    segment = packets.tcp(b"", options=tcp_options)
    (made,) = redacted([packets.frame(packets.ipv4(segment, 6, options=route), 101)])
    assert made.data[20:28] == b"\x01" * 8
    assert b"COOKIE" not in made.data
    assert b"\x02\x04\x05\xb4" in made.data
    assert sums_are_right(made.data)
    for size in (1, 40):
        options = bytes((17, size - 1)) + b"\x1e\x04SECR" + b"!" * (size * 8 - 8)
        (made,) = redacted([packets.frame(packets.ipv6(options + packets.udp(), 0), 101)])
        assert b"SECR" not in made.data
        assert len(made.data) == 40 + size * 8 + 12


def test_padding_and_the_frames_own_checksum() -> None:
    """What stands behind the packet is zeros, but for an Ethernet checksum that was right and is so again."""
    frame = Wire().udp(b"data" * 10)
    body = frame.data + b"left in the card's memory"
    data = body + zlib.crc32(body).to_bytes(4, "little")
    made, plain = redacted([replace(frame, data=data), replace(frame, data=body)])
    assert made.data[-4:] == zlib.crc32(made.data[:-4]).to_bytes(4, "little")
    assert made.data[len(frame.data) : -4] == bytes(25)
    assert plain.data[len(frame.data) :] == bytes(25)


def test_a_snaplen() -> None:
    """Of a cut packet the checksum, which nobody can check, tells nothing of what was cut."""
    frame = Wire().tcp(b"data" * 10)
    (made,) = redacted([replace(frame, data=frame.data[:60], length=len(frame.data))])
    assert made.length == len(frame.data)
    assert len(made.data) == 60
    assert made.data[50:52] == b"\0\0"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (packets.frame(b"x" * 60, 189), "link type USB_LINUX"),
        (packets.frame(packets.ethernet(b"x" * 50, 0x88CC)), "EtherType 0x88cc"),
        (packets.frame(packets.ethernet(b"\x42\x42\x03" + b"x" * 50, 53)), "IEEE 802.3 with LLC"),
        (packets.frame(packets.ipv4(packets.udp(), fragment=0x2000), 101), "IP fragment"),
        (packets.frame(packets.ipv4(b"x" * 40, 132), 101), "IP protocol 132"),
        (packets.frame(packets.ipv4(b"\x1e" + b"x" * 40, 1), 101), "ICMP type 30"),
        (packets.frame(packets.ipv4(b"\x40\x00\x08\x00" + b"x" * 40, 47), 101), "GRE of other kinds"),
        (
            packets.frame(packets.ipv6(b"\x11\x00\x00\x00" + bytes(4) + packets.udp(), 43), 101),
            "IPv6 extension header 43",
        ),
        (packets.frame(b"\x00" * 40, 101), "IP version 0"),
        (packets.frame(b"\x07\0\0\0" + bytes(40), 0), "address family 7"),
        (packets.frame(packets.ipv4(b"")[:15], 101), "a malformed packet, or one cut within its headers"),
    ],
)
def test_what_cannot_be_redacted_is_dropped_and_counted(frame: Frame, reason: str) -> None:
    """Nothing that is not understood is let through."""
    redactor = Redactor(Mapping(KEY))
    assert redactor.frame(frame) == redactor.finish() == []
    assert dict(redactor.dropped) == {reason: 1}


@settings(deadline=None)
@given(st.sampled_from((0, 1, 9, 101, 113, 276)), st.binary(max_size=120))
def test_any_frame(kind: int, data: bytes) -> None:
    """Whatever is captured, nothing but a frame of the same length comes out, or none."""
    redactor = Redactor(Mapping(KEY))
    made = redactor.frame(packets.frame(data, kind)) + redactor.finish()
    assert [len(frame.data) for frame in made] in ([len(data)], [])
    assert len(made) + redactor.dropped.total() == 1


def test_what_stands_behind_a_packet_in_a_tunnel() -> None:
    """Bytes between the end of an inner packet and that of its tunnel do not stay."""
    inner = synthesis.udp(CLIENT, SERVER, b"odd")
    (made,) = redacted([packets.frame(packets.ipv4(inner + b"www.secret.org", 4), 101)], Mapping(KEY))
    assert b"secret" not in made.data
    assert len(made.data) == 20 + len(inner) + 14


def test_dns_over_tcp() -> None:
    """A message that is whole in one segment has the names that it would have over UDP; another one becomes noise."""
    wire, mapping = Wire(), Mapping(KEY)
    message = dns_answer()
    segments = [len(message).to_bytes(2) + message, len(message).to_bytes(2) + message[:-1]]
    server = Endpoint(SERVER.host, 53)
    frames = [
        wire.frame(synthesis.tcp(server, CLIENT, Segment(synthesis.ACK, 1 + number * 1000, 1, data)), back=True)
        for number, data in enumerate(segments)
    ]
    whole, part = payloads(redacted(frames, mapping))
    assert whole == segments[0][:2] + dns.rewrite(message, mapping)
    assert len(part) == len(segments[1])
    assert b"hidden" not in part
