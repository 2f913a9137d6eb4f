"""Real TLS and QUIC in memory, with the secrets that their clients log, as packets for a tracker."""

from __future__ import annotations

import contextlib
import io
import ssl
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import StreamReset

from h3probe.events import Endpoint, Secrets, ToldAltSvc, ToldExchange
from h3probe.track.tracker import Tracker
from h3probe.wire.packet import ACK, FIN, SYN, TcpSegment, UdpDatagram
from tests.track.builders import CLIENT, MS, SERVER, START, to_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from aioquic.tls import CipherSuite, SessionTicket

    from h3probe.events import Frame, Told
    from h3probe.lab.authority import Authority

Fields = list[tuple[bytes, bytes]]

SECRET_COOKIE = b"session=do-not-look-at-this"
ALT_SVC = b'h3=":443"; ma=60'


def request_fields(path: str = "/", method: str = "GET") -> Fields:
    """The fields of a request as browsers send it, a cookie and a token included."""
    return [
        (b":method", method.encode()),
        (b":scheme", b"https"),
        (b":authority", b"example.com"),
        (b":path", path.encode()),
        (b"user-agent", b"an agent with a long name that goes into the table"),
        (b"cookie", SECRET_COOKIE),
        (b"authorization", b"Bearer do-not-look-at-this"),
    ]


def response_fields(status: int = 200, *, alt_svc: bool = False) -> Fields:
    """The fields of a response."""
    fields = [(b":status", str(status).encode()), (b"server", b"a server"), (b"set-cookie", SECRET_COOKIE)]
    return [*fields, (b"alt-svc", ALT_SVC)] if alt_svc else fields


def told(secrets: str | bytes, frames: Iterable[Frame]) -> list[Told]:
    """What a tracker reads out of frames with these secrets, which it gets before them."""
    tracker = Tracker()
    tracker.add_secrets(Secrets(secrets.encode() if isinstance(secrets, str) else secrets))
    events: list[Told] = []
    for frame in frames:
        tracker.feed(frame)
        events += tracker.take().decrypted
    tracker.finish()
    return events + tracker.take().decrypted


def exchanges(events: Iterable[Told]) -> list[tuple[str, int | None]]:
    """Path and status of each exchange."""
    return [(e.url.removeprefix(e.origin), e.status) for e in events if isinstance(e, ToldExchange)]


def alt_svc(events: Iterable[Told]) -> list[tuple[str, ...]]:
    """The Alt-Svc lines of each response that had any."""
    return [e.lines for e in events if isinstance(e, ToldAltSvc)]


