"""TLS records and the two hello messages (RFC 8446, RFC 5246).

Only what goes over the wire in the clear: nothing is verified and nothing is negotiated. A message whose own
frame is broken raises `DecodeError`; one extension that is broken costs only the field it would have filled.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError, TruncatedError
from h3probe.facts import fact
from h3probe.wire import tls_names
from h3probe.wire.buffer import Reader
from h3probe.wire.tls_names import alert_name

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Alert",
    "ClientHello",
    "EncryptedExtensions",
    "Record",
    "ServerHello",
    "alert_name",
    "handshake_messages",
    "looks_like_client_hello",
    "parse_alert",
    "parse_client_hello",
    "parse_encrypted_extensions",
    "parse_server_hello",
    "records",
]

Extensions = tuple[tuple[int, bytes], ...]

# The random of a ServerHello that is a HelloRetryRequest: SHA-256 of that word (RFC 8446, 4.1.3).
HELLO_RETRY_REQUEST = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

# 2^14 and what TLS 1.2 allows a cipher to add (RFC 5246, 6.2.3); TLS 1.3 allows less.
LARGEST_RECORD = 16384 + 2048

_EXTENSION = struct.Struct(">HH")


@fact
class Record:
    """One TLS record.

    Attributes:
        content_type: 20 ChangeCipherSpec, 21 Alert, 22 Handshake, 23 application data, 24 Heartbeat.
        version: As the record says, 0x0301 or 0x0303 whatever is negotiated.
        payload: The fragment, encrypted or not.
        length: The fragment's length.
        offset: Where the record's header begins in the stream.
    """

    content_type: int
    version: int
    payload: bytes
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that was sent in the clear (RFC 8446, 6).

    Attributes:
        level: 1 warning, 2 fatal.
        code: The description's number.
        name: The description's name.
    """

    level: int
    code: int
    name: str


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


def looks_like_client_hello(data: bytes) -> bool:
    """Whether a stream that begins with these bytes (at least 6 of them) begins with a ClientHello in a record."""
    return (
        len(data) >= 6
        and data[0] == tls_names.HANDSHAKE
        and data[1] == 3
        and data[2] <= 4
        and data[5] == tls_names.CLIENT_HELLO
        # A record may end before the version, as where a client cuts its hello to get it past a firewall.
        and (len(data) < 10 or data[9] == 3 or 0 < data[3] << 8 | data[4] < 5)
    )


def records(stream: bytes, start: int = 0) -> tuple[list[Record], int]:
    """Cut a contiguous stream into TLS records.

    Args:
        stream: One direction of a connection.
        start: Where a record begins.

    Returns:
        The complete records from `start` on, and the offset after the last one: the rest is incomplete, or is
        not TLS, which a call with that offset then says.

    Raises:
        DecodeError: At `start` there is no record header (RFC 8446, 5.1).
    """
    found: list[Record] = []
    position = start
    while position < len(stream):
        header = stream[position : position + 5]
        length = int.from_bytes(header[3:5])
        if not 20 <= header[0] <= 24 or header[1:2] not in (b"\x03", b"") or length > LARGEST_RECORD:
            if found:
                break
            raise DecodeError(f"no TLS record at offset {position}: {header.hex()}")
        end = position + 5 + length
        if len(header) < 5 or end > len(stream):
            break
        version = int.from_bytes(header[1:3])
        found.append(Record(header[0], version, stream[position + 5 : end], length, position))
        position = end
    return found, position


