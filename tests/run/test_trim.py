from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from h3probe.run.trim import KEPT_OF_OTHERS, KEPT_OF_PROTECTED, Trimmer
from h3probe.track.tracker import Tracker
from h3probe.vantage import synthesis
from tests.run.traffic import CLIENT, SERVER, Traffic
from tests.wire import hello_builder, packets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.events import Frame

SECRET = b"aHVudGVyMg=="


def trimmed(frames: Iterable[Frame]) -> list[Frame]:
    """The frames as they are stored."""
    tracker, trimmer = Tracker(), Trimmer()
    result = []
    for frame in frames:
        tracker.feed(frame)
        result.append(trimmer.trim(frame, tracker))
    return result


def stored(frames: Iterable[Frame]) -> bytes:
    """All that is stored."""
    return b"".join(frame.data for frame in trimmed(frames))


def record(kind: int, payload: bytes) -> bytes:
    """A TLS record."""
    return bytes([kind, 3, 3]) + len(payload).to_bytes(2) + payload


def client_hello() -> bytes:
    """A ClientHello in its record."""
    extensions = [hello_builder.supported_versions(0x0304), hello_builder.server_name(b"example.org")]
    return record(22, hello_builder.message(1, hello_builder.client_hello(extensions)))


def server_hello() -> bytes:
    """A ServerHello in its record."""
    return record(22, hello_builder.message(2, hello_builder.server_hello([(43, b"\x03\x04")])))


def test_handshake_packets_are_kept_whole() -> None:
    """A datagram with a long header is stored as it came."""
    frame = Traffic().initial()
    assert trimmed([frame]) == [frame]


def test_of_protected_packets_the_head_is_kept() -> None:
    """Of a short-header packet the first bytes are stored, and its length stays known."""
    traffic = Traffic()
    _, short = trimmed([traffic.initial(), traffic.udp(b"\x40" + bytes(range(256)) * 4, back=True)])
    assert len(short.data) == 28 + KEPT_OF_PROTECTED
    assert short.length == 28 + 1025


@pytest.mark.parametrize("payload", [b"<13>su: root password " + SECRET, b"\x80" + SECRET, b"\xff"])
def test_other_protocols_over_udp(payload: bytes) -> None:
    """Of a datagram that is not QUIC's nothing but its headers is stored, RTP's high bit notwithstanding."""
    (frame,) = trimmed([Traffic().udp(payload)])
    assert len(frame.data) == 28


def test_dns_is_kept() -> None:
    """DNS messages are needed whole."""
    frame = Traffic(server=SERVER._replace(port=53)).udp(b"\x12\x34" + bytes(40))
    assert trimmed([frame]) == [frame]


@pytest.mark.parametrize("field", [b"Proxy-Authorization", b"authorization", b"COOKIE", b"X-Api-Key"])
def test_credentials_in_a_request(field: bytes) -> None:
    """A credential's value is replaced, its field's name and all lengths stay."""
    traffic = Traffic()
    head = b"CONNECT example.org:443 HTTP/1.1\r\n" + field + b": Basic " + SECRET + b"\r\nHost: example.org\r\n\r\n"
    frames = [*traffic.connected(), traffic.tcp(head)]
    kept = trimmed(frames)[-1].data
    assert SECRET not in kept
    assert b"Basic" not in kept
    assert b"CONNECT example.org:443 HTTP/1.1\r\n" + field in kept
    assert b"\r\nHost: example.org\r\n\r\n" in kept
    assert len(kept) == len(frames[-1].data)


@pytest.mark.parametrize("at", range(30, 90, 3))
def test_credentials_in_a_head_in_pieces(at: int) -> None:
    """Wherever a head is cut into segments, no credential is stored."""
    traffic = Traffic()
    head = (
        b"CONNECT example.org:443 HTTP/1.1\r\nProxy-Authorization: Basic " + SECRET + b"\r\nHost: example.org\r\n\r\n"
    )
    data = stored([*traffic.connected(), traffic.tcp(head[:at]), traffic.tcp(head[at:])])
    assert SECRET not in data
    assert SECRET[6:] not in data


