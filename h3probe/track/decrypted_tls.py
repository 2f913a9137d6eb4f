"""TLS on a TCP connection whose secrets are known: from two byte streams to what the application said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from h3probe.errors import DecodeError, DecryptError
from h3probe.wire.cipher_suites import TLS12_SUITES, TLS13_SUITES
from h3probe.wire.tls import handshake_messages, records
from h3probe.wire.tls_hello import parse_encrypted_extensions
from h3probe.wire.tls_records import APPLICATION_DATA, Tls13Records, tls12_records

if TYPE_CHECKING:
    from h3probe.wire.keylog import SessionSecrets
    from h3probe.wire.tls import Record
    from h3probe.wire.tls_hello import ClientHello, ServerHello
    from h3probe.wire.tls_records import Epoch, OpenedRecord

# Bytes of handshake messages, and of application data that waits for the server's word, that are kept.
HANDSHAKE_LIMIT = 256 << 10
WAITING_LIMIT = 64 << 10

CHANGE_CIPHER_SPEC, HANDSHAKE = 20, 22
ENCRYPTED_EXTENSIONS, KEY_UPDATE = 8, 24
TLS12, TLS13 = 0x0303, 0x0304


class _Opener(Protocol):
    def open(self, record: Record) -> OpenedRecord: ...


@dataclass(slots=True)
class _Half:
    """One direction."""

    opener: _Opener
    from_client: bool
    buffer: bytearray = field(default_factory=bytearray)
    messages: bytearray = field(default_factory=bytearray, repr=False)
    protected: bool = False


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The client's data from before the server's EncryptedExtensions."""

    epoch: Epoch
    data: bytes = field(repr=False)


class DecryptedTls:
    """Opens the records of one connection.

    Args:
        hello: The ClientHello.
        server_hello: The ServerHello, no HelloRetryRequest.
        secrets: The session's.

    Attributes:
        alpn: The protocol chosen, as text; None while it is not known, and where there is none.
        negotiated: Whether the server has said what is spoken.
        held: Bytes that wait for something.

    Raises:
        DecryptError: The suite is none that h3probe decrypts, or the log has not all of its secrets.
    """

    def __init__(self, hello: ClientHello, server_hello: ServerHello, secrets: SessionSecrets) -> None:
        self.alpn: str | None = None
        self.negotiated = False
        self._early_accepted = False
        self._waiting: list[_Waiting] = []
        self._is_13 = server_hello.version == TLS13
        client, server = _openers(hello, server_hello, secrets)
        self._halves = {True: _Half(client, from_client=True), False: _Half(server, from_client=False)}
        if not self._is_13:
            self.alpn, self.negotiated = server_hello.alpn, True

    def __repr__(self) -> str:
        return f"<DecryptedTls, {self.alpn}>"

    @property
    def held(self) -> int:
        """Bytes that wait for something."""
        halves = sum(len(half.buffer) + len(half.messages) for half in self._halves.values())
        return halves + sum(len(waiting.data) for waiting in self._waiting)

    def feed(self, data: bytes, *, from_client: bool) -> bytes:
        """Take the next bytes of a direction; return the application data in the records that they complete.

        The client's data is kept until the server has said what is spoken, and is returned by `waited` then.

        Raises:
            DecodeError: They are no TLS records, or the secrets do not open them: the connection cannot be followed.
        """
        half = self._halves[from_client]
        half.buffer += data
        found, end = records(bytes(half.buffer))
        del half.buffer[:end]
        said = bytearray()
        for record in found:
            if self._is_plain(half, record):
                continue
            opened = half.opener.open(record)
            if opened.content_type == HANDSHAKE:
                self._handshake(half, opened)
            elif opened.content_type == APPLICATION_DATA:
                if self.negotiated and opened.epoch != "early":
                    said += opened.data
                else:
                    self._keep(opened)
        return bytes(said)

    def waited(self) -> bytes:
        """Return the client's data that had waited for the server's word, once that is there."""
        if not self._waiting or not self.negotiated:
            return b""
        waiting, self._waiting = self._waiting, []
        # Data of a refused 0-RTT comes again (RFC 8446, 4.2.10).
        return b"".join(w.data for w in waiting if w.epoch != "early" or self._early_accepted)

    def _is_plain(self, half: _Half, record: Record) -> bool:
        """Whether a record is not protected; what such records say is known from elsewhere."""
        if self._is_13:
            return record.content_type != APPLICATION_DATA
        if record.content_type == CHANGE_CIPHER_SPEC:
            if half.protected:
                raise DecodeError("a renegotiation")  # Its keys come from hellos that are encrypted.
            half.protected = True
            return True
        return not half.protected

    def _keep(self, opened: OpenedRecord) -> None:
        if sum(len(waiting.data) for waiting in self._waiting) + len(opened.data) > WAITING_LIMIT:
            raise DecodeError(f"more than {WAITING_LIMIT} bytes before the server's answer")
        self._waiting.append(_Waiting(opened.epoch, opened.data))

    def _handshake(self, half: _Half, opened: OpenedRecord) -> None:
        if not self._is_13:
            return
        half.messages += opened.data
        if len(half.messages) > HANDSHAKE_LIMIT:
            raise DecodeError(f"a handshake message of more than {HANDSHAKE_LIMIT} bytes")
        messages, used = handshake_messages(bytes(half.messages))
        del half.messages[:used]
        for kind, body in messages:
            if kind == ENCRYPTED_EXTENSIONS and not half.from_client:
                extensions = parse_encrypted_extensions(body)
                self.alpn, self._early_accepted = extensions.alpn, extensions.early_data
                self.negotiated = True
            elif kind == KEY_UPDATE and opened.epoch == "application" and isinstance(half.opener, Tls13Records):
                half.opener.update()


def has_all(secrets: SessionSecrets, server_hello: ServerHello) -> bool:
    """Whether all the secrets that the session's records take are known; a client writes them one after the other."""
    if server_hello.version != TLS13:
        return secrets.master is not None
    handshake = secrets.client_handshake is not None and secrets.server_handshake is not None
    return handshake and secrets.client_application is not None and secrets.server_application is not None


def _openers(hello: ClientHello, server_hello: ServerHello, secrets: SessionSecrets) -> tuple[_Opener, _Opener]:
    """What opens the client's records, and the server's."""
    if server_hello.version == TLS13:
        suite = TLS13_SUITES.get(server_hello.cipher_suite)
        client, server = secrets.client_handshake, secrets.server_handshake
        client_data, server_data = secrets.client_application, secrets.server_application
        if suite is None or client is None or server is None or client_data is None or server_data is None:
            raise DecryptError("an unknown suite of TLS 1.3, or a key log that lacks some of its secrets")
        epochs: list[tuple[Epoch, bytes]] = [("handshake", client), ("application", client_data)]
        if hello.early_data and secrets.client_early is not None:
            epochs.insert(0, ("early", secrets.client_early))
        return Tls13Records(suite, epochs), Tls13Records(suite, [("handshake", server), ("application", server_data)])
    suite = TLS12_SUITES.get(server_hello.cipher_suite)
    if suite is None or secrets.master is None or server_hello.version != TLS12:
        raise DecryptError("a suite that is not decrypted, or a key log that lacks its secret")
    return tls12_records(suite, secrets.master, hello.random, server_hello.random)
