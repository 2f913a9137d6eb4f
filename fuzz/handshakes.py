"""Recorded handshakes, whose keys are known, to go on from: bytes become the inside of packets that can be opened."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.explaining import explain
from fuzz.pieces import split
from h3probe.capture import read_capture
from h3probe.engine import Engine
from h3probe.events import Frame, Secrets
from h3probe.wire.cipher_suites import TLS13_SUITES, expand_label
from h3probe.wire.packet import SYN, PacketDecoder, TcpSegment
from h3probe.wire.quic.protection import PacketKeys, packet_keys
from h3probe.wire.quic.versions import V1, known
from tests.track.builders import MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.events import Event
    from h3probe.track.tracker import Connection
    from h3probe.wire.cipher_suites import Suite

DECRYPTED = Path(__file__).parents[1] / "tests" / "data" / "decrypted"
KINDS = (23, 22, 21, 20)
# The recordings are Ethernet and IPv6 without extension headers.
ETHERNET, UDP_AT = 1, 54
PORT = slice(54, 56)


def one_rtt(data: bytes) -> None:
    """What 1-RTT packets hold, a piece each behind a byte that says whose, after a recorded handshake of HTTP/3."""
    explain(after_quic(data, recorded("curl-h3", 6)))


def after_quic(data: bytes, begun: Begun) -> Iterator[Event]:
    """A handshake of QUIC, and packets with these pieces in them."""
    yield from begun.events()
    for at, piece in enumerate(split(data)):
        of_client = not piece[:1] or not piece[0] & 1
        yield begun.udp(at, _seal(begun.quic_keys[of_client], begun.ids[of_client], at, piece[1:]), of_client=of_client)


def tls_records(data: bytes) -> None:
    """What TLS records hold, a piece each behind a byte that says whose and what kind, after a recorded handshake."""
    name = "curl-h1" if data[:1] == b"\x01" else "curl-h2"
    explain(after_tls(data[1:], recorded(name, 8)))


def after_tls(data: bytes, begun: Begun) -> Iterator[Event]:
    """A handshake of TLS, and records with these pieces in them."""
    yield from begun.events()
    numbers, places = {True: 0, False: 0}, dict(begun.places)
    for at, piece in enumerate(split(data)):
        first, inner = piece[0] if piece else 0, piece[1:16000]
        of_client = not first & 1
        secret, suite = begun.secrets[of_client], begun.suite
        header = b"\x17\x03\x03" + (len(inner) + 1 + 16).to_bytes(2)
        iv = int.from_bytes(expand_label(secret, b"iv", 12, suite.digest))
        aead = suite.aead(expand_label(secret, b"key", suite.key_length, suite.digest))
        kind = bytes((KINDS[first >> 1 & 3],))
        record = header + aead.encrypt((iv ^ numbers[of_client]).to_bytes(12), inner + kind, header)
        numbers[of_client] += 1
        yield begun.tcp(at, places[of_client], record, of_client=of_client)
        places[of_client] += len(record)


@cache
def read(name: str) -> tuple[Frame, ...]:
    """The frames of a recording whose secrets are known."""
    with read_capture(io.BytesIO((DECRYPTED / f"{name}.pcap").read_bytes())) as reader:
        return tuple(event for event in reader if isinstance(event, Frame))


@dataclass(frozen=True, slots=True)
class Begun:
    """A recorded handshake, and what it takes to go on from it; by whether it is the client's."""

    key_log: bytes
    frames: tuple[Frame, ...]
    headers: dict[bool, bytes]
    places: dict[bool, int]
    ids: dict[bool, bytes]
    secrets: dict[bool, bytes]
    suite: Suite
    quic_keys: dict[bool, PacketKeys]

    def events(self) -> Iterator[Event]:
        """What was recorded."""
        yield Secrets(self.key_log)
        yield from self.frames

    def udp(self, at: int, payload: bytes, *, of_client: bool) -> Frame:
        """A datagram after it."""
        header = self.headers[of_client][UDP_AT : UDP_AT + 4] + (8 + len(payload)).to_bytes(2) + bytes(2)
        return self._frame(at, header + payload, of_client=of_client)

    def tcp(self, at: int, place: int, payload: bytes, *, of_client: bool) -> Frame:
        """A segment after it."""
        header = self.headers[of_client]
        made = header[UDP_AT : UDP_AT + 4] + (place & 0xFFFFFFFF).to_bytes(4) + bytes(4) + b"\x50\x10" + bytes(6)
        return self._frame(at, made + payload, of_client=of_client)

    def _frame(self, at: int, payload: bytes, *, of_client: bool) -> Frame:
        header = self.headers[of_client]
        data = header[:18] + (len(payload) & 0xFFFF).to_bytes(2) + header[20:UDP_AT] + payload
        last = self.frames[-1]
        return Frame(last.number + 1 + at, last.time_ns + (1 + at) * MS, ETHERNET, data, len(data))


@cache
def recorded(name: str, count: int) -> Begun:
    """The first frames of a recording over IPv6, in which the handshake is complete."""
    key_log = (DECRYPTED / f"{name}.keys").read_bytes()
    frames = read(name)[:count]
    subject = Engine("fuzz", None)
    opened: list[Connection] = []
    facts = [PacketDecoder().decode(frame) for frame in frames]
    headers, places = {}, {}
    for frame, fact in zip(frames, facts, strict=True):
        of_client = frame.data[PORT] == frames[0].data[PORT]
        headers[of_client] = frame.data[: UDP_AT + 4]
        if isinstance(fact, TcpSegment):
            places[of_client] = fact.seq + fact.length + bool(fact.flags & SYN)
        subject.tracker.feed(frame)
        opened += subject.tracker.take().opened
    lines = [line.split() for line in key_log.splitlines()]
    (connection,) = opened
    assert connection.hello is not None
    random = connection.hello.random.hex().encode()
    secrets = {
        side == b"CLIENT": bytes.fromhex(secret.decode())
        for side, secret in (
            (label[:6], secret) for label, of, secret in lines if label.endswith(b"TRAFFIC_SECRET_0") and of == random
        )
    }
    suite = TLS13_SUITES[0x1302 if len(secrets[True]) == 48 else 0x1301]
    version = known(V1)
    assert version is not None
    keys = {side: packet_keys(secret, suite, version.label_prefix) for side, secret in secrets.items()}
    ids = {True: getattr(connection, "server_scid", b""), False: getattr(connection, "client_scid", b"")}
    return Begun(key_log, frames, headers, places, ids, secrets, suite, keys)


def _seal(keys: PacketKeys, dcid: bytes, number: int, payload: bytes) -> bytes:
    """A 1-RTT packet (RFC 9001, 5.3 and 5.4), its number in four bytes."""
    header = b"\x43" + dcid + number.to_bytes(4)
    sealed = keys.seal(number, payload, header)
    mask = keys.mask(sealed[:16])
    masked = int.from_bytes(header[-4:]) ^ int.from_bytes(mask[1:5])
    return bytes((header[0] ^ mask[0] & 0x1F,)) + dcid + masked.to_bytes(4) + sealed
