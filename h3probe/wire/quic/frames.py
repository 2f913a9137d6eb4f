"""The frames that Initial and Handshake packets may hold (RFC 9000, 12.4 and 19)."""

from __future__ import annotations

import re

from h3probe.errors import DecodeError
from h3probe.facts import fact
from h3probe.wire.buffer import Reader

_PADDING = re.compile(rb"\x00+")


@fact
class Padding:
    """A run of PADDING frames (19.1).

    Attributes:
        count: How many bytes.
    """

    count: int


@fact
class Ping:
    """PING (19.2)."""


@fact
class Ack:
    """ACK, with or without ECN counts (19.3).

    Attributes:
        largest: The largest packet number acknowledged.
        delay: As sent: not yet scaled by the sender's ack_delay_exponent.
        ranges: (first, last) of each run of packet numbers acknowledged, the largest first.
    """

    largest: int
    delay: int
    ranges: tuple[tuple[int, int], ...]


@fact
class Crypto:
    """CRYPTO: a piece of the handshake (19.6).

    Attributes:
        offset: Where it belongs in the stream.
        data: The piece.
    """

    offset: int
    data: bytes


@fact
class ConnectionClose:
    """CONNECTION_CLOSE (19.19).

    Attributes:
        code: The error code.
        frame_type: The frame that caused it, 0 if unknown; None if the application closed.
        reason: As sent, U+FFFD for what is not UTF-8. It may hold control characters.
        application: Whether the code is the application protocol's own (frame 0x1d) or the transport's (0x1c).
    """

    code: int
    frame_type: int | None
    reason: str
    application: bool


@fact
class Other:
    """A frame that is not allowed in these packets; what follows it is not read.

    Attributes:
        frame_type: Its type.
    """

    frame_type: int


Frame = Padding | Ping | Ack | Crypto | ConnectionClose | Other


def parse_frames(payload: bytes) -> list[Frame]:
    """Decode the payload of an Initial or Handshake packet.

    Returns:
        The frames in order; the last one is an `Other` if a frame does not belong there.

    Raises:
        TruncatedError: A frame ends before its own lengths say.
        DecodeError: An ACK covers packet numbers below 0.
    """
    return [frame for frame, _ in located_frames(payload)]


def located_frames(payload: bytes) -> list[tuple[Frame, int]]:
    """Decode the same, and tell where each frame ends; what an `Other` holds lies behind that.

    Raises:
        TruncatedError: As `parse_frames`.
        DecodeError: As `parse_frames`.
    """
    frames: list[tuple[Frame, int]] = []
    reader = Reader(payload)
    while reader.remaining:
        padding = _PADDING.match(payload, reader.position)
        frame = Padding(len(reader.take(padding.end() - reader.position))) if padding else _frame(reader)
        frames.append((frame, reader.position))
        if isinstance(frame, Other):
            break
    return frames


def _frame(reader: Reader) -> Frame:
    match reader.varint():
        case 0x00:
            return Padding(1)  # only where its type is not in the shortest form
        case 0x01:
            return Ping()
        case 0x02:
            return _ack(reader)
        case 0x03:
            ack = _ack(reader)
            for _ in ("ECT(0)", "ECT(1)", "ECN-CE"):
                reader.varint()
            return ack
        case 0x06:
            offset = reader.varint()
            return Crypto(offset, reader.take(reader.varint()))
        case 0x1C:
            code, frame_type = reader.varint(), reader.varint()
            return ConnectionClose(code, frame_type, _reason(reader), application=False)
        case 0x1D:
            code = reader.varint()
            return ConnectionClose(code, None, _reason(reader), application=True)
        case other:
            return Other(other)


def _reason(reader: Reader) -> str:
    return reader.take(reader.varint()).decode("utf-8", "replace")


def _ack(reader: Reader) -> Ack:
    """The fields that both kinds of ACK share (19.3.1)."""
    largest, delay, count = reader.varint(), reader.varint(), reader.varint()
    last = largest
    first = last - reader.varint()
    ranges = [(first, last)]
    for _ in range(count):
        last = first - reader.varint() - 2
        first = last - reader.varint()
        ranges.append((first, last))
        if first < 0:
            break
    if first < 0:
        raise DecodeError("an ACK of packet numbers below 0")
    return Ack(largest, delay, tuple(ranges))
