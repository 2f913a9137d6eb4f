"""TLS as it frames what it carries: records, handshake messages, alerts in the clear (RFC 8446, 4 to 6)."""

from __future__ import annotations

from dataclasses import dataclass

from h3probe.errors import DecodeError
from h3probe.facts import fact
from h3probe.wire import tls_names
from h3probe.wire.tls_names import alert_name

__all__ = [
    "Alert",
    "Record",
    "alert_name",
    "handshake_messages",
    "looks_like_client_hello",
    "parse_alert",
    "records",
]

# 2^14 and what TLS 1.2 allows a cipher to add (RFC 5246, 6.2.3); TLS 1.3 allows less.
LARGEST_RECORD = 16384 + 2048


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