@dataclass(slots=True)
class QuicPair:
    """A client and a server with HTTP/3, and what went between them.

    Args:
        authority: Whose certificate the server has.
        suites: What the client offers; aioquic's choice where there are none.
        version: Of QUIC.
        ticket: Of an earlier connection to the same server, for 0-RTT.
        alpn: What is spoken.
    """

    authority: Authority
    suites: Sequence[CipherSuite] | None = None
    version: int | None = None
    ticket: SessionTicket | None = None
    alpn: str = "h3"
    server_takes: dict[bytes, SessionTicket] = field(default_factory=dict)
    secrets: io.StringIO = field(default_factory=io.StringIO)
    packets: list[tuple[bool, bytes]] = field(default_factory=list)
    tickets: list[SessionTicket] = field(default_factory=list)
    client: QuicConnection = field(init=False)
    server: QuicConnection = field(init=False)
    client_http: H3Connection = field(init=False)
    server_http: H3Connection = field(init=False)
    received: list[HeadersReceived] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=[self.alpn],
            server_name="localhost",
            secrets_log_file=self.secrets,
            session_ticket=self.ticket,
        )
        configuration.load_verify_locations(cafile=str(self.authority.ca_file))
        if self.suites is not None:
            configuration.cipher_suites = list(self.suites)
        if self.version is not None:
            configuration.original_version = self.version
            configuration.supported_versions = [self.version]
        self.client = QuicConnection(configuration=configuration, session_ticket_handler=self.tickets.append)
        self.client.connect(("192.0.2.2", 443), now=0.0)
        self.client_http = H3Connection(self.client)
        if self.ticket is None:
            self._make_server()

    def _make_server(self) -> None:
        configuration = QuicConfiguration(is_client=False, alpn_protocols=[self.alpn])
        configuration.load_cert_chain(self.authority.cert_file, self.authority.key_file)
        if self.version is not None:
            configuration.supported_versions = [self.version]
        self.server = QuicConnection(
            configuration=configuration,
            original_destination_connection_id=self.client.original_destination_connection_id,
            session_ticket_handler=lambda ticket: self.server_takes.__setitem__(ticket.ticket, ticket),
            session_ticket_fetcher=self.server_takes.get,
        )
        self.server_http = H3Connection(self.server)

    def pump(self, rounds: int = 10) -> None:
        """Let packets go to and fro until there are no more of them."""
        if self.ticket is not None and not hasattr(self, "server"):
            self._make_server()
        for _ in range(rounds):
            self.now += 0.01
            quiet = True
            for from_client in (True, False):
                sender, receiver = (self.client, self.server) if from_client else (self.server, self.client)
                for data, _address in sender.datagrams_to_send(now=self.now):
                    quiet = False
                    self.packets.append((from_client, data))
                    receiver.receive_datagram(data, ("192.0.2.1" if from_client else "192.0.2.2", 1), now=self.now)
                self._events(receiver, self.server_http if from_client else self.client_http)
            if quiet:
                return

    def _events(self, connection: QuicConnection, http: H3Connection) -> None:
        while (event := connection.next_event()) is not None:
            if not isinstance(event, StreamReset):
                self.received += [e for e in http.handle_event(event) if isinstance(e, HeadersReceived)]

    def ask(self, path: str = "/", method: str = "GET", *, body: bytes = b"") -> int:
        """Send a request; returns its stream."""
        stream = self.client.get_next_available_stream_id()
        self.client_http.send_headers(stream, request_fields(path, method), end_stream=not body)
        if body:
            self.client_http.send_data(stream, body, end_stream=True)
        return stream

    def answer(self, stream: int, status: int = 200, *, body: bytes = b"ok", with_alt_svc: bool = False) -> None:
        """Send a response."""
        self.server_http.send_headers(stream, response_fields(status, alt_svc=with_alt_svc))
        self.server_http.send_data(stream, body, end_stream=True)

    def exchange(self, path: str = "/", status: int = 200, *, with_alt_svc: bool = False) -> None:
        """Send a request and its response."""
        stream = self.ask(path)
        self.pump()
        self.answer(stream, status, with_alt_svc=with_alt_svc)
        self.pump()

    def frames(self) -> list[Frame]:
        """What went between them, as a capture has it."""
        return [
            to_frame(
                UdpDatagram(
                    number,
                    START + number * MS,
                    CLIENT if from_client else SERVER,
                    SERVER if from_client else CLIENT,
                    data,
                    len(data),
                )
            )
            for number, (from_client, data) in enumerate(self.packets, 1)
        ]


