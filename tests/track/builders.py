"""Builds conversations for the tests of the trackers: facts, hellos, and a tracker that listens to them."""

from __future__ import annotations

import struct
from itertools import count
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from h3probe.events import Endpoint, Frame
from h3probe.track.clock import Clock
from h3probe.track.mark import Mark
from h3probe.track.quic_tracker import QuicTracker
from h3probe.track.tcp_tracker import TcpTracker
from h3probe.track.timeline import Timeline
from h3probe.wire.packet import ACK, FIN, RST, SYN, IcmpError, TcpSegment, UdpDatagram
from h3probe.wire.quic.versions import V1, known
from h3probe.wire.tls_hello import HELLO_RETRY_REQUEST
from tests.wire import hello_builder, quic_builder

if TYPE_CHECKING:
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.wire.icmp import Kind

CLIENT = Endpoint(bytes([192, 0, 2, 1]), 50000)
SERVER = Endpoint(bytes([198, 51, 100, 2]), 443)
MS = 1_000_000
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND

DCID = bytes.fromhex("d0d1d2d3d4d5d6d7")
CLIENT_ID = bytes.fromhex("c0c1c2c3c4")
SERVER_ID = bytes.fromhex("50515253545556")
SECOND_DCID = bytes.fromhex("e0e1e2e3e4e5e6e7")
SECOND_ID = bytes.fromhex("f0f1f2f3f4")
UNKNOWN = 0x1A2A3A4A
"""A version of QUIC that nobody has."""
GIVEN_UP = quic_builder.close(0x0C, b"No response from peer for 30 seconds")
TLS13_CHOSEN = (43, b"\x03\x04")


def client_hello(
    sni: bytes | None = b"example.com", protocols: tuple[bytes, ...] = (b"h3",), *, pad: int = 0, early: bool = False
) -> bytes:
    """A ClientHello of TLS 1.3 with its message header; `pad` makes it longer, `early` announces 0-RTT data."""
    extensions = [hello_builder.supported_versions(0x0304), hello_builder.alpn(*protocols)]
    if sni is not None:
        extensions.insert(0, hello_builder.server_name(sni))
    if pad:
        extensions.append((21, bytes(pad)))
    if early:
        extensions.append((42, b""))
    return hello_builder.message(1, hello_builder.client_hello(extensions))


HELLO = client_hello()
LONG_HELLO = client_hello(pad=2500)
THIRDS = [(start, LONG_HELLO[start : start + 900]) for start in range(0, len(LONG_HELLO), 900)]


def server_hello(*, tls12: bool = False, alpn: bytes | None = None, retry: bool = False) -> bytes:
    """A ServerHello or HelloRetryRequest with its message header."""
    extensions = [] if tls12 else [TLS13_CHOSEN]
    if alpn is not None:
        extensions.append(hello_builder.alpn(alpn))
    random = HELLO_RETRY_REQUEST if retry else bytes(32)
    return hello_builder.message(2, hello_builder.server_hello(extensions, random=random))


def handshake(message: bytes) -> bytes:
    """A TLS record of handshake messages."""
    return hello_builder.record(22, message)


CHANGE_CIPHER = hello_builder.record(20, b"\x01")


def protected(length: int, kind: int = 23) -> bytes:
    """An encrypted TLS record with a fragment of `length` bytes."""
    return hello_builder.record(kind, b"\xaa" * length)


def alert(code: int, level: int = 2) -> bytes:
    """A TLS alert in the clear."""
    return hello_builder.record(21, bytes((level, code)))


TLS13_SERVER_FLIGHT = handshake(server_hello()) + CHANGE_CIPHER + protected(900) + protected(53)
TLS13_FINISHED = CHANGE_CIPHER + protected(53)
# A client's Finished at the Handshake level, and anything at the 1-RTT level.
HANDSHAKE_BODY = b"\xbb" * 40


def initial(
    message: bytes = b"",
    *,
    offset: int = 0,
    frames: bytes = b"",
    number: int = 0,
    dcid: bytes = DCID,
    scid: bytes = CLIENT_ID,
    version: int = V1,
    key_dcid: bytes | None = None,
    token: bytes = b"",
    size: int = 1200,
) -> bytes:
    """A client's Initial with a part of its ClientHello, padded to `size`."""
    payload = (quic_builder.crypto(offset, message) if message else b"") + frames
    return quic_builder.initial(
        payload, number=number, dcid=dcid, scid=scid, version=version, key_dcid=key_dcid, token=token, size=size
    )