def test_user_information_in_a_target() -> None:
    """A password in an absolute target is replaced."""
    traffic = Traffic()
    request = b"GET http://bob:" + SECRET + b"@example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n"
    assert SECRET not in stored([*traffic.connected(), traffic.tcp(request)])


def test_bodies_are_cut() -> None:
    """Of plain HTTP the head is stored, and neither a body behind it nor one in segments of its own."""
    traffic = Traffic()
    head = b"POST /login HTTP/1.1\r\nHost: example.org\r\nContent-Length: 24\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: id=" + SECRET + b"\r\nContent-Length: 12\r\n\r\n"
    frames = [
        *traffic.connected(),
        traffic.tcp(head + SECRET),
        traffic.tcp(SECRET),
        traffic.tcp(answer + SECRET, back=True),
        traffic.tcp(SECRET, back=True),
    ]
    data = stored(frames)
    assert SECRET not in data
    assert b"POST /login HTTP/1.1" in data
    assert b"HTTP/1.1 200 OK" in data


@pytest.mark.parametrize("banner", [b"+OK ready\r\n", b""])
def test_passwords_of_other_protocols(banner: bytes) -> None:
    """What is neither TLS nor HTTP is stored without a word of it."""
    traffic = Traffic()
    greeting = [traffic.tcp(banner, back=True)] if banner else []
    frames = [*traffic.connected(), *greeting, traffic.tcp(b"USER"), traffic.tcp(b" bob\r\nPASS " + SECRET + b"\r\n")]
    assert SECRET not in stored(frames)


def test_tls_handshake_is_kept_and_application_data_is_not() -> None:
    """Records are stored until the handshake is over, and the segment that ends it; of later ones the head."""
    traffic = Traffic()
    handshake = [
        *traffic.connected(),
        traffic.tcp(client_hello()),
        traffic.tcp(server_hello() + record(20, b"\x01") + record(23, bytes(900)), back=True),
        traffic.tcp(record(20, b"\x01") + record(23, bytes(53))),
    ]
    data = traffic.tcp(record(23, b"\xaa" * 500))
    kept = trimmed([*handshake, data])
    assert kept[:-1] == handshake
    assert kept[-1].data == data.data[: 40 + KEPT_OF_PROTECTED]


def test_the_engine_sees_the_same_in_what_is_kept() -> None:
    """A tracker that reads the stored frames comes to the same handshake."""
    traffic = Traffic()
    frames = [
        *traffic.connected(),
        traffic.tcp(client_hello()),
        traffic.tcp(server_hello() + record(20, b"\x01") + record(23, bytes(900)), back=True),
        traffic.tcp(record(20, b"\x01") + record(23, bytes(53))),
        traffic.tcp(record(23, b"\xaa" * 500)),
    ]
    ready = []
    for given in (frames, trimmed(frames)):
        tracker = Tracker()
        for frame in given:
            tracker.feed(frame)
        (connection,) = tracker.take().opened
        ready.append(connection.ready)
    assert ready[0] is not None
    assert ready[0] == ready[1]


def test_a_payload_that_stands_in_the_headers_too() -> None:
    """A short payload is cut where it is, and not at the same bytes in a header."""
    (frame,) = trimmed([Traffic().udp(b"\x00")])
    assert len(frame.data) == 28


def test_padding_of_short_ethernet_frames() -> None:
    """With padding behind a payload the headers stay whole."""
    packet = packets.ethernet(packets.ipv4(packets.udp(b"ab"))) + bytes(16)
    (frame,) = trimmed([packets.frame(packet)])
    assert frame.data == packet[:42]


def test_fragments_and_quotations() -> None:
    """Of a fragment, and of what an ICMP error quotes, little more than the headers is stored."""
    traffic = Traffic()
    text = traffic.frame(packets.ipv4(packets.udp(b"s" * 800), fragment=0x2000))
    quoting = traffic.frame(synthesis.port_unreachable(SERVER, CLIENT, synthesis.udp(CLIENT, SERVER, b"s" * 800)))
    assert [len(frame.data) for frame in trimmed([text, quoting])] == [KEPT_OF_OTHERS, KEPT_OF_OTHERS]
