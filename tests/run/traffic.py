"""Frames of made-up conversations on loopback, for the tests of what surrounds the engine."""

from __future__ import annotations

from itertools import count

from h3probe.events import Endpoint, Frame
from h3probe.vantage import synthesis
from h3probe.vantage.synthesis import ACK, FIN, LINKTYPE_RAW, PSH, SYN, Segment
from tests.wire import hello_builder, quic_builder

CLIENT = Endpoint(bytes([127, 0, 0, 1]), 50000)
SERVER = Endpoint(bytes([127, 0, 0, 1]), 4433)
ELSEWHERE = Endpoint(bytes([192, 0, 2, 1]), 50000)
START_NS = 1_780_000_000_000_000_000
MS = 1_000_000


class Traffic:
    """Numbers frames and gives each one a millisecond.

    Args:
        client: Who begins.
        server: Who answers.
        start_ns: When the first frame comes.
    """

    def __init__(self, client: Endpoint = CLIENT, server: Endpoint = SERVER, start_ns: int = START_NS) -> None:
        self.client, self.server = client, server
        self._numbers = count(1)
        self._start_ns = start_ns
        self._sequence = {True: 1000, False: 5000}

    def frame(self, packet: bytes) -> Frame:
        """A frame that holds an IP packet."""
        number = next(self._numbers)
        return Frame(number, self._start_ns + number * MS, LINKTYPE_RAW, packet, len(packet), "lo")

    def udp(self, payload: bytes, *, back: bool = False) -> Frame:
        """A datagram from the client, or back to it."""
        near, far = (self.server, self.client) if back else (self.client, self.server)
        return self.frame(synthesis.udp(near, far, payload))

    def initial(self) -> Frame:
        """A client's Initial with a whole ClientHello."""
        hello = hello_builder.message(1, hello_builder.client_hello([hello_builder.alpn(b"h3")]))
        crypto = b"\x06\x00" + quic_builder.varint(len(hello)) + hello
        return self.udp(quic_builder.initial(crypto, size=1200))

    def tcp(self, payload: bytes = b"", *, flags: int = ACK | PSH, back: bool = False) -> Frame:
        """A segment from the client, or back to it."""
        near, far = (self.server, self.client) if back else (self.client, self.server)
        segment = Segment(flags, self._sequence[not back], self._sequence[back], payload)
        self._sequence[not back] += len(payload) + bool(flags & (SYN | FIN))
        return self.frame(synthesis.tcp(near, far, segment))

    def connected(self) -> list[Frame]:
        """The three segments of a TCP handshake."""
        return [self.tcp(flags=SYN), self.tcp(flags=SYN | ACK, back=True), self.tcp(flags=ACK)]
