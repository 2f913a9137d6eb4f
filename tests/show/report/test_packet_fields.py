"""Packets taken apart: what is shown of them, and what never is."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.records import QuicRecord
from h3probe.show.report.packet_fields import PacketReader
from tests.wire.packets import ethernet, frame, ipv4, ipv6, tcp, udp
from tests.wire.quic_builder import DCID, crypto, initial

from .samples import STALE, recorded

if TYPE_CHECKING:
    from h3probe.show.report.tree import Field


def read(data: bytes, **more: int) -> dict[str, str]:
    """Every field of a frame that is alone, by its path."""
    return flat(PacketReader({}, ()).read(frame(data, **more)).layers)


def flat(fields: tuple[Field, ...], path: str = "") -> dict[str, str]:
    """Values by path."""
    found: dict[str, str] = {}
    for field in fields:
        found[path + field.name] = field.value
        found |= flat(field.children, f"{path}{field.name}/")
    return found


def test_link_ip_and_udp() -> None:
    """From the outside to the inside: who sent it, where to, how long, and what a snaplen cut."""
    fields = read(ethernet(ipv4(udp(b"data", length=100), total=200)), length=300)
    assert fields["Link/Source"] == "02:00:00:00:00:01"
    assert fields["IPv4/Source"] == "192.0.2.1"
    assert fields["IPv4/TTL"] == "64"
    assert fields["IPv4/Protocol"] == "17 UDP"
    assert fields["UDP/Destination port"] == "443"
    assert fields["UDP/Payload"] == "92, 4 of them captured"
    assert fields["Frame/Bytes"] == "300, 46 of them captured"
    assert fields["Frame/Time"] == "1970-01-01 00:00:01.000000000 UTC"


def test_ipv6_and_tcp() -> None:
    """Flags by name, an acknowledgement only where there is one."""
    fields = read(ethernet(ipv6(tcp(b"", flags=0x02), 6), 0x86DD))
    assert fields["IPv6/Source"] == "2001:db8::1"
    assert fields["TCP/Flags"] == "SYN"
    assert fields["TCP/Sequence number"] == "1000"
    assert "TCP/Acknowledgement number" not in fields


def test_an_icmp_error_names_its_sender_and_its_subject() -> None:
    """Type, code and meaning, and the packet that it quotes."""
    quoted = ipv4(udp(b"data"), source=bytes([198, 51, 100, 2]))
    fields = read(ethernet(ipv4(struct.pack(">BBHI", 3, 13, 0, 0) + quoted, 1)))
    assert fields["ICMP/Meaning"] == "communication administratively prohibited"
    assert fields["ICMP/Sent by"] == "192.0.2.1"
    assert fields["Packet that it is about/Source"] == "198.51.100.2:50000"


def test_a_server_s_initial_opens_with_the_client_s_first_id() -> None:
    """Its keys come from an ID that is not in it; the connection's record has it, and so has another packet."""
    answer = ethernet(ipv4(udp(initial(crypto(0, b"\x02\x00\x00\x01x"), dcid=b"", key_dcid=DCID, from_client=False))))
    assert read(answer)["QUIC Initial/Contents"] == "encrypted"
    known = QuicRecord(
        "quic-1", 0.0, None, "192.0.2.1:50000", "198.51.100.2:443", "v1", DCID.hex(), None, None, None, None, None, "",
        None, None, 1, 1, None, None, None, None,
    )  # fmt: skip
    for reader in (
        PacketReader({}, [known]),
        PacketReader({2: frame(ethernet(ipv4(udp(initial(crypto(0, b"x"))))), number=2)}, ()),
    ):
        fields = flat(reader.read(frame(answer)).layers)
        assert "QUIC Initial/Contents" not in fields
        assert fields["QUIC Initial/CRYPTO"] == "bytes 0 to 5 of the handshake"