def answer(
    message: bytes = b"",
    *,
    frames: bytes = b"",
    number: int = 0,
    dcid: bytes = CLIENT_ID,
    scid: bytes = SERVER_ID,
    version: int = V1,
    key_dcid: bytes = DCID,
    size: int = 0,
) -> bytes:
    """A server's Initial with its ServerHello."""
    payload = (quic_builder.crypto(0, message) if message else b"") + frames
    return quic_builder.initial(
        payload,
        number=number,
        dcid=dcid,
        scid=scid,
        version=version,
        key_dcid=key_dcid,
        from_client=False,
        size=size,
    )


def client_handshake(*, dcid: bytes = SERVER_ID, scid: bytes = CLIENT_ID, version: int = V1) -> bytes:
    """A client's Handshake packet."""
    return quic_builder.opaque("handshake", HANDSHAKE_BODY, dcid=dcid, scid=scid, version=version)


def server_handshake(*, dcid: bytes = CLIENT_ID, scid: bytes = SERVER_ID, version: int = V1) -> bytes:
    """A server's Handshake packet."""
    return quic_builder.opaque("handshake", HANDSHAKE_BODY, dcid=dcid, scid=scid, version=version)


def zero_rtt(*, dcid: bytes = DCID, scid: bytes = CLIENT_ID) -> bytes:
    """A client's 0-RTT packet."""
    return quic_builder.opaque("zero-rtt", HANDSHAKE_BODY, dcid=dcid, scid=scid)


def short(dcid: bytes, size: int = 60) -> bytes:
    """A 1-RTT packet to a connection ID."""
    return (b"\x41" + dcid).ljust(size, b"\xcc")


def retry(
    *,
    scid: bytes = b"retry-id",
    dcid: bytes = CLIENT_ID,
    original: bytes = DCID,
    token: bytes = b"token",
    version: int = V1,
    forged: bool = False,
) -> bytes:
    """A Retry; its integrity tag is right unless it is forged (RFC 9001, 5.8)."""
    parameters = known(version)
    assert parameters is not None
    assert parameters.retry_key is not None
    packet = quic_builder.long_header("retry", version=version, dcid=dcid, scid=scid) + token
    pseudo = bytes((len(original),)) + original + packet
    tag = AESGCM(parameters.retry_key).encrypt(parameters.retry_nonce or b"", b"", pseudo)
    return packet + (bytes(16) if forged else tag)


def to_frame(fact: UdpDatagram | TcpSegment) -> Frame:
    """The fact as an Ethernet frame, so that a `Tracker` decodes it again."""
    if isinstance(fact, UdpDatagram):
        protocol = 17
        ports = struct.pack(">HH", fact.source.port, fact.destination.port)
        header = ports + struct.pack(">HH", 8 + fact.length, 0)
    else:
        protocol = 6
        ports = struct.pack(">HH", fact.source.port, fact.destination.port)
        header = ports + struct.pack(">IIBBHHH", fact.seq, fact.ack, 0x50, fact.flags, 65535, 0, 0)
    total = 20 + len(header) + fact.length
    network = struct.pack(">BBHHHBBH", 0x45, 0, total, 1, 0, 64, protocol, 0) + fact.source.host + fact.destination.host
    data = bytes(12) + b"\x08\x00" + network + header + fact.payload
    return Frame(fact.frame, fact.time_ns, 1, data, len(data) + fact.length - len(fact.payload))


def icmp_error(
    quoted: bytes,
    mark: Mark,
    *,
    protocol: int = 17,
    kind: Kind = "port-unreachable",
    source: Endpoint = CLIENT,
    destination: Endpoint = SERVER,
) -> IcmpError:
    """An ICMP error about a packet from `source` to `destination`."""
    return IcmpError(
        frame=mark.frame or 0,
        time_ns=mark.time_ns,
        sender=destination.host,
        recipient=source.host,
        icmp_type=3,
        icmp_code=3,
        meaning=kind.replace("-", " "),
        kind=kind,
        mtu=None,
        protocol=protocol,
        source=source,
        destination=destination,
        quoted=quoted,
    )


