"""The hellos of TLS, and what a server adds once encrypted (RFC 8446, 4.1 and 4.3.1; RFC 5246, 7.4.1).

Nothing is verified and nothing is negotiated. A message whose own frame is broken raises `DecodeError`; one extension
that is broken costs only the field it would have filled.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

from h3probe.facts import fact
from h3probe.wire import tls_names
from h3probe.wire.buffer import Reader
from h3probe.wire.tls_extensions import (
    Extensions,
    alpn_names,
    alpn_texts,
    code_points,
    extension_field,
    key_share_groups,
    name_text,
    read_extensions,
    server_name,
    u16s,
    version_list,
)

# The random of a ServerHello that is a HelloRetryRequest: SHA-256 of that word (RFC 8446, 4.1.3).
HELLO_RETRY_REQUEST = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

TLS13 = 0x0304
# High bytes of versions that were TLS 1.3 before it was one: the drafts' own, Google's, Facebook's.
_DRAFTS_OF_13 = (0x7F, 0x7E, 0xFB)


@fact
class ClientHello:
    """What a client offers (RFC 8446, 4.1.2). Lists are in the order sent, GREASE included.

    Attributes:
        legacy_version: The version field of the message, 0x0303 in TLS 1.3.
        random: 32 bytes.
        session_id: At most 255 bytes.
        cipher_suites: The code points.
        compression_methods: One byte each.
        sni: The host name asked for, bytes outside ASCII escaped; None where there is none.
        alpn: The protocols offered, as text.
        alpn_raw: The same as sent.
        supported_versions: Versions offered in the extension, empty before TLS 1.3.
        groups: Named groups.
        key_share_groups: Groups for which a key share is sent along.
        signature_algorithms: For the handshake.
        ech: Whether this is the outer hello of Encrypted Client Hello, or imitates one.
        psk: Whether it resumes a session.
        early_data: Whether 0-RTT data follows.
        transport_parameters: QUIC's, undecoded; None over TCP.
        extensions: (type, contents) of each.
    """

    legacy_version: int
    random: bytes
    session_id: bytes
    cipher_suites: tuple[int, ...]
    compression_methods: bytes
    sni: str | None
    alpn: tuple[str, ...]
    alpn_raw: tuple[bytes, ...]
    supported_versions: tuple[int, ...]
    groups: tuple[int, ...]
    key_share_groups: tuple[int, ...]
    signature_algorithms: tuple[int, ...]
    ech: bool
    psk: bool
    early_data: bool
    transport_parameters: bytes | None
    extensions: Extensions = ()


@fact
class ServerHello:
    """What a server chose (RFC 8446, 4.1.3; RFC 5246, 7.4.1.3).

    Attributes:
        legacy_version: The version field of the message.
        version: The version chosen: supported_versions if it is there, else the version field.
        random: 32 bytes.
        session_id: As echoed or given.
        cipher_suite: The one chosen.
        alpn: The protocol chosen, where it is in the clear: up to TLS 1.2.
        key_share_group: The group chosen, in TLS 1.3.
        is_retry: Whether it is a HelloRetryRequest.
        extensions: (type, contents) of each.
    """

    legacy_version: int
    version: int
    random: bytes
    session_id: bytes
    cipher_suite: int
    alpn: str | None
    key_share_group: int | None
    is_retry: bool
    extensions: Extensions = ()

    @property
    def is_tls13(self) -> bool:
        """Whether TLS 1.3 was chosen, or a draft of it."""
        return self.version == TLS13 or self.version >> 8 in _DRAFTS_OF_13


@dataclass(frozen=True, slots=True)
class EncryptedExtensions:
    """What a server says once nobody else can read it (RFC 8446, 4.3.1).

    Attributes:
        alpn: The protocol chosen; None where none was.
        early_data: Whether it takes the client's 0-RTT data.
    """

    alpn: str | None
    early_data: bool


_KEPT = {
    hello: attrgetter(*(field.name for field in fields(hello) if field.name != "extensions"))
    for hello in (ClientHello, ServerHello)
}


def without_extensions[Hello: (ClientHello, ServerHello)](hello: Hello) -> Hello:
    """A hello to be kept for long: without its extensions, of which the other fields have what counts."""
    kept = _KEPT[type(hello)]
    return type(hello)(*kept(hello)) if hello.extensions else hello


def parse_client_hello(body: bytes) -> ClientHello:
    """Decode a ClientHello.

    Args:
        body: The message without its 4-byte header.

    Raises:
        DecodeError: The message's own frame is broken or cut.
    """
    reader = Reader(body)
    legacy_version = reader.u16()
    random = reader.take(32)
    session_id = reader.vector(1)
    cipher_suites = u16s(reader.vector(2))
    compression_methods = reader.vector(1)
    extensions = read_extensions(reader)
    given = dict(reversed(extensions))  # of two with one type the first counts
    return ClientHello(
        legacy_version=legacy_version,
        random=random,
        session_id=session_id,
        cipher_suites=cipher_suites,
        compression_methods=compression_methods,
        sni=extension_field(given, tls_names.SERVER_NAME, server_name, None),
        alpn=extension_field(given, tls_names.ALPN, alpn_texts, ()),
        alpn_raw=extension_field(given, tls_names.ALPN, alpn_names, ()),
        supported_versions=extension_field(given, tls_names.SUPPORTED_VERSIONS, version_list, ()),
        groups=extension_field(given, tls_names.SUPPORTED_GROUPS, code_points, ()),
        key_share_groups=extension_field(given, tls_names.KEY_SHARE, key_share_groups, ()),
        signature_algorithms=extension_field(given, tls_names.SIGNATURE_ALGORITHMS, code_points, ()),
        # The inner hello, never seen in the clear, has 1 there (RFC 9849, 5).
        ech=given.get(tls_names.ENCRYPTED_CLIENT_HELLO, b"")[:1] == b"\x00",
        psk=tls_names.PRE_SHARED_KEY in given,
        early_data=tls_names.EARLY_DATA in given,
        transport_parameters=given.get(
            tls_names.QUIC_TRANSPORT_PARAMETERS, given.get(tls_names.QUIC_TRANSPORT_PARAMETERS_DRAFT)
        ),
        extensions=extensions,
    )


def parse_server_hello(body: bytes) -> ServerHello:
    """Decode a ServerHello or a HelloRetryRequest.

    Args:
        body: The message without its 4-byte header.

    Raises:
        DecodeError: The message's own frame is broken or cut.
    """
    reader = Reader(body)
    legacy_version = reader.u16()
    random = reader.take(32)
    # Drafts of TLS 1.3 up to 21 left out the session ID and the compression method.
    is_old_draft = legacy_version >> 8 == 0x7F
    session_id = b"" if is_old_draft else reader.vector(1)
    cipher_suite = reader.u16()
    if not is_old_draft:
        reader.u8()
    extensions = read_extensions(reader)
    given = dict(reversed(extensions))
    alpn = extension_field(given, tls_names.ALPN, alpn_names, ())
    return ServerHello(
        legacy_version=legacy_version,
        version=extension_field(given, tls_names.SUPPORTED_VERSIONS, lambda data: Reader(data).u16(), legacy_version),
        random=random,
        session_id=session_id,
        cipher_suite=cipher_suite,
        alpn=name_text(alpn[0]) if alpn else None,
        key_share_group=extension_field(given, tls_names.KEY_SHARE, lambda data: Reader(data).u16(), None),
        is_retry=random == HELLO_RETRY_REQUEST,
        extensions=extensions,
    )


def parse_encrypted_extensions(body: bytes) -> EncryptedExtensions:
    """Decode EncryptedExtensions.

    Args:
        body: The message without its 4-byte header.

    Raises:
        DecodeError: The message's own frame is broken or cut.
    """
    given = dict(reversed(read_extensions(Reader(body))))
    alpn = extension_field(given, tls_names.ALPN, alpn_names, ())
    return EncryptedExtensions(name_text(alpn[0]) if alpn else None, tls_names.EARLY_DATA in given)