def handshake_messages(stream: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """Cut a stream of handshake bytes into messages (RFC 8446, 4).

    Args:
        stream: The payloads of handshake records, or a CRYPTO stream, from the start of a message.

    Returns:
        The complete messages as (type, body), and how many bytes they take.
    """
    found: list[tuple[int, bytes]] = []
    position = 0
    while len(stream) - position >= 4:
        end = position + 4 + int.from_bytes(stream[position + 1 : position + 4])
        if end > len(stream):
            break
        found.append((stream[position], stream[position + 4 : end]))
        position = end
    return found, position


def parse_alert(payload: bytes) -> Alert:
    """Decode the fragment of an alert record.

    Raises:
        DecodeError: It is not two bytes with a level of 1 or 2: most likely encrypted.
    """
    if len(payload) != 2 or payload[0] not in (1, 2):
        raise DecodeError(f"no alert in the clear: {len(payload)} bytes")
    return Alert(payload[0], payload[1], alert_name(payload[1]))


LONGEST_SHARED = 256
"""Bytes of a list that equal ones are shared of; longer ones are nobody's habit."""


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
    cipher_suites = _u16s(reader.vector(2))
    compression_methods = reader.vector(1)
    extensions = _extensions(reader)
    given = dict(reversed(extensions))  # of two with one type the first counts
    return ClientHello(
        legacy_version=legacy_version,
        random=random,
        session_id=session_id,
        cipher_suites=cipher_suites,
        compression_methods=compression_methods,
        sni=_field(given, tls_names.SERVER_NAME, _server_name, None),
        alpn=_field(given, tls_names.ALPN, _alpn_texts, ()),
        alpn_raw=_field(given, tls_names.ALPN, _alpn, ()),
        supported_versions=_field(given, tls_names.SUPPORTED_VERSIONS, _versions, ()),
        groups=_field(given, tls_names.SUPPORTED_GROUPS, _code_points, ()),
        key_share_groups=_field(given, tls_names.KEY_SHARE, _key_shares, ()),
        signature_algorithms=_field(given, tls_names.SIGNATURE_ALGORITHMS, _code_points, ()),
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
    extensions = _extensions(reader)
    given = dict(reversed(extensions))
    alpn = _field(given, tls_names.ALPN, _alpn, ())
    return ServerHello(
        legacy_version=legacy_version,
        version=_field(given, tls_names.SUPPORTED_VERSIONS, lambda data: Reader(data).u16(), legacy_version),
        random=random,
        session_id=session_id,
        cipher_suite=cipher_suite,
        alpn=_text(alpn[0]) if alpn else None,
        key_share_group=_field(given, tls_names.KEY_SHARE, lambda data: Reader(data).u16(), None),
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
    given = dict(reversed(_extensions(Reader(body))))
    alpn = _field(given, tls_names.ALPN, _alpn, ())
    return EncryptedExtensions(_text(alpn[0]) if alpn else None, tls_names.EARLY_DATA in given)


def _extensions(reader: Reader) -> Extensions:
    """The rest of a hello: its extensions, or nothing at all (RFC 5246, 7.4.1.2).

    A single byte cannot be their length: some clients that send no compression method either leave one there.
    """
    if reader.remaining < 2:
        return ()
    block = reader.vector(2)
    found: list[tuple[int, bytes]] = []
    position = 0
    while position < len(block):
        if len(block) - position < 4:
            raise TruncatedError(f"an extension wanted at offset {position}, {len(block) - position} bytes there")
        kind, length = _EXTENSION.unpack_from(block, position)
        position += 4 + length
        if position > len(block):
            raise TruncatedError(f"an extension of {length} bytes ends {position - len(block)} bytes past the others")
        found.append((kind, block[position - length : position]))
    return tuple(found)


def _field[T, D](given: dict[int, bytes], extension: int, parse: Callable[[bytes], T], default: D) -> T | D:
    """What one extension says; `default` if it is not there or is broken."""
    if extension not in given:
        return default
    try:
        return parse(given[extension])
    except DecodeError:
        return default


def _whole(data: bytes, length_size: int) -> bytes:
    """The contents of an extension that is one vector and nothing else."""
    reader = Reader(data)
    contents = reader.vector(length_size)
    if reader.remaining:
        raise DecodeError(f"{reader.remaining} bytes after a vector")
    return contents


def _habitual[T](parse: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Parse the same bytes once: a client's hellos have the same lists each time, kept as long as its connections."""
    parse_new = lru_cache(maxsize=512)(parse)

    def parsed(data: bytes) -> T:
        return parse_new(data) if len(data) <= LONGEST_SHARED else parse(data)

    return parsed


@_habitual
def _u16s(data: bytes) -> tuple[int, ...]:
    if len(data) % 2:
        raise DecodeError(f"{len(data)} bytes are no list of 16-bit values")
    return struct.unpack(f">{len(data) // 2}H", data)


@_habitual
def _versions(data: bytes) -> tuple[int, ...]:
    return _u16s(_whole(data, 1))


@_habitual
def _code_points(data: bytes) -> tuple[int, ...]:
    return _u16s(_whole(data, 2))


def _text(value: bytes) -> str:
    """A name from the network as text: UTF-8, and what is not UTF-8 as a backslash escape."""
    return value.decode("utf-8", "backslashreplace")


def _server_name(data: bytes) -> str | None:
    """The first entry of type host_name (RFC 6066, 3)."""
    names = Reader(_whole(data, 2))
    while names.remaining:
        is_host_name = names.u8() == 0
        name = names.vector(2)
        if is_host_name:
            return name.decode("ascii", "backslashreplace") or None
    return None


@_habitual
def _alpn(data: bytes) -> tuple[bytes, ...]:
    """The protocol names of RFC 7301, 3.1."""
    names = Reader(_whole(data, 2))
    found: list[bytes] = []
    while names.remaining:
        found.append(names.vector(1))
    return tuple(found)


@_habitual
def _alpn_texts(data: bytes) -> tuple[str, ...]:
    return tuple(map(_text, _alpn(data)))


def _key_shares(data: bytes) -> tuple[int, ...]:
    """The groups of the key shares (RFC 8446, 4.2.8)."""
    shares = Reader(_whole(data, 2))
    found: list[int] = []
    while shares.remaining:
        found.append(shares.u16())
        shares.vector(2)
    return tuple(found)