class _Watch:
    """A timeline, frame numbers and a running time that both watches share."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.timeline = Timeline(self.clock)
        self._frames = count(1)
        self._now = START

    def stamp(self, at: float | None = None) -> tuple[int, int]:
        """The next frame's number and time: milliseconds after the start, or one after the frame before."""
        self._now = self._now + MS if at is None else START + round(at * MS)
        self.clock.see(self._now)
        return next(self._frames), self._now

    def mark(self, at: float | None) -> Mark:
        """The next frame's mark."""
        return Mark(*self.stamp(at))

    @property
    def now(self) -> int:
        """The latest time."""
        return self._now

    def said(self) -> list[str]:
        """The timeline's lines since the last call."""
        return [moment.text for moment in self.timeline.take()]


class QuicWatch(_Watch):
    """A QuicTracker, what it reported, and a way to send it datagrams.

    Args:
        limit: Of flows.

    Attributes:
        opened: Connections, as they began.
        evicted: Connections that had to leave.
        facts: Datagrams sent so far.
    """

    def __init__(self, limit: int = 100) -> None:
        super().__init__()
        self.opened: list[QuicConnection] = []
        self.evicted: list[QuicConnection] = []
        self.facts: list[UdpDatagram] = []
        ids = count(1)
        self.tracker = QuicTracker(
            self.timeline,
            lambda: f"quic-{next(ids)}",
            on_open=self.opened.append,
            on_evict=self.evicted.append,
            limit=limit,
        )

    def client(
        self, *packets: bytes, at: float | None = None, client: Endpoint = CLIENT, server: Endpoint = SERVER
    ) -> bool:
        """Packets coalesced in one datagram from the client; returns whether they were taken for QUIC."""
        return self._send(b"".join(packets), at, client, server)

    def server(
        self, *packets: bytes, at: float | None = None, client: Endpoint = CLIENT, server: Endpoint = SERVER
    ) -> bool:
        """The same from the server."""
        return self._send(b"".join(packets), at, server, client)

    def _send(self, payload: bytes, at: float | None, source: Endpoint, destination: Endpoint) -> bool:
        frame, time_ns = self.stamp(at)
        fact = UdpDatagram(frame, time_ns, source, destination, payload, len(payload))
        self.facts.append(fact)
        return self.tracker.feed(fact)

    def icmp(
        self,
        quoted: bytes,
        at: float | None = None,
        *,
        kind: Kind = "port-unreachable",
        source: Endpoint = CLIENT,
        destination: Endpoint = SERVER,
    ) -> QuicConnection | None:
        """An ICMP error about a datagram from `source` to `destination`."""
        error = icmp_error(quoted, self.mark(at), kind=kind, source=source, destination=destination)
        return self.tracker.feed_icmp(error)

    def handshake(self, at: float = 0) -> None:
        """A whole handshake of 30 ms up to the client's first 1-RTT packet."""
        self.client(initial(client_hello()), at=at)
        self.server(answer(server_hello()), server_handshake(), at=at + 10)
        self.client(initial(frames=ack(0), number=1, dcid=SERVER_ID, key_dcid=DCID), at=at + 20)
        self.client(client_handshake(), at=at + 25)
        self.client(short(SERVER_ID), at=at + 30)

    @property
    def only(self) -> QuicConnection:
        """The one connection that was seen."""
        (connection,) = self.opened
        return connection

    @property
    def history(self) -> str:
        """The one connection's letters."""
        return "".join(self.only.history)

    def outcome(self, after: float = 0) -> str | None:
        """The one connection's outcome, `after` milliseconds after the latest packet."""
        return self.only.outcome(self.now + round(after * MS))


def ack(largest: int) -> bytes:
    """An ACK frame of one packet number."""
    return b"\x02" + quic_builder.varint(largest) + b"\x00\x00\x00"


