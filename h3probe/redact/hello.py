"""TLS handshake messages in the clear, rewritten in place (RFC 8446, RFC 5246)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.errors import DecodeError
from h3probe.redact import der
from h3probe.wire import tls_names
from h3probe.wire.buffer import Reader
from h3probe.wire.quic import transport_parameters
from h3probe.wire.tls_hello import HELLO_RETRY_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.redact.mapping import Mapping

_NEW_SESSION_TICKET, _CERTIFICATE, _SERVER_KEY_EXCHANGE, _CERTIFICATE_REQUEST = 4, 11, 12, 13
_CERTIFICATE_VERIFY, _CLIENT_KEY_EXCHANGE, _CERTIFICATE_STATUS = 15, 16, 22
_CERTIFICATE_AUTHORITIES: Final = 47
# Extensions that say what an endpoint can do and not who it is; their contents stay. The rest keep type and length.
# (40 was key_share up to draft 22 of TLS 1.3.)
_HARMLESS: Final = frozenset(
    {1, tls_names.SUPPORTED_GROUPS, 11, tls_names.SIGNATURE_ALGORITHMS, 15, tls_names.ALPN, 22, 23, 24, 27,
     28, 34, 40, tls_names.EARLY_DATA, tls_names.SUPPORTED_VERSIONS, 45, 49, 50, tls_names.KEY_SHARE, 13172, 17513,
     17613}
)  # fmt: skip
# First bytes of the cipher suites that there are (IANA's registry), GREASE (RFC 8701), and private ones.
_SUITES: Final = frozenset(
    (0x00, 0x13, 0x16, 0x56, *range(0xC0, 0xC2), *range(0xCC, 0xCF), 0xD0, 0xFE, 0xFF)
) | frozenset(range(0x0A, 0x100, 0x10))
_STATUS_V2: Final = bytes.fromhex("000702000400000000")  # status_request_v2 that names nobody (RFC 6961, 2.2)
_COMPRESSION: Final = frozenset({0, 1, 64})  # none, and what there was before TLS 1.3 (RFC 3749, 3943)
# Transport parameters that are connection IDs, and those that are no numbers and no secrets either.
_CONNECTION_IDS: Final = frozenset({0x00, 0x0F, 0x10})
_PLAIN_PARAMETERS: Final = frozenset(
    {0x11, 0x0C, 0x2AB2, 0x3128, 0x3129, 0x4752, transport_parameters.VERSION_INFORMATION_DRAFT}
)


class Hellos:
    """Rewrites handshake messages with one mapping."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._messages: dict[int, Callable[[bytes], bytes]] = {
            tls_names.CLIENT_HELLO: self._client_hello,
            tls_names.SERVER_HELLO: self._server_hello,
            _NEW_SESSION_TICKET: self._ticket,
            _CERTIFICATE: self._certificates,
            _SERVER_KEY_EXCHANGE: self._server_key_exchange,
            _CERTIFICATE_REQUEST: self._certificate_request,
            _CERTIFICATE_VERIFY: self._certificate_verify,
            _CLIENT_KEY_EXCHANGE: self._client_key_exchange,
            _CERTIFICATE_STATUS: self._certificate_status,
        }

    def message(self, kind: int, body: bytes) -> bytes:
        """Rewrite the body of a message; one that is broken or not known becomes noise of its length."""
        rewrite = self._messages.get(kind)
        if rewrite is not None:
            try:
                made = rewrite(body)
            except DecodeError:
                made = b""
            if len(made) == len(body):
                return made
        return self._mapping.credential(body)

    def messages(self, plain: bytes) -> tuple[bytes, int]:
        """Rewrite the whole messages that a stream begins with; return them, and how many bytes they take."""
        made = bytearray()
        while len(plain) - len(made) >= 4:
            at = len(made)
            end = at + 4 + int.from_bytes(plain[at + 1 : at + 4])
            if end > len(plain):
                break
            made += plain[at : at + 4] + self.message(plain[at], plain[at + 4 : end])
        return bytes(made), len(made)

    def _client_hello(self, body: bytes) -> bytes:
        reader = Reader(body)
        start = reader.take(34)
        session = reader.vector(1)
        suites, compression = reader.vector(2), reader.vector(1)
        made = start + _vector(1, self._mapping.credential(session))
        made += _vector(2, self._suites(suites)) + _vector(1, bytes(c if c in _COMPRESSION else 0 for c in compression))
        return made + self._extensions(reader, self._client_extension)

    def _suites(self, suites: bytes) -> bytes:
        """Cipher suites; where a length lies, other bytes stand among them: those become a suite for private use."""
        pairs = (suites[at : at + 2] for at in range(0, len(suites), 2))
        return b"".join(pair if pair[0] in _SUITES and len(pair) == 2 else b"\xff\xff"[: len(pair)] for pair in pairs)

    def _server_hello(self, body: bytes) -> bytes:
        reader = Reader(body)
        start = reader.take(34)
        if start[0] == 0x7F:  # a draft of TLS 1.3 without a session ID
            return start + reader.take(2) + self._extensions(reader, self._server_extension)
        made = start + _vector(1, self._mapping.credential(reader.vector(1))) + reader.take(3)
        is_retry = start[2:] == HELLO_RETRY_REQUEST
        return made + self._extensions(reader, self._retry_extension if is_retry else self._server_extension)

    def _extensions(self, reader: Reader, rewrite: Callable[[int, bytes], bytes]) -> bytes:
        if reader.remaining < 2:
            return bytes(reader.remaining)
        block = Reader(reader.vector(2))
        made = bytearray()
        while block.remaining:
            kind = block.u16()
            contents = block.vector(2)
            made += kind.to_bytes(2) + _vector(2, self._extension(kind, contents, rewrite))
        return _vector(2, bytes(made)) + bytes(reader.remaining)

    def _extension(self, kind: int, contents: bytes, rewrite: Callable[[int, bytes], bytes]) -> bytes:
        is_grease = kind & 0x0F0F == 0x0A0A
        if not contents or kind in _HARMLESS or (is_grease and len(contents) == 1):
            return contents
        try:
            made = rewrite(kind, contents)
        except DecodeError:
            made = b""
        return made if len(made) == len(contents) else self._mapping.credential(contents)

    def _client_extension(self, kind: int, contents: bytes) -> bytes:
        secret = self._mapping.credential
        match kind:
            case tls_names.SERVER_NAME:
                return self._server_names(contents)
            case 5 | 0xFF01:  # status_request without responders; renegotiation_info on a first handshake
                return contents if not any(contents[1:]) else secret(contents)
            case 17:
                return contents if contents == _STATUS_V2 else secret(contents)
            case 21:  # padding
                return bytes(len(contents))
            case tls_names.PRE_SHARED_KEY:
                return self._pre_shared_keys(contents)
            case 44:  # cookie
                return _vector(2, secret(Reader(contents).vector(2)))
            case tls_names.ENCRYPTED_CLIENT_HELLO | 0xFFCE:
                return self._encrypted_hello(contents, is_name=kind == 0xFFCE)
            case tls_names.QUIC_TRANSPORT_PARAMETERS | tls_names.QUIC_TRANSPORT_PARAMETERS_DRAFT:
                return self._parameters(contents)
            case _ if kind == _CERTIFICATE_AUTHORITIES:
                return _names(contents)
        return secret(contents)

    def _server_extension(self, kind: int, contents: bytes) -> bytes:
        match kind:
            case 5 | tls_names.PRE_SHARED_KEY:  # the number of the key chosen
                return contents
            case 0xFF01 if contents == b"\0":
                return contents
            case tls_names.QUIC_TRANSPORT_PARAMETERS | tls_names.QUIC_TRANSPORT_PARAMETERS_DRAFT:
                return self._parameters(contents)
        return self._mapping.credential(contents)

    def _retry_extension(self, kind: int, contents: bytes) -> bytes:
        return self._client_extension(kind, contents) if kind == 44 else self._server_extension(kind, contents)

    def _server_names(self, contents: bytes) -> bytes:
        reader = Reader(Reader(contents).vector(2))
        made = bytearray()
        while reader.remaining:
            kind = reader.u8()
            name = reader.vector(2)
            made += bytes((kind,)) + _vector(2, self._mapping.host(name) if kind == 0 else self._mapping.word(name))
        return _vector(2, bytes(made))

    def _pre_shared_keys(self, contents: bytes) -> bytes:
        """Identities with their ages, and binders (RFC 8446, 4.2.11)."""
        secret = self._mapping.credential
        reader = Reader(contents)
        identities, binders = Reader(reader.vector(2)), Reader(reader.vector(2))
        made = bytearray()
        while identities.remaining:
            made += _vector(2, secret(identities.vector(2))) + secret(identities.take(4))
        bound = bytearray()
        while binders.remaining:
            bound += _vector(1, secret(binders.vector(1)))
        return _vector(2, bytes(made)) + _vector(2, bytes(bound))

    def _encrypted_hello(self, contents: bytes, *, is_name: bool) -> bytes:
        """The outer hello (RFC 9849, 5): suite, config, key, payload; or the draft's name alone, with a digest."""
        secret = self._mapping.credential
        reader = Reader(contents)
        if is_name:  # suite, group, key, digest, payload
            return reader.take(4) + b"".join(_vector(2, secret(reader.vector(2))) for _ in range(3))
        if reader.u8():
            return contents  # the inner one, which is empty
        suite, config = reader.take(4), reader.take(1)
        return b"\0" + suite + secret(config) + _vector(2, secret(reader.vector(2))) + _vector(
            2, secret(reader.vector(2))
        )  # fmt: skip

    def _parameters(self, contents: bytes) -> bytes:
        """QUIC's transport parameters (RFC 9000, 18), also as they were written up to draft 26 of it."""
        made = bytearray(contents)
        reader = Reader(contents)
        in_tls_style = int.from_bytes(contents[:2]) == len(contents) - 2
        if in_tls_style:
            reader.take(2)
        while reader.remaining:
            number = reader.u16() if in_tls_style else reader.varint()
            value = reader.vector(2) if in_tls_style else reader.take(reader.varint())
            end = reader.position
            if number in _CONNECTION_IDS:
                made[end - len(value) : end] = self._mapping.connection_id(value)
            elif number not in _PLAIN_PARAMETERS and not _is_number(value):
                made[end - len(value) : end] = self._mapping.credential(value)
        return bytes(made)

    def _ticket(self, body: bytes) -> bytes:
        """TLS 1.2 (RFC 5077, 3.3): a lifetime and the ticket."""
        reader = Reader(body)
        return reader.take(4) + _vector(2, self._mapping.credential(reader.vector(2)))

    def _certificates(self, body: bytes) -> bytes:
        """TLS 1.2 (RFC 5246, 7.4.2)."""
        reader = Reader(Reader(body).vector(3))
        made = bytearray()
        while reader.remaining:
            made += _vector(3, der.certificate(len(reader.vector(3))))
        return _vector(3, bytes(made))

    def _server_key_exchange(self, body: bytes) -> bytes:
        """ECDHE (RFC 8422, 5.4) or DHE (RFC 5246, 7.4.3); the signature would tell the key, and so the server."""
        reader = Reader(body)
        made = b""
        if body[:1] == b"\x03":  # a named curve
            reader.take(3)
            reader.vector(1)
            made = body[: reader.position]
        else:
            for _ in range(3):
                made += _vector(2, self._mapping.credential(reader.vector(2)))
        if int.from_bytes(body[len(made) : len(made) + 2]) != reader.remaining - 2:  # TLS 1.2 names the algorithm
            made += reader.take(2)
        return made + _vector(2, self._mapping.credential(reader.vector(2)))

    def _client_key_exchange(self, body: bytes) -> bytes:
        """A public key (RFC 8422, 5.7), or an encrypted secret (RFC 5246, 7.4.7), each behind its length."""
        size = 1 if body[:1] and body[0] == len(body) - 1 else 2
        return body[:size] + self._mapping.credential(body[size:])

    def _certificate_request(self, body: bytes) -> bytes:
        """TLS 1.2 (RFC 5246, 7.4.4): kinds, signature algorithms, names of authorities."""
        reader = Reader(body)
        reader.vector(1)
        reader.vector(2)
        return body[: reader.position] + _names(body[reader.position :])

    def _certificate_verify(self, body: bytes) -> bytes:
        reader = Reader(body)
        return reader.take(2) + _vector(2, self._mapping.credential(reader.vector(2)))

    def _certificate_status(self, body: bytes) -> bytes:
        """An OCSP answer (RFC 6066, 8)."""
        reader = Reader(body)
        return reader.take(1) + _vector(3, der.ocsp_response(len(reader.vector(3))))


def _is_number(value: bytes) -> bool:
    """Whether a transport parameter's value is one integer, as most are: a limit, and no secret."""
    return bool(value) and len(value) == 1 << (value[0] >> 6)


def _names(contents: bytes) -> bytes:
    """A list of distinguished names."""
    reader = Reader(Reader(contents).vector(2))
    made = bytearray()
    while reader.remaining:
        made += _vector(2, der.name(len(reader.vector(2))))
    return _vector(2, bytes(made))


def _vector(size: int, contents: bytes) -> bytes:
    return len(contents).to_bytes(size) + contents
