"""One QUIC connection whose secrets are known: from packets to the heads of its HTTP/3 messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.track.clock import NS
from h3probe.track.decrypted_exchanges import CLOSED, Exchanges
from h3probe.track.table import BoundedTable
from h3probe.wire.cipher_suites import TLS13_SUITES
from h3probe.wire.http3 import Http3Reader, TableCapacity
from h3probe.wire.http_fields import Request
from h3probe.wire.quic.errors import error_name
from h3probe.wire.quic.frames import ConnectionClose, Crypto, parse_frames
from h3probe.wire.quic.one_rtt import OneRttKeys
from h3probe.wire.quic.packets import ShortPacket
from h3probe.wire.quic.protection import open_packet, packet_keys
from h3probe.wire.quic.stream_frames import NewConnectionId, StreamData, StreamReset, parse_stream_frames
from h3probe.wire.quic.versions import known
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls import handshake_messages
from h3probe.wire.tls_hello import parse_encrypted_extensions

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Told
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.cipher_suites import Suite
    from h3probe.wire.http3 import Http3Fact
    from h3probe.wire.keylog import KeyLog, SessionSecrets
    from h3probe.wire.quic.packets import LongPacket
    from h3probe.wire.quic.protection import PacketKeys
    from h3probe.wire.quic.stream_frames import StreamFrame

# Packets that are kept until the hellos and the server's extensions are known: 0-RTT, and what was overtaken.
WAITING_LIMIT = 32
# The same where the client is writing its secrets still, for as long as that may take it.
GROWING_LIMIT = 1_024
GROWING_NS = 60 * NS
# How far ahead of a hole in a stream the bytes behind it are kept; heads of messages need no more.
WINDOW = 256 << 10
STREAMS_LIMIT = 512
# Streams of which all that is wanted was read: what comes on them is passed over.
DONE_LIMIT = 8_192
ENCRYPTED_EXTENSIONS = 8
CONNECTION_ID_LENGTHS = 4
# EncryptedExtensions come first, and are short; certificates may follow.
LONGEST_EXTENSIONS = 16 << 10
FINAL = 200


@dataclass(slots=True)
class _Side:
    """One direction.

    Attributes:
        keys: Of its 1-RTT packets.
        reader: What its streams say.
        streams: Streams of which bytes are still wanted.
        done: Streams of which nothing more is.
        lengths: Of the connection IDs that its packets begin with, the usual one first.
    """

    keys: OneRttKeys
    reader: Http3Reader
    streams: BoundedTable[int, Reassembler] = field(default_factory=lambda: BoundedTable(STREAMS_LIMIT))
    done: BoundedTable[int, bool] = field(default_factory=lambda: BoundedTable(DONE_LIMIT))
    lengths: list[int] = field(default_factory=list)
    held: int = 0


class QuicFollower:
    """Follows one connection; a stream that cannot be followed is let go of, the others go on.

    Args:
        connection: The connection, which the tracker goes on filling.
        keys: The secrets known.
        tell: Takes each event.

    Attributes:
        over: Whether nothing more is to be had from it.
    """

    def __init__(self, connection: QuicConnection, keys: KeyLog, tell: Callable[[Told], None]) -> None:
        self.over = False
        self._connection = connection
        self._log = keys
        self._tell = tell
        self._suite: Suite | None = None
        self._secrets: SessionSecrets | None = None
        self._waiting: list[tuple[LongPacket | ShortPacket, int, bool]] = []
        self._waiting_bytes = 0
        self._handshake: Reassembler | None = Reassembler(limit=64 << 10)
        self._handshake_keys: PacketKeys | None = None
        self._handshake_largest = -1
        self._early_keys: PacketKeys | None = None
        self._early_accepted = False
        self._sides: dict[bool, _Side] | None = None
        self._exchanges: Exchanges | None = None

    @property
    def held(self) -> int:
        """Bytes that wait for something."""
        handshake = self._handshake.held if self._handshake is not None else 0
        sides = self._sides.values() if self._sides is not None else ()
        return self._waiting_bytes + handshake + sum(side.held + side.reader.held for side in sides)

    @property
    def wants(self) -> bytes | None:
        """The random of the session whose secrets it waits for."""
        hello = self._connection.hello
        return hello.random if hello is not None and self._suite is None and self._waiting else None

    def retry(self) -> None:
        """There are more secrets: read what has waited for them."""
        if self.over or self._suite is not None:
            return
        try:
            self._learn_secrets()
        except DecodeError:
            self.give_up()

    def give_up(self) -> None:
        """Tell nothing more of it."""
        self.over = True
        self._waiting, self._waiting_bytes = [], 0
        self._handshake = self._handshake_keys = self._early_keys = self._secrets = None
        self._sides = self._exchanges = None

    def feed(self, packet: LongPacket | ShortPacket, time_ns: int, *, from_client: bool) -> None:
        """Take a packet that the tracker has taken."""
        if self.over:
            return
        try:
            self._take(packet, time_ns, from_client=from_client)
        except DecodeError:
            self.give_up()

    def end(self) -> None:
        """The connection is settled: requests that wait get no response, if it was seen to end, and all of it was."""
        ended = self._connection.ended
        if ended is not None:
            self._ended(ended.time_ns, CLOSED)
        if self._exchanges is not None:
            self._connection.missed = self._exchanges.missed
            self._connection.laid_open = self._complete and not (self._exchanges.pending or self._exchanges.missed)
        self.give_up()

    def _ended(self, time_ns: int, error: str) -> None:
        if self._exchanges is not None and self._complete:
            self._exchanges.ended(time_ns, error)

    @property
    def _complete(self) -> bool:
        """Whether no response can have been missed."""
        return self._sides is not None and self._sides[False].keys.complete

    def _take(self, packet: LongPacket | ShortPacket, time_ns: int, *, from_client: bool) -> None:
        if self._suite is None:
            self._learn_secrets()
        if isinstance(packet, ShortPacket):
            if self._sides is None:
                self._wait(packet, time_ns, from_client=from_client)
            else:
                self._short(packet, time_ns, from_client=from_client)
        elif packet.kind == "zero-rtt" and from_client:
            if self._handshake is not None:
                self._wait(packet, time_ns, from_client=True)
            else:
                self._early(packet, time_ns)
        elif packet.kind == "handshake" and not from_client:
            if self._suite is None:
                self._wait(packet, time_ns, from_client=False)
            else:
                self._server_handshake(packet)

    def _wait(self, packet: LongPacket | ShortPacket, time_ns: int, *, from_client: bool) -> None:
        """Keep a packet for later; one too many is as if it had been lost, or there are no secrets for it."""
        limit = GROWING_LIMIT if self._log.growing else WAITING_LIMIT
        late = self._log.growing and self._waiting and time_ns - self._waiting[0][1] > GROWING_NS
        if self._suite is None and (late or len(self._waiting) >= limit):
            self.give_up()
        elif len(self._waiting) < limit:
            self._waiting.append((packet, time_ns, from_client))
            self._waiting_bytes += len(packet.data)

    def _retry(self) -> None:
        """Take again what had to wait; what must wait still, does."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for packet, time_ns, from_client in waiting:
            self._take(packet, time_ns, from_client=from_client)

    def _learn_secrets(self) -> None:
        """Set up the keys once both hellos, and the secrets that belong to them, are known."""
        connection = self._connection
        hello, server_hello, version = connection.hello, connection.server_hello, known(connection.version)
        if hello is None or server_hello is None or version is None or not hello.random:
            return
        secrets = self._log.get(hello.random)
        if secrets is None or secrets.client_application is None or secrets.server_application is None:
            return  # They may be written still.
        suite = TLS13_SUITES.get(server_hello.cipher_suite)
        if suite is None:
            raise DecodeError("an unknown suite")
        self._suite, self._secrets = suite, secrets
        if secrets.server_handshake is not None:
            self._handshake_keys = packet_keys(secrets.server_handshake, suite, version.label_prefix)
        if hello.alpn and all(is_http3(protocol) for protocol in hello.alpn):
            self._begin()  # The server can choose nothing else.
        self._retry()

    def _begin(self) -> None:
        connection, suite, secrets = self._connection, self._suite, self._secrets
        version = known(connection.version)
        if self._sides is not None or suite is None or secrets is None or version is None:
            return
        self._sides = {}
        for from_client, secret in ((True, secrets.client_application), (False, secrets.server_application)):
            keys = OneRttKeys(secret or b"", suite, version.label_prefix)
            dcid = connection.server_scid if from_client else connection.client_scid
            side = _Side(keys, Http3Reader(from_client=from_client), lengths=[len(dcid or b"")])
            self._sides[from_client] = side
        self._exchanges = Exchanges(connection, "HTTP/3", self._tell)

    def _server_handshake(self, packet: LongPacket) -> None:
        """Read the server's extensions out of its handshake."""
        if self._handshake is None or self._handshake_keys is None:
            return
        try:
            opened = open_packet(self._handshake_keys, packet, self._handshake_largest)
            frames = parse_frames(opened.payload)
        except DecodeError:
            return
        self._handshake_largest = max(self._handshake_largest, opened.packet_number)
        for frame in frames:
            if isinstance(frame, Crypto):
                self._handshake.add(frame.offset, frame.data)
        messages, _ = handshake_messages(self._handshake.contiguous[:LONGEST_EXTENSIONS])
        if not messages:
            return
        if messages[0][0] != ENCRYPTED_EXTENSIONS:
            raise DecodeError("no EncryptedExtensions where they should be")
        extensions = parse_encrypted_extensions(messages[0][1])
        self._handshake = self._handshake_keys = None
        self._early_accepted = extensions.early_data
        if extensions.alpn is None or not is_http3(extensions.alpn):
            raise DecodeError("a protocol that is not followed")
        self._begin()
        self._retry()

    def _early(self, packet: LongPacket, time_ns: int) -> None:
        """Take a 0-RTT packet; what a server refuses comes again (RFC 9001, 4.6.2)."""
        if self._early_keys is None:
            # Its version may be another one than the connection goes on with (RFC 9369, 4.1).
            version, secret = known(packet.version), self._secrets.client_early if self._secrets is not None else None
            if version is None or secret is None or self._suite is None:
                return
            self._early_keys = packet_keys(secret, self._suite, version.label_prefix)
        if not self._early_accepted:
            return
        try:
            opened = open_packet(self._early_keys, packet, -1)
        except DecodeError:
            return
        self._frames(opened.payload, time_ns, from_client=True)

    def _short(self, packet: ShortPacket, time_ns: int, *, from_client: bool) -> None:
        if self._sides is None:
            return
        side = self._sides[from_client]
        for length in side.lengths:
            try:
                opened = side.keys.open(packet.data, length)
            except DecodeError:
                continue  # Perhaps a connection ID of another length; perhaps a snaplen cut it: as good as lost.
            self._frames(opened.payload, time_ns, from_client=from_client)
            return

    def _frames(self, payload: bytes, time_ns: int, *, from_client: bool) -> None:
        frames, _ = parse_stream_frames(payload)
        for frame in frames:
            if self.over:
                return
            self._frame(frame, time_ns, from_client=from_client)

    def _frame(self, frame: StreamFrame, time_ns: int, *, from_client: bool) -> None:
        if self._sides is None or self._exchanges is None:
            return
        side = self._sides[from_client]
        who = "client" if from_client else "server"
        if isinstance(frame, StreamData):
            self._stream(side, frame, time_ns, from_client=from_client)
        elif isinstance(frame, StreamReset):
            # A server's tells how much it had sent: what was all seen holds no response that was missed.
            stream = side.streams.get(frame.stream)
            seen = not from_client and frame.size <= (stream.taken if stream is not None else 0)
            _finish(side, frame.stream)
            if seen or self._complete:
                name = error_name(frame.code, application=True) or f"0x{frame.code:x}"
                self._exchanges.failed(frame.stream, time_ns, f"the {who} reset the stream: {name}")
        elif isinstance(frame, NewConnectionId):
            # It is for the other side to send to.
            lengths = self._sides[not from_client].lengths
            if frame.length not in lengths and len(lengths) < CONNECTION_ID_LENGTHS:
                lengths.append(frame.length)
        elif isinstance(frame, ConnectionClose):
            name = error_name(frame.code, application=frame.application) or f"0x{frame.code:x}"
            self._ended(time_ns, f"the {who} closed the connection: {name}")

    def _stream(self, side: _Side, frame: StreamData, time_ns: int, *, from_client: bool) -> None:
        if frame.stream in side.done or not side.reader.reads(frame.stream):
            return
        stream = side.streams.get(frame.stream)
        if stream is None:
            stream = Reassembler(limit=WINDOW)
            for gone in side.streams.put(frame.stream, stream):
                side.held -= gone.held
        before = stream.held
        stream.add(frame.offset, frame.data)
        data = stream.take()
        side.held += stream.held - before
        if data:
            try:
                facts = side.reader.feed(frame.stream, data)
            except DecodeError:
                _finish(side, frame.stream)
                return
            for fact in facts:
                self._fact(side, fact, time_ns, from_client=from_client)
        if stream.overflow:
            _finish(side, frame.stream)

    def _fact(self, side: _Side, fact: Http3Fact, time_ns: int, *, from_client: bool) -> None:
        if self._sides is None or self._exchanges is None:
            return
        if isinstance(fact, TableCapacity):
            other = self._sides[not from_client]
            for head in other.reader.allow_table(fact.capacity):
                self._fact(other, head, time_ns, from_client=not from_client)
        elif isinstance(fact, Request):
            _finish(side, fact.stream)
            self._exchanges.request(fact, time_ns)
        else:
            if fact.status >= FINAL:
                _finish(side, fact.stream)
            self._exchanges.response(fact, time_ns)


def _finish(side: _Side, stream: int) -> None:
    """Nothing more is wanted of a stream in that direction."""
    side.done.put(stream, value=True)
    gone = side.streams.pop(stream)
    if gone is not None:
        side.held -= gone.held
    side.reader.forget(stream)


def is_http3(protocol: str) -> bool:
    """Whether an ALPN name is HTTP/3's, or that of one of its drafts."""
    return protocol == "h3" or protocol.startswith("h3-")
