"""The fields of QUIC packets and TLS records: what is in the clear, and what Initials hold, whose keys are public."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.show.report.tree import Field, listed
from h3probe.wire import tls, tls_hello, tls_names
from h3probe.wire.cipher_suites import TLS13_SUITES
from h3probe.wire.quic import transport_parameters
from h3probe.wire.quic.errors import error_name
from h3probe.wire.quic.frames import Ack, ConnectionClose, Crypto, Other, Padding, Ping, parse_frames
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.protection import initial_keys, open_packet
from h3probe.wire.quic.versions import version_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.wire.quic.frames import Frame
    from h3probe.wire.quic.protection import Opened

COALESCED = 12
"""Packets of one datagram, and records of one segment, that are shown."""
RECORDS = {20: "ChangeCipherSpec", 21: "Alert", 22: "Handshake", 23: "Application data", 24: "Heartbeat"}
KINDS = {"initial": "Initial", "zero-rtt": "0-RTT", "handshake": "Handshake", "retry": "Retry",
         "version-negotiation": "Version Negotiation", "unknown": "long header, version not known"}  # fmt: skip
VERSIONS = {0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
SECRET_PARAMETERS = frozenset({0x02})
"""stateless_reset_token (RFC 9000, 18.2)."""


def quic_fields(payload: bytes, dcids: Sequence[bytes]) -> list[Field]:
    """The QUIC packets of a datagram.

    Args:
        payload: The datagram's.
        dcids: Connection IDs that Initial keys may come from, beside the packet's own.
    """
    try:
        packets = split_datagram(payload)
    except DecodeError as error:
        return [Field("QUIC", f"cannot be read: {error}")]
    return [
        _long(packet, dcids)
        if isinstance(packet, LongPacket)
        else Field.of("QUIC 1-RTT", ("Bytes", len(packet.data)), ("Contents", "encrypted"))
        for packet in packets[:COALESCED]
    ]


def _long(packet: LongPacket, dcids: Sequence[bytes]) -> Field:
    opened = _open(packet, dcids) if packet.kind == "initial" else None
    frames = [] if opened is None else _frames(opened.payload)
    encrypted = packet.kind in {"initial", "zero-rtt", "handshake"} and opened is None
    return Field.of(
        f"QUIC {KINDS[packet.kind]}",
        ("Version", version_name(packet.version) if packet.version else None),
        ("Destination connection ID", packet.dcid.hex() or "empty"),
        ("Source connection ID", packet.scid.hex() or "empty"),
        ("Token", f"{len(packet.token)} bytes" if packet.token else None),
        ("Packet number", None if opened is None else opened.packet_number),
        ("Bytes", f"{len(packet.data)}{', cut by the capture' * packet.truncated}"),
        ("Versions offered", listed(map(version_name, packet.supported_versions))),
        ("Contents", "encrypted" if encrypted else None),
        *frames,
    )


def _open(packet: LongPacket, dcids: Sequence[bytes]) -> Opened | None:
    for dcid in dict.fromkeys((packet.dcid, *dcids)):
        try:
            keys = initial_keys(packet.version, dcid)
        except DecodeError:
            return None
        for side in (keys.client, keys.server):
            try:
                return open_packet(side, packet)
            except DecodeError:
                continue
    return None


def _frames(payload: bytes) -> list[Field]:
    try:
        frames = parse_frames(payload)
    except DecodeError as error:
        return [Field("Frames", f"cannot be read: {error}")]
    crypto = sorted((frame for frame in frames if isinstance(frame, Crypto)), key=lambda frame: frame.offset)
    return [*(_frame(frame) for frame in frames if frame is not None), *_hello(crypto)]


def _frame(frame: Frame) -> Field:
    match frame:
        case Padding():
            return Field("PADDING", f"{frame.count} bytes")
        case Ping():
            return Field("PING")
        case Ack():
            runs = (f"{first}" if first == last else f"{first} to {last}" for first, last in frame.ranges)
            return Field("ACK", listed(runs) or "")
        case Crypto():
            return Field("CRYPTO", f"bytes {frame.offset} to {frame.offset + len(frame.data)} of the handshake")
        case ConnectionClose():
            name = error_name(frame.code, application=frame.application)
            return Field.of(
                "CONNECTION_CLOSE",
                ("Code", f"0x{frame.code:x}{f' {name}' if name else ''}"),
                ("Frame type", None if frame.frame_type is None else f"0x{frame.frame_type:x}"),
                ("Reason", frame.reason or None),
            )
        case Other():
            return Field("Frame", f"type 0x{frame.frame_type:x}, not read")


def _hello(crypto: Sequence[Crypto]) -> list[Field]:
    """The hello in CRYPTO frames of one packet, where it is whole there."""
    stream = b""
    for frame in crypto:
        if frame.offset > len(stream):
            break
        stream += frame.data[len(stream) - frame.offset :]
    messages, _ = tls.handshake_messages(stream)
    if crypto and not messages:
        return [Field("TLS", "a part of a message; the rest is in other packets")]
    return [_message(kind, body) for kind, body in messages]


def tls_fields(payload: bytes) -> list[Field]:
    """The TLS records that begin a segment; nothing where it does not begin with one."""
    try:
        records, end = tls.records(payload)
    except DecodeError:
        return []
    fields = [_record(record) for record in records[:COALESCED]]
    rest = len(payload) - end
    if rest:
        fields.append(Field("TLS", f"{rest} bytes of a record that goes on in another segment"))
    return fields


def _record(record: tls.Record) -> Field:
    name = f"TLS {RECORDS.get(record.content_type, record.content_type)}"
    inside: list[Field] = []
    if record.content_type == tls_names.HANDSHAKE:
        messages, used = tls.handshake_messages(record.payload)
        # A length that does not add up is that of an encrypted message.
        inside = [_message(kind, body) for kind, body in messages[:COALESCED]] if used == record.length else []
    elif record.content_type == tls_names.ALERT:
        try:
            alert = tls.parse_alert(record.payload)
            inside = [Field("Alert", f"{alert.code} {alert.name}, {'fatal' if alert.level == 2 else 'warning'}")]
        except DecodeError:
            pass
    hidden = None if inside or record.content_type == tls_names.CHANGE_CIPHER_SPEC else "encrypted"
    return Field.of(
        name, ("Version", f"0x{record.version:04x}"), ("Bytes", record.length), ("Contents", hidden), *inside
    )


def _message(kind: int, body: bytes) -> Field:
    try:
        if kind == tls_names.CLIENT_HELLO:
            return _client_hello(tls_hello.parse_client_hello(body))
        if kind == tls_names.SERVER_HELLO:
            return _server_hello(tls_hello.parse_server_hello(body))
    except DecodeError as error:
        return Field("Message", f"cannot be read: {error}")
    return Field("Message", f"type {kind}, {len(body)} bytes")


def _client_hello(hello: tls_hello.ClientHello) -> Field:
    return Field.of(
        "ClientHello",
        ("SNI", hello.sni if hello.sni is not None else "none"),
        ("ALPN", listed(hello.alpn) or "none"),
        ("Versions", listed(map(_version, hello.supported_versions or (hello.legacy_version,)))),
        ("Cipher suites", listed(map(_suite, hello.cipher_suites))),
        ("Groups", listed(map(_hex, hello.groups))),
        ("Key shares", listed(map(_hex, hello.key_share_groups))),
        ("Signature algorithms", listed(map(_hex, hello.signature_algorithms))),
        ("Extensions", listed(number for number, _ in hello.extensions)),
        ("Session ID", f"{len(hello.session_id)} bytes"),
        ("Encrypted ClientHello", "yes, this is the outer one" if hello.ech else None),
        ("Resumes a session", "yes" if hello.psk else None),
        ("Early data", "yes" if hello.early_data else None),
        *_parameters(hello.transport_parameters),
    )


def _server_hello(hello: tls_hello.ServerHello) -> Field:
    return Field.of(
        "HelloRetryRequest" if hello.is_retry else "ServerHello",
        ("Version", _version(hello.version)),
        ("Cipher suite", _suite(hello.cipher_suite)),
        ("ALPN", hello.alpn),
        ("Key share", None if hello.key_share_group is None else _hex(hello.key_share_group)),
        ("Extensions", listed(number for number, _ in hello.extensions)),
    )


def _parameters(data: bytes | None) -> list[Field]:
    if data is None:
        return []
    try:
        found = transport_parameters.parse(data)
    except DecodeError as error:
        return [Field("Transport parameters", f"cannot be read: {error}")]
    rows = []
    for number in found.order:
        value = found.values[number]
        shown = f"{len(value)} bytes" if number in SECRET_PARAMETERS and isinstance(value, bytes) else _value(value)
        rows.append((transport_parameters.parameter_name(number), shown))
    return [Field.of("Transport parameters", *rows)]


def _value(value: int | bytes) -> str:
    return str(value) if isinstance(value, int) else value[:64].hex() or "empty"


def _version(value: int) -> str:
    return VERSIONS.get(value) or _hex(value)


def _suite(value: int) -> str:
    known = TLS13_SUITES.get(value)
    return _hex(value) if known is None else f"TLS_{known.name}"


def _hex(value: int) -> str:
    grease = " (GREASE)" if tls_names.is_grease(value) else ""
    return f"0x{value:04x}{grease}"