def test_http_in_the_clear_shows_no_credentials() -> None:
    """A method and a Host; nothing of the path, the other headers or the body."""
    head = (
        b"GET http://me:secret1@example.org/secret2?token=secret3 HTTP/1.1\r\nHost: example.org\r\n"
        b"Authorization: Basic secret4\r\nCookie: secret5\r\nX-Mine: secret6\r\n\r\nsecret7"
    )
    fields = read(ethernet(ipv4(tcp(head), 6)))
    assert fields["HTTP request/Method"] == "GET"
    assert fields["HTTP request/Host"] == "example.org"
    assert "secret" not in repr(fields)


def test_what_is_asked_of_a_proxy_is_shown() -> None:
    """The target of a CONNECT, and the status of the answer with its Alt-Svc; a cookie is none of them."""
    asked = read(ethernet(ipv4(tcp(b"CONNECT example.org:443 HTTP/1.1\r\nProxy-Authorization: secret\r\n\r\n"), 6)))
    assert asked["HTTP request/Target"] == "example.org:443"
    head = b"HTTP/1.1 407 Proxy Authentication Required\r\nAlt-Svc: clear\r\nSet-Cookie: secret\r\n\r\nsecret"
    answered = read(ethernet(ipv4(tcp(head), 6)))
    assert answered["HTTP response/Status"] == "407 Proxy Authentication Required"
    assert answered["HTTP response/Alt-Svc"] == "clear"
    assert "secret" not in repr((asked, answered))


@pytest.mark.parametrize("payload", [b"secret bytes of some protocol", b"\x16\x03\x01\x00", b"GET /secret"])
def test_other_payload_is_not_shown(payload: bytes) -> None:
    """What is no handshake is told by its length alone."""
    assert "secret" not in repr(read(ethernet(ipv4(tcp(payload), 6))))
    assert "secret" not in repr(read(ethernet(ipv4(udp(payload)))))


def test_dns_names_questions_and_answers() -> None:
    """A query of an HTTPS record."""
    name = b"\x07example\x03org\x00"
    query = struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 65, 1)
    assert read(ethernet(ipv4(udp(query, destination=53))))["DNS/Questions"] == "example.org, type 65"
    assert read(ethernet(ipv4(udp(b"junk", destination=53))))["DNS"] == "cannot be read"


@given(st.binary(max_size=400), st.sampled_from([1, 101, 113, 276, 9999]))
def test_no_frame_is_an_obstacle(data: bytes, link_type: int) -> None:
    """Whatever the bytes, there is a tree, and it is small."""
    packet = PacketReader({1: frame(data, link_type)}, ()).read(frame(data, link_type))
    assert packet.layers
    assert len(repr(packet)) < 60_000


@given(st.binary(max_size=300), st.integers(0, 5))
def test_no_payload_is_an_obstacle(payload: bytes, kind: int) -> None:
    """The same inside of UDP, TCP, DNS and ICMP."""
    inside = [udp(payload), udp(payload, destination=53), udp(b"\xc0\x00\x00\x00\x01" + payload)]
    wrapped = [ethernet(ipv4(part)) for part in inside]
    wrapped += [ethernet(ipv4(tcp(part), 6)) for part in (payload, b"\x16\x03\x01" + payload)]
    wrapped.append(ethernet(ipv4(b"\x03\x03" + payload, 1)))
    assert read(wrapped[kind])


def test_packets_of_a_recording_are_read() -> None:
    """The first Initial of the attempt that nobody answered, down to its transport parameters."""
    told, held = recorded(STALE)
    fields = flat(PacketReader(held, told.all_records).read(held[24]).layers)
    assert fields["QUIC Initial/Version"] == "v1"
    assert fields["QUIC Initial/ClientHello/SNI"] == "localhost"
    assert fields["QUIC Initial/ClientHello/ALPN"] == "h3"
    assert fields["QUIC Initial/ClientHello/Transport parameters/max_udp_payload_size"].isdigit()
