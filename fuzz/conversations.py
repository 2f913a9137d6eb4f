"""Conversations of which bytes are the inside: Initials, whose keys everybody has, and segments of one connection.

A fuzzer that changes bytes of a packet does not get past its checksum. Here it writes what that protects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.explaining import explain, redacted
from fuzz.pieces import split
from h3probe.wire.packet import ACK, FIN, RST, SYN, TcpSegment, UdpDatagram
from tests.track import builders
from tests.track.builders import CLIENT, MS, SERVER, START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.events import Endpoint, Frame

FLAGS = (ACK, ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST, ACK)
PLACES = 1 << 15


def initials(data: bytes) -> None:
    """Frames in Initials of one QUIC connection, redacted too; a piece's first byte says whose, and which number."""
    explain(_initials(data))
    redacted(_initials(data))


def _initials(data: bytes) -> Iterator[Frame]:
    for at, piece in enumerate(split(data), 1):
        of_client, number, payload = not piece[:1] or not piece[0] & 1, piece[0] >> 1 if piece else 0, piece[1:]
        made = (builders.initial if of_client else builders.answer)(frames=payload, number=number, size=0)
        yield _datagram(at, made, from_client=of_client)


def segments(data: bytes) -> None:
    """TCP segments of one connection, redacted too; a piece is flags and side, its place in the stream, its payload."""
    explain(_segments(data))
    redacted(_segments(data))


def _segments(data: bytes) -> Iterator[Frame]:
    yield _segment(1, (CLIENT, SERVER), 0, SYN)
    yield _segment(2, (SERVER, CLIENT), 0, SYN | ACK)
    for at, piece in enumerate(split(data), 3):
        first, place = piece[0] if piece else 0, int.from_bytes(piece[1:3])
        ends = (SERVER, CLIENT) if first & 1 else (CLIENT, SERVER)
        seq = 1 + place - (PLACES if first & 0x80 else 0)
        yield _segment(at, ends, seq & 0xFFFFFFFF, FLAGS[first >> 1 & 7], piece[3:])


def _datagram(at: int, payload: bytes, *, from_client: bool) -> Frame:
    source, destination = (CLIENT, SERVER) if from_client else (SERVER, CLIENT)
    return builders.to_frame(UdpDatagram(at, START + at * MS, source, destination, payload, len(payload)))


def _segment(at: int, ends: tuple[Endpoint, Endpoint], seq: int, flags: int, payload: bytes = b"") -> Frame:
    (source, destination), ack = ends, 1 if flags & ACK else 0
    return builders.to_frame(
        TcpSegment(at, START + at * MS, source, destination, seq, ack, flags, payload, len(payload))
    )
