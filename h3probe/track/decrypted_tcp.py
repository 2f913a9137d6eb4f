"""One TCP connection whose TLS secrets are known: from segments to the heads of its HTTP messages."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.track.clock import NS
from h3probe.track.decrypted_exchanges import Exchanges
from h3probe.track.decrypted_tls import DecryptedTls, has_all
from h3probe.wire.http1_stream import Http1Reader
from h3probe.wire.http2 import Http2Reader, TableSize, error_name
from h3probe.wire.http_fields import Request, Response
from h3probe.wire.packet import FIN, SYN
from h3probe.wire.reassembly import Reassembler

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Told
    from h3probe.track.tcp import TcpConnection
    from h3probe.wire.keylog import KeyLog
    from h3probe.wire.packet import TcpSegment

# Payload that is kept while it is not known whether there are secrets for it: a ClientHello of the largest kind.
WAITING_LIMIT = 80 << 10
# The same where the client is writing its secrets still, for as long as that may take it.
GROWING_LIMIT = 1 << 20
GROWING_NS = 60 * NS
# How far ahead of a hole in a stream the bytes behind it are kept; one that is not filled by then never is.
WINDOW = 1 << 20


@dataclass(slots=True)
class _Side:
    """One direction's bytes from the start of TLS on.

    Attributes:
        base: Sequence number of the first of them.
        stream: Those that were not read yet.
        seen: How many there are, by the sequence numbers of all segments.
        end: How many there are in all; None before the FIN.
    """

    base: int
    stream: Reassembler = field(default_factory=lambda: Reassembler(limit=WINDOW))
    seen: int = 0
    end: int | None = None

    def add(self, segment: TcpSegment) -> bytes:
        """Take a segment's payload; return the bytes that are in order now.

        Raises:
            DecodeError: Bytes are missing for good.
        """
        seq = segment.seq + (1 if segment.flags & SYN else 0)
        ahead = ((seq - self.base - self.seen + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
        offset = self.seen + ahead
        self.seen = max(self.seen, offset + segment.length)
        if segment.flags & FIN:
            self.end = offset + segment.length
        if not self.stream.add(offset, segment.payload):
            if self.stream.overflow:
                raise DecodeError("bytes are missing")
            return b""
        return self.stream.take()

    @property
    def whole(self) -> bool:
        """Whether no byte is missing of what is known to have been sent."""
        # The FIN takes a sequence number too.
        return self.stream.taken >= (self.seen if self.end is None else min(self.seen, self.end))


class TcpFollower:
    """Follows one connection; what cannot be followed any further is let go of, and nothing more is told of it.

    Args:
        connection: The connection, which the tracker goes on filling.
        keys: The secrets known.
        tell: Takes each event.
        may_tell: Whether a connection is the one that tells of a session, by the random of its ClientHello.

    Attributes:
        over: Whether nothing more is to be had from it.
    """

    def __init__(
        self,
        connection: TcpConnection,
        keys: KeyLog,
        tell: Callable[[Told], None],
        may_tell: Callable[[TcpConnection, bytes], bool],
    ) -> None:
        self.over = False
        self._connection = connection
        self._keys = keys
        self._tell = tell
        self._may_tell = may_tell
        self._waiting: list[TcpSegment] = []
        self._waiting_bytes = 0
        self._sides: dict[bool, _Side] | None = None
        self._tls: DecryptedTls | None = None
        self._readers: dict[bool, Http1Reader] | dict[bool, Http2Reader] | None = None
        self._exchanges: Exchanges | None = None

    @property
    def held(self) -> int:
        """Bytes that wait for something."""
        sides = sum(side.stream.held for side in self._sides.values()) if self._sides is not None else 0
        readers = sum(reader.held for reader in self._readers.values()) if self._readers is not None else 0
        return self._waiting_bytes + sides + readers + (self._tls.held if self._tls is not None else 0)

    @property
    def wants(self) -> bytes | None:
        """The random of the session whose secrets it waits for."""
        tls = self._connection.tls
        return tls.hello.random if tls is not None and tls.hello is not None and self._waiting else None

    def retry(self) -> None:
        """There are more secrets: read what has waited for them."""
        if self.over or self._tls is not None:
            return
        try:
            self._learn_secrets()
        except DecodeError:
            self.give_up()

    def give_up(self) -> None:
        """Tell nothing more of it."""
        self.over = True
        self._waiting, self._waiting_bytes = [], 0
        self._sides = self._tls = self._readers = self._exchanges = None

    def feed(self, segment: TcpSegment) -> None:
        """Take a segment that the tracker has taken."""
        if self.over:
            return
        try:
            if self._tls is None:
                self._wait(segment)
            else:
                self._segment(segment)
        except DecodeError:
            self.give_up()

    def end(self) -> None:
        """The connection is settled: requests that wait get no response, if it was seen to end, and all of it was."""
        ended, sides = self._connection.ended, self._sides
        whole = sides is not None and all(side.whole for side in sides.values())
        if self._exchanges is not None and whole:
            if ended is not None:
                self._exchanges.ended(ended[0].time_ns)
            self._connection.laid_open = not (self._exchanges.pending or self._exchanges.missed)
        self._connection.missed = self._exchanges is not None and self._exchanges.missed
        self.give_up()

    def _wait(self, segment: TcpSegment) -> None:
        """Keep a segment until both hellos are known, and the secrets that belong to them."""
        connection = self._connection
        if not segment.length:
            return
        self._waiting.append(segment)
        self._waiting_bytes += len(segment.payload)
        if self._learn_secrets():
            return
        limit = GROWING_LIMIT if self._keys.growing else WAITING_LIMIT
        late = self._keys.growing and segment.time_ns - self._waiting[0].time_ns > GROWING_NS
        if late or self._waiting_bytes > limit or (connection.plain and connection.tunnels is None):
            self.give_up()

    def _learn_secrets(self) -> bool:
        """Go on with what has waited once both hellos, and the secrets that belong to them, are known."""
        tls, streams = self._connection.tls, (self._connection.client_stream, self._connection.server_stream)
        if tls is None or tls.hello is None or not tls.hello.random:
            return False
        if not self._may_tell(self._connection, tls.hello.random):
            raise DecodeError("another connection's session, passed on")
        if tls.server_hello is None:
            return False
        secrets = self._keys.get(tls.hello.random)
        bases = (streams[0].base, streams[1].base)
        if secrets is None or not has_all(secrets, tls.server_hello) or bases[0] is None or bases[1] is None:
            return False
        self._tls = DecryptedTls(tls.hello, tls.server_hello, secrets)
        client_at, server_at = self._connection.tls_at
        self._sides = {True: _Side(bases[0] + client_at), False: _Side(bases[1] + server_at)}
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for each in waiting:
            self._segment(each)
        return True

    def _segment(self, segment: TcpSegment) -> None:
        if self._sides is None or self._tls is None:
            return
        from_client = segment.source == self._connection.client
        data = self._sides[from_client].add(segment)
        if not data:
            return
        said = self._tls.feed(data, from_client=from_client)
        if self._readers is None and self._tls.negotiated:
            self._begin(self._tls.alpn)
        if waited := self._tls.waited():
            self._read(waited, segment.time_ns, from_client=True)
        if said:
            self._read(said, segment.time_ns, from_client=from_client)

    def _begin(self, alpn: str | None) -> None:
        """Set up for the protocol that the server chose; without ALPN that is HTTP/1.1, if it is HTTP."""
        if alpn == "h2":
            self._readers = {side: Http2Reader(from_client=side) for side in (True, False)}
        elif alpn in (None, "http/1.1"):
            asked: deque[str] = deque()
            self._readers = {side: Http1Reader(from_client=side, asked=asked) for side in (True, False)}
        else:
            raise DecodeError("a protocol that is not followed")
        self._exchanges = Exchanges(self._connection, "HTTP/2" if alpn == "h2" else "HTTP/1.1", self._tell)

    def _read(self, data: bytes, time_ns: int, *, from_client: bool) -> None:
        if self._readers is None or self._exchanges is None:
            return
        for fact in self._readers[from_client].feed(data):
            if isinstance(fact, Request):
                self._exchanges.request(fact, time_ns)
            elif isinstance(fact, Response):
                self._exchanges.response(fact, time_ns)
            elif isinstance(fact, TableSize):
                other = self._readers[not from_client]
                if isinstance(other, Http2Reader):
                    other.allow_table(fact.size)
            else:
                side = "client" if from_client else "server"
                error = f"the {side} reset the stream: {error_name(fact.code)}"
                self._exchanges.failed(fact.stream, time_ns, error)
