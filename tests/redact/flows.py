"""Frames of two hosts with names worth hiding, for the tests of what rewrites packets."""

from __future__ import annotations

import struct
from itertools import count

from h3probe.events import Endpoint, Frame
from h3probe.redact import Mapping, Redactor
from h3probe.vantage import synthesis
from h3probe.wire.packet import Fact, PacketDecoder, TcpSegment, UdpDatagram
from tests.wire import hello_builder

KEY = bytes(range(32))
NAME = b"www.secret-host.org"
CLIENT = Endpoint(bytes((192, 168, 7, 23)), 50123)
SERVER = Endpoint(bytes((93, 184, 216, 34)), 443)
STATIONS = bytes.fromhex("005056aabb01"), bytes.fromhex("005056aabb02")
START_NS = 1_780_000_000_000_000_000
MS = 1_000_000
ETHERNET = 1


def hello(name: bytes = NAME, *extensions: tuple[int, bytes], protocol: bytes = b"h3") -> bytes:
    """A ClientHello message."""
    offered = [hello_builder.server_name(name), hello_builder.alpn(protocol), hello_builder.supported_versions(0x0304)]
    return hello_builder.message(1, hello_builder.client_hello([*offered, *extensions]))


def server_hello(version: int = 0x0304) -> bytes:
    """A ServerHello message of TLS 1.3, or of 1.2."""
    extensions = [(43, version.to_bytes(2))] if version == 0x0304 else []
    return hello_builder.message(2, hello_builder.server_hello(extensions))


class Wire:
    """Numbers frames of Ethernet, gives each a millisecond, and counts each side's sequence numbers."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.sequence = {True: 1000, False: 5000}

    def frame(self, packet: bytes, *, back: bool = False, ethertype: int = 0x0800, length: int | None = None) -> Frame:
        """An Ethernet frame."""
        near, far = reversed(STATIONS) if back else STATIONS
        data = far + near + struct.pack(">H", ethertype) + packet
        number = next(self._numbers)
        return Frame(number, START_NS + number * MS, ETHERNET, data, len(data) if length is None else length)

    def udp(self, payload: bytes, *, back: bool = False) -> Frame:
        """A datagram from the client, or back."""
        near, far = (SERVER, CLIENT) if back else (CLIENT, SERVER)
        return self.frame(synthesis.udp(near, far, payload), back=back)

    def tcp(self, payload: bytes = b"", *, flags: int = 0x18, back: bool = False, seq: int | None = None) -> Frame:
        """A segment from the client, or back; with `seq` one that does not move its side on."""
        near, far = (SERVER, CLIENT) if back else (CLIENT, SERVER)
        at = self.sequence[not back] if seq is None else seq
        if seq is None:
            self.sequence[not back] += len(payload) + bool(flags & 0x03)
        return self.frame(
            synthesis.tcp(near, far, synthesis.Segment(flags, at, self.sequence[back], payload)), back=back
        )

    def connected(self) -> list[Frame]:
        """The three segments that open a connection."""
        return [self.tcp(flags=0x02), self.tcp(flags=0x12, back=True), self.tcp(flags=0x10)]


def redacted(frames: list[Frame], mapping: Mapping | None = None) -> list[Frame]:
    """All frames through one redactor."""
    redactor = Redactor(mapping or Mapping(KEY))
    made = [out for frame in frames for out in redactor.frame(frame)]
    return made + redactor.finish()


def facts(frames: list[Frame]) -> list[Fact | None]:
    """What h3probe reads in them."""
    decoder = PacketDecoder()
    return [decoder.decode(frame) for frame in frames]


def payloads(frames: list[Frame]) -> list[bytes]:
    """What datagrams and segments carry."""
    return [fact.payload for fact in facts(frames) if isinstance(fact, UdpDatagram | TcpSegment)]