class TcpWatch(_Watch):
    """A TcpTracker, what it reported, and a way to send it segments of one connection.

    Args:
        limit: Of connections.
        client: The client's endpoint.
        server: The server's endpoint.

    Attributes:
        opened: Connections, as they began.
        evicted: Connections that had to leave, or whose ports were used anew.
        facts: Segments sent so far.
    """

    def __init__(self, limit: int = 100, client: Endpoint = CLIENT, server: Endpoint = SERVER) -> None:
        super().__init__()
        self.opened: list[TcpConnection] = []
        self.evicted: list[TcpConnection] = []
        self.facts: list[TcpSegment] = []
        self._ends = (client, server)
        self.use(client_isn=0xFFFF_FF00, server_isn=5000)  # The client's wraps around within a ClientHello.
        ids, tunnel_ids = count(1), count(1)
        self.tracker = TcpTracker(
            self.timeline,
            lambda: f"tcp-{next(ids)}",
            lambda: f"tunnel-{next(tunnel_ids)}",
            on_open=self.opened.append,
            on_evict=self.evicted.append,
            limit=limit,
        )

    def use(self, *, client_isn: int, server_isn: int, client: Endpoint | None = None) -> None:
        """Go on with other sequence numbers, and another client."""
        self._isn = (client_isn, server_isn)
        self.sent = [0, 0]
        self._ends = (client or self._ends[0], self._ends[1])

    def raw(
        self,
        side: int,
        flags: int,
        payload: bytes = b"",
        *,
        seq: int,
        at: float | None = None,
        length: int | None = None,
    ) -> None:
        """A segment of side 0 (client) or 1 (server) with a sequence number in full."""
        frame, time_ns = self.stamp(at)
        acked = (self._isn[1 - side] + 1 + self.sent[1 - side]) & 0xFFFF_FFFF if flags & ACK else 0
        size = len(payload) if length is None else length
        source, destination = self._ends[side], self._ends[1 - side]
        fact = TcpSegment(frame, time_ns, source, destination, seq & 0xFFFF_FFFF, acked, flags, payload, size)
        self.facts.append(fact)
        self.tracker.feed(fact)

    def syn(self, at: float | None = None) -> None:
        """The client's SYN."""
        self.raw(0, SYN, seq=self._isn[0], at=at)

    def synack(self, at: float | None = None) -> None:
        """The server's SYN-ACK."""
        self.raw(1, SYN | ACK, seq=self._isn[1], at=at)

    def ack(self, at: float | None = None) -> None:
        """An ACK of the client without payload."""
        self.raw(0, ACK, seq=self._isn[0] + 1 + self.sent[0], at=at)

    def connect(self, at: float = 0) -> None:
        """The three-way handshake, 10 ms a step."""
        self.syn(at)
        self.synack(at + 10)
        self.ack(at + 20)

    def client(self, payload: bytes, at: float | None = None, *, offset: int | None = None) -> None:
        """Payload of the client, next in its stream or at an offset of it."""
        self._payload(0, payload, at, offset)

    def server(self, payload: bytes, at: float | None = None, *, offset: int | None = None) -> None:
        """Payload of the server."""
        self._payload(1, payload, at, offset)

    def _payload(self, side: int, payload: bytes, at: float | None, offset: int | None) -> None:
        start = self.sent[side] if offset is None else offset
        self.raw(side, ACK, payload, seq=self._isn[side] + 1 + start, at=at)
        self.sent[side] = max(self.sent[side], start + len(payload))

    def end(self, side: int, flags: int = FIN | ACK, at: float | None = None) -> None:
        """A FIN, or with `flags` a RST, of side 0 (client) or 1 (server)."""
        self.raw(side, flags, seq=self._isn[side] + 1 + self.sent[side], at=at)

    def finish_tls(self) -> None:
        """The rest of a TLS 1.3 handshake after the ClientHello, and a request and its response."""
        self.server(TLS13_SERVER_FLIGHT)
        self.client(TLS13_FINISHED)
        self.client(protected(100))
        self.server(protected(200))

    def reset(self, side: int, at: float | None = None) -> None:
        """A RST."""
        self.end(side, RST | ACK, at)

    def icmp(self, quoted: bytes = b"", at: float | None = None, *, kind: Kind = "port-unreachable") -> None:
        """An ICMP error about a segment of the client."""
        source, destination = self._ends
        error = icmp_error(quoted, self.mark(at), protocol=6, kind=kind, source=source, destination=destination)
        self.tracker.feed_icmp(error)

    @property
    def only(self) -> TcpConnection:
        """The one connection that was seen."""
        (connection,) = self.opened
        return connection

    def outcome(self, after: float = 0) -> str | None:
        """The one connection's outcome, `after` milliseconds after the latest segment."""
        return self.only.outcome(self.now + round(after * MS))