class TlsPair:
    """A client and a server on TLS, and the segments between them.

    Args:
        authority: Whose certificate the server has.
        folder: Where the key log goes.
        tls12: Whether TLS 1.2 is spoken.
        ciphers: The suites of TLS 1.2.
        alpn: What is spoken.
        largest: Of a segment, bytes.
        group: The only one that the server takes.
    """

    def __init__(
        self,
        authority: Authority,
        folder: Path,
        *,
        tls12: bool = False,
        ciphers: str | None = None,
        alpn: str | None = "h2",
        largest: int = 1400,
        group: str | None = None,
    ) -> None:
        self._key_log = folder / "keys.log"
        client = ssl.create_default_context(cafile=str(authority.ca_file))
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(authority.cert_file, authority.key_file)
        client.keylog_filename = str(self._key_log)
        if tls12:
            client.maximum_version = ssl.TLSVersion.TLSv1_2
        if ciphers is not None:
            client.set_ciphers(ciphers)
        if alpn is not None:
            client.set_alpn_protocols([alpn])
            server.set_alpn_protocols([alpn])
        if group is not None:
            server.set_ecdh_curve(group)
        self._largest = largest
        # By whether it is the client's: what comes in, what goes out, the TLS on them, the sequence number.
        self._in = {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}
        self._out = {True: ssl.MemoryBIO(), False: ssl.MemoryBIO()}
        self._tls = {
            True: client.wrap_bio(self._in[True], self._out[True], server_hostname="localhost"),
            False: server.wrap_bio(self._in[False], self._out[False], server_side=True),
        }
        self._sent = {True: 1000, False: 5000}
        self.segments: list[TcpSegment] = []
        self._segment(True, b"", SYN)
        self._segment(False, b"", SYN | ACK)
        self._segment(True, b"", ACK)
        for _ in range(6):
            for side in (True, False):
                with contextlib.suppress(ssl.SSLWantReadError):
                    self._tls[side].do_handshake()
                self.flush(from_client=side)

    @property
    def secrets(self) -> bytes:
        """The key log."""
        return self._key_log.read_bytes()

    def flush(self, *, from_client: bool) -> None:
        """Take what TLS has to send over to the other side."""
        data = self._out[from_client].read()
        for start in range(0, len(data), self._largest):
            self._segment(from_client, data[start : start + self._largest], ACK)
        self._in[not from_client].write(data)

    def send(self, data: bytes, *, from_client: bool) -> None:
        """Send application data."""
        if data:
            self._tls[from_client].write(data)
            self.flush(from_client=from_client)

    def received(self, *, by_client: bool) -> bytes:
        """The application data that came."""
        data = bytearray()
        while True:
            try:
                part = self._tls[by_client].read(65536)
            except ssl.SSLWantReadError:
                return bytes(data)
            if not part:
                return bytes(data)
            data += part

    def close(self) -> None:
        """The client's FIN."""
        self._segment(True, b"", ACK | FIN)
        self._segment(False, b"", ACK | FIN)

    def _segment(self, from_client: bool, payload: bytes, flags: int) -> None:  # noqa: FBT001 - a direction
        number = len(self.segments) + 1
        source, destination = (CLIENT, SERVER) if from_client else (SERVER, CLIENT)
        seq, ack = self._sent[from_client], self._sent[not from_client]
        self.segments.append(
            TcpSegment(number, START + number * MS, source, destination, seq, ack, flags, payload, len(payload))
        )
        self._sent[from_client] = seq + len(payload) + (1 if flags & (SYN | FIN) else 0)

    def frames(self) -> list[Frame]:
        """The segments, as a capture has them."""
        return [to_frame(segment) for segment in self.segments]


class Http2Pair:
    """HTTP/2 on a `TlsPair`."""

    def __init__(self, tls: TlsPair) -> None:
        self.tls = tls
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.client.initiate_connection()
        self.server.initiate_connection()
        self.pump()
        self._streams = count(1, 2)

    def pump(self) -> None:
        """Let frames go to and fro."""
        for _ in range(4):
            self.tls.send(self.client.data_to_send(), from_client=True)
            if data := self.tls.received(by_client=False):
                self.server.receive_data(data)
            self.tls.send(self.server.data_to_send(), from_client=False)
            if data := self.tls.received(by_client=True):
                self.client.receive_data(data)

    def ask(self, path: str = "/", method: str = "GET") -> int:
        """Send a request; returns its stream."""
        stream = next(self._streams)
        self.client.send_headers(stream, request_fields(path, method), end_stream=True)
        self.pump()
        return stream

    def answer(self, stream: int, status: int = 200, *, body: bytes = b"ok", with_alt_svc: bool = False) -> None:
        """Send a response."""
        self.server.send_headers(stream, response_fields(status, alt_svc=with_alt_svc))
        self.server.send_data(stream, body, end_stream=True)
        self.pump()

    def exchange(self, path: str = "/", status: int = 200, *, with_alt_svc: bool = False) -> None:
        """Send a request and its response."""
        self.answer(self.ask(path), status, with_alt_svc=with_alt_svc)


__all__ = ["CLIENT", "SERVER", "Endpoint", "Http2Pair", "QuicPair", "TlsPair", "alt_svc", "exchanges", "told"]
