"""Hostile traffic: streams of frames by somebody who wants a wrong answer, much memory or much time.

Each generator is endless, and its frames are stamped with the time they are told; `TRAFFIC` has them by name.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import count, cycle
from typing import TYPE_CHECKING

from h3probe.events import Endpoint
from h3probe.wire.packet import ACK, RST, SYN, TcpSegment, UdpDatagram
from tests.track import builders
from tests.wire import packets, quic_builder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from h3probe.events import Frame

HOST = bytes([203, 0, 113, 9])
SERVER = Endpoint(bytes([198, 51, 100, 77]), 443)
START = builders.START

# A name that points at itself, and one that points at another that points back (RFC 1035, 4.1.4).
LOOPS = (b"\xc0\x0c", b"\xc0\x0e\xc0\x0c")


def endpoints() -> Iterator[Endpoint]:
    """Clients that are never the same."""
    for number in count():
        yield Endpoint(
            bytes([203, number >> 24 & 0xFF, number >> 16 & 0xFF, number >> 8 & 0xFF]), 1024 + number % 60000
        )


def up(client: Endpoint, payload: bytes, server: Endpoint = SERVER) -> Frame:
    """A datagram to the server."""
    return builders.to_frame(UdpDatagram(1, START, client, server, payload, len(payload)))


def down(client: Endpoint, payload: bytes, server: Endpoint = SERVER) -> Frame:
    """A datagram from the server."""
    return builders.to_frame(UdpDatagram(1, START, server, client, payload, len(payload)))


def segment(client: Endpoint, seq: int, flags: int, payload: bytes = b"", server: Endpoint = SERVER) -> Frame:
    """A segment to the server."""
    return builders.to_frame(TcpSegment(1, START, client, server, seq, 1, flags, payload, len(payload)))


def overlapping_crypto() -> Iterator[Frame]:
    """Initials whose CRYPTO frames say something else for bytes that were there already."""
    for client in endpoints():
        for number, name in enumerate((b"one.example", b"two.example", b"other.example")):
            hello = builders.client_hello(name)
            for offset in (0, len(hello) // 3):
                yield up(client, builders.initial(hello[offset:], offset=offset, number=2 * number + bool(offset)))


def hello_in_single_bytes() -> Iterator[Frame]:
    """ClientHellos of 64 KiB, of which each datagram brings single bytes in frames of their own, from the end."""
    hello = builders.client_hello(pad=65_000)
    for client in endpoints():
        for number, last in enumerate(range(len(hello), 0, -300)):
            pieces = [quic_builder.crypto(at, hello[at : at + 1]) for at in range(max(0, last - 300), last)]
            yield up(client, builders.initial(frames=b"".join(pieces), number=number))


def new_connection_ids() -> Iterator[Frame]:
    """One client after the other, each with a DCID that was never there."""
    hello = builders.client_hello()
    for number, client in enumerate(endpoints()):
        yield up(client, builders.initial(hello, dcid=number.to_bytes(8)))


def new_connection_ids_of_one_flow() -> Iterator[Frame]:
    """The same, from one port."""
    hello = builders.client_hello()
    for number in count():
        yield up(Endpoint(HOST, 4444), builders.initial(hello, dcid=number.to_bytes(8)))


def forged_icmp() -> Iterator[Frame]:
    """ICMP errors about flows that do not exist."""
    for number, client in enumerate(endpoints()):
        quoted = up(client, bytes(8)).data[14:]
        body = struct.pack(">BBHI", 3, number % 16, 0, 0) + quoted
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 1, 0) + SERVER.host + client.host
        yield packets.frame(bytes(12) + b"\x08\x00" + header + body)


def negotiation_and_retry_from_the_wrong_side() -> Iterator[Frame]:
    """Version Negotiation and Retry packets that a client sends, or that answer nothing, or are forged."""
    negotiation = b"\x80" + bytes(4) + b"\x05" + builders.CLIENT_ID + b"\x08" + builders.DCID + b"\x6b\x33\x43\xcf"
    for client in endpoints():
        yield up(client, negotiation)
        yield up(client, builders.retry())
        yield down(client, negotiation)
        yield up(client, builders.initial(builders.client_hello()))
        yield up(client, negotiation)
        yield down(client, builders.retry(forged=True))
        yield up(client, builders.retry())


def compressed_dns_loops() -> Iterator[Frame]:
    """DNS answers whose names never end."""
    for client, name in zip(endpoints(), cycle(LOOPS), strict=False):
        message = struct.pack(">HHHHHH", 1, 0x8180, 1, 200, 0, 0) + name + struct.pack(">HH", 65, 1)
        message += (b"\xc0\x0c" + struct.pack(">HHIH", 65, 1, 60, 4) + b"\x00\x01\xc0\x0c") * 200
        yield down(client, message, Endpoint(SERVER.host, 53))


def endless_fragments() -> Iterator[Frame]:
    """IPv4 fragments of datagrams that never become whole: first ones, middle ones, overlapping ones."""
    for number, client in enumerate(endpoints()):
        for offset, more in ((0, 1), (100, 1), (50, 1)):
            payload = bytes(1000)
            fields = (0x45, 0, 20 + len(payload), number & 0xFFFF, more << 13 | offset, 64, 17, 0)
            header = struct.pack(">BBHHHBBH", *fields) + client.host + SERVER.host
            yield packets.frame(bytes(12) + b"\x08\x00" + header + payload)


def syn_flood() -> Iterator[Frame]:
    """SYNs that nobody follows up."""
    for client in endpoints():
        yield segment(client, 0, SYN)


def holes_in_tcp() -> Iterator[Frame]:
    """TLS over TCP of which every second byte never comes."""
    hello = builders.handshake(builders.client_hello(pad=16_000))
    for client in endpoints():
        yield segment(client, 0, SYN)
        for at in range(1, len(hello), 200):
            yield segment(client, 1 + at, ACK, hello[at : at + 1])


def endless_heads() -> Iterator[Frame]:
    """CONNECT requests whose heads never end."""
    for client in endpoints():
        yield segment(client, 0, SYN)
        head = b"CONNECT example.org:443 HTTP/1.1\r\n"
        yield segment(client, 1, ACK, head)
        for number in range(100):
            yield segment(client, 1 + len(head) + 1200 * number, ACK, b"X-Filler: " + b"y" * 1188 + b"\r\n")


TRAFFIC: dict[str, Callable[[], Iterator[Frame]]] = {
    generator.__name__: generator
    for generator in (
        overlapping_crypto,
        hello_in_single_bytes,
        new_connection_ids,
        new_connection_ids_of_one_flow,
        forged_icmp,
        negotiation_and_retry_from_the_wrong_side,
        compressed_dns_loops,
        endless_fragments,
        syn_flood,
        holes_in_tcp,
        endless_heads,
    )
}


AIMED_AT_TCP = ("resets of what was never sent", "hellos from somewhere in the stream")
AIMED = (
    "negotiation from both sides",
    "retries from both sides",
    "ICMP about what was never sent",
    "DNS loops for the client",
    "fragments between the two",
    *AIMED_AT_TCP,
)


def aimed(over_quic: tuple[Endpoint, Endpoint], over_tcp: tuple[Endpoint, Endpoint]) -> dict[str, Iterator[Frame]]:
    """Traffic in the name of honest connections over IPv4, by somebody who sees none of their packets.

    Args:
        over_quic: Client and server of a QUIC connection.
        over_tcp: Those of a TCP connection.

    Returns:
        Endless frames for each name in `AIMED`.
    """
    made = (
        _negotiations(*over_quic),
        _retries(*over_quic),
        _icmp(*over_quic, over_tcp),
        _loops(*over_quic),
        _fragments(over_quic, over_tcp),
        _resets(*over_tcp),
        _hellos(*over_tcp),
    )
    return dict(zip(AIMED, made, strict=True))


def _guesses() -> Iterator[int]:
    """Numbers of 32 bits that are never right but by chance; the same ones each time."""
    number = 1
    while True:
        number = (number * 1_103_515_245 + 12_345) & 0xFFFF_FFFF
        yield number


def _negotiations(client: Endpoint, server: Endpoint) -> Iterator[Frame]:
    for number in _guesses():
        packet = quic_builder.version_negotiation(0x6B3343CF, dcid=number.to_bytes(8), scid=number.to_bytes(5))
        yield down(client, packet, server)
        yield up(client, packet, server)


def _retries(client: Endpoint, server: Endpoint) -> Iterator[Frame]:
    for forged in cycle((True, False)):
        yield down(client, builders.retry(forged=forged), server)
        yield up(client, builders.retry(forged=forged), server)


def _icmp(client: Endpoint, server: Endpoint, over_tcp: tuple[Endpoint, Endpoint]) -> Iterator[Frame]:
    for number in _guesses():
        sent = (
            up(client, number.to_bytes(4) * 2, server),
            segment(over_tcp[0], number, SYN, server=over_tcp[1]),
            segment(over_tcp[0], number, ACK, server=over_tcp[1]),
        )
        for frame in sent:
            body = struct.pack(">BBHI", 3, (1, 3, 13)[number % 3], 0, 0) + frame.data[14:42]
            header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 1, 0) + HOST + client.host
            yield packets.frame(bytes(12) + b"\x08\x00" + header + body)


def _loops(client: Endpoint, server: Endpoint) -> Iterator[Frame]:
    for name in cycle(LOOPS):
        message = struct.pack(">HHHHHH", 1, 0x8180, 1, 1, 0, 0) + name + struct.pack(">HH", 65, 1)
        yield down(client, message + name + struct.pack(">HHIH", 65, 1, 60, 0), Endpoint(server.host, 53))


def _fragments(*ends: tuple[Endpoint, Endpoint]) -> Iterator[Frame]:
    for number, (source, destination) in zip(_guesses(), cycle(ends), strict=False):
        payload = struct.pack(">HH", source.port, destination.port) + bytes(996)
        for offset in (0, 50, 100):
            fields = (0x45, 0, 1020, number & 0xFFFF, 0x2000 | offset, 64, 6 if destination == ends[1][1] else 17, 0)
            header = struct.pack(">BBHHHBBH", *fields) + source.host + destination.host
            yield packets.frame(bytes(12) + b"\x08\x00" + header + payload)


def _resets(client: Endpoint, server: Endpoint) -> Iterator[Frame]:
    for number in _guesses():
        fact = TcpSegment(1, START, server, client, 0, number, RST | ACK, b"", 0)
        yield builders.to_frame(fact)
        yield builders.to_frame(replace(fact, seq=number, ack=0, flags=RST))


def _hellos(client: Endpoint, server: Endpoint) -> Iterator[Frame]:
    hello = builders.handshake(builders.client_hello(b"other.example"))
    for number in _guesses():
        yield segment(client, number, ACK, hello, server)
