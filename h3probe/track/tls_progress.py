"""The TLS handshake on a TCP connection, from the records in the clear to the moment it is ready."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.wire.ja4 import ja4
from h3probe.wire.tls import Record, handshake_messages, records
from h3probe.wire.tls_hello import parse_client_hello, parse_server_hello, without_extensions

if TYPE_CHECKING:
    from h3probe.records import Side
    from h3probe.track.mark import Mark
    from h3probe.wire.tls_hello import ClientHello, ServerHello

CHANGE_CIPHER_SPEC = 20
ALERT = 21
HANDSHAKE = 22
APPLICATION_DATA = 23
RECORD_HEADER = 5
# An encrypted alert is 2 bytes, its content type and an AEAD tag: 19. A Finished is at least 53.
LONGEST_ENCRYPTED_ALERT = 24
# After 0-RTT data, EndOfEarlyData (RFC 8446, 4.5): 4 bytes, the content type and a tag of 16, with CCM_8 of 8.
END_OF_EARLY_DATA = frozenset({21, 13})
FATAL = 2


class TlsState(Enum):
    """Where the handshake is."""

    START = auto()
    HELLO = auto()
    ANSWERED = auto()
    SERVER_CIPHER = auto()
    READY = auto()
    FAILED = auto()


class Step(Enum):
    """What a record brought."""

    CLIENT_HELLO = auto()
    SERVER_HELLO_13 = auto()
    SERVER_HELLO_12 = auto()
    HELLO_RETRY = auto()
    SERVER_CHANGE_CIPHER = auto()
    SERVER_PROTECTED = auto()
    CLIENT_PROTECTED = auto()
    ALERT = auto()


# TLS 1.3 (RFC 8446, 2): ready with the client's first protected record after the server's flight, its Finished.
# TLS 1.2 (RFC 5246, 7.3): ready with the server's Finished, the record after its ChangeCipherSpec.
TRANSITIONS: dict[tuple[TlsState, Step], TlsState] = {
    (TlsState.START, Step.CLIENT_HELLO): TlsState.HELLO,
    (TlsState.HELLO, Step.HELLO_RETRY): TlsState.HELLO,
    (TlsState.HELLO, Step.SERVER_HELLO_13): TlsState.ANSWERED,
    (TlsState.ANSWERED, Step.CLIENT_PROTECTED): TlsState.READY,
    (TlsState.HELLO, Step.SERVER_HELLO_12): TlsState.HELLO,
    (TlsState.HELLO, Step.SERVER_CHANGE_CIPHER): TlsState.SERVER_CIPHER,
    (TlsState.SERVER_CIPHER, Step.SERVER_PROTECTED): TlsState.READY,
    (TlsState.START, Step.ALERT): TlsState.FAILED,
    (TlsState.HELLO, Step.ALERT): TlsState.FAILED,
    (TlsState.ANSWERED, Step.ALERT): TlsState.FAILED,
    (TlsState.SERVER_CIPHER, Step.ALERT): TlsState.FAILED,
}


@dataclass(slots=True)
class _Half:
    """One direction: how far its records were read, and its handshake messages in the clear."""

    position: int = 0
    plain: bytearray = field(default_factory=bytearray)
    protected: bool = False


@dataclass(slots=True)
class TlsProgress:
    """Follows one handshake over the two byte streams of a connection.

    Attributes:
        state: Where it is.
        hello: The first ClientHello.
        hello_mark: The segment that completed it.
        ja4: Its fingerprint.
        server_hello: The ServerHello; a HelloRetryRequest does not count.
        server_hello_mark: The segment that completed it.
        ready: When the first request could leave.
        ahead: Bytes that the client had sent by then for the application: in one segment with its Finished, or ahead of
            the server's (False Start, RFC 7918).
        alert: A fatal alert or one that cannot be read: who sent it, and its code where it is in the clear.
        alert_mark: When.
        garbled: Whether it could not be read on, so that its end is not known.
    """

    state: TlsState = TlsState.START
    hello: ClientHello | None = None
    hello_mark: Mark | None = None
    ja4: str | None = None
    server_hello: ServerHello | None = None
    server_hello_mark: Mark | None = None
    ready: Mark | None = None
    ahead: int = 0
    alert: tuple[Side, int | None] | None = None
    alert_mark: Mark | None = None
    garbled: bool = False
    _client: _Half = field(default_factory=_Half)
    _server: _Half = field(default_factory=_Half)

    def is_over(self) -> bool:
        """Whether nothing more is to be learned."""
        return self.state in (TlsState.READY, TlsState.FAILED)

    @property
    def client_read(self) -> int:
        """How many of the client's bytes were read: to the end of its ClientHello, while that is not answered."""
        return self._client.position

    def feed(self, stream: bytes, mark: Mark, *, from_client: bool) -> None:
        """Take one direction's contiguous bytes so far; only what is new in them is read.

        Args:
            stream: All bytes of the direction from the start of TLS on.
            mark: The segment that brought the newest of them.
            from_client: Whose they are.
        """
        if self.is_over():
            return
        if not from_client and self.state is TlsState.START:
            return  # Captured ahead of the end of the ClientHello; it is all here again afterwards.
        half = self._client if from_client else self._server
        if half.position == len(stream):
            return
        header = stream[half.position : half.position + 5]
        if from_client and self._is_ahead(header[0], int.from_bytes(header[3:])):
            return
        try:
            found, half.position = records(stream, half.position)
        except DecodeError:
            # Where the server's first bytes are no TLS it is the server that speaks none.
            self.state, self.garbled = TlsState.FAILED, from_client or half.position > 0
            return
        for record in found:
            if from_client and self._is_ahead(record.content_type, record.length):
                half.position = record.offset
                return
            self._record(half, record, mark, from_client=from_client)
            if self.is_over():
                if from_client:
                    self.ahead += len(stream) - (record.offset + RECORD_HEADER + record.length)
                return

    def _is_ahead(self, content_type: int, length: int) -> bool:
        """Whether a client's record follows an answer that is not here yet, or never will be: it waits for that."""
        if self.state is not TlsState.HELLO or self.server_hello is not None or (self.hello and self.hello.early_data):
            return False
        return content_type not in (HANDSHAKE, ALERT) or (content_type == ALERT and length != 2)

    def _record(self, half: _Half, record: Record, mark: Mark, *, from_client: bool) -> None:
        if record.content_type == ALERT:
            self._alert(half, record, mark, from_client=from_client)
        elif record.content_type == CHANGE_CIPHER_SPEC:
            if self.server_hello is not None and not self.server_hello.is_tls13:
                half.protected = True
                if not from_client:
                    self._step(Step.SERVER_CHANGE_CIPHER, mark)
        elif half.protected or record.content_type != HANDSHAKE:
            if not from_client:
                self._step(Step.SERVER_PROTECTED, mark)
            elif self.state is TlsState.ANSWERED and record.length <= LONGEST_ENCRYPTED_ALERT:
                if not (self.hello and self.hello.early_data and record.length in END_OF_EARLY_DATA):
                    self._fail("client", None, mark)
            else:
                if self.state is not TlsState.ANSWERED and record.content_type == APPLICATION_DATA:
                    self.ahead += record.length
                self._step(Step.CLIENT_PROTECTED, mark)
        else:
            half.plain += record.payload
            self._messages(half, mark, from_client=from_client)

    def _messages(self, half: _Half, mark: Mark, *, from_client: bool) -> None:
        messages, used = handshake_messages(bytes(half.plain))
        del half.plain[:used]
        for kind, body in messages:
            try:
                if from_client and kind == 1:
                    self._client_hello(parse_client_hello(body), mark)
                elif not from_client and kind == 2:
                    self._server_hello(parse_server_hello(body), mark)
            except DecodeError:
                self.state, self.garbled = TlsState.FAILED, True
                return

    def _client_hello(self, hello: ClientHello, mark: Mark) -> None:
        if self.hello is None or not self.hello.random:
            self.hello, self.hello_mark, self.ja4 = without_extensions(hello), mark, ja4(hello, "t")
        self._step(Step.CLIENT_HELLO, mark)

    def _server_hello(self, hello: ServerHello, mark: Mark) -> None:
        if hello.is_retry:
            self._step(Step.HELLO_RETRY, mark)
            return
        self.server_hello, self.server_hello_mark = without_extensions(hello), mark
        self._step(Step.SERVER_HELLO_13 if hello.is_tls13 else Step.SERVER_HELLO_12, mark)

    def _alert(self, half: _Half, record: Record, mark: Mark, *, from_client: bool) -> None:
        side: Side = "client" if from_client else "server"
        if half.protected or len(record.payload) != 2:
            if self.server_hello is not None:  # else the answer was not captured, nor what became of it
                self._fail(side, None, mark)
        elif record.payload[0] == FATAL:
            self._fail(side, record.payload[1], mark)

    def _fail(self, side: Side, code: int | None, mark: Mark) -> None:
        if not self.is_over():
            self.alert, self.alert_mark = (side, code), mark
        self._step(Step.ALERT, mark)

    def _step(self, step: Step, mark: Mark) -> None:
        self.state = TRANSITIONS.get((self.state, step), self.state)
        if self.state is TlsState.READY and self.ready is None:
            self.ready = mark
