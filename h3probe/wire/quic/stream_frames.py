"""The frames of 0-RTT and 1-RTT packets that say what streams carry and how they end (RFC 9000, 12.4 and 19)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.wire.buffer import Reader
from h3probe.wire.quic.frames import ConnectionClose, Crypto

if TYPE_CHECKING:
    from collections.abc import Callable

_PADDING = re.compile(rb"\x00+")


@dataclass(frozen=True, slots=True)
class StreamData:
    """STREAM: a piece of a stream (19.8).

    Attributes:
        stream: Its number.
        offset: Where the piece belongs.
        data: The piece.
        fin: Whether the stream ends with it.
    """

    stream: int
    offset: int
    data: bytes
    fin: bool


@dataclass(frozen=True, slots=True)
class StreamReset:
    """RESET_STREAM (19.4), also with a size that is delivered all the same (RESET_STREAM_AT).

    Attributes:
        stream: Its number.
        code: The application's error code.
        size: How many bytes its sender had sent on it by then.
    """

    stream: int
    code: int
    size: int


@dataclass(frozen=True, slots=True)
class NewConnectionId:
    """NEW_CONNECTION_ID (19.15).

    Attributes:
        length: Of the ID that the other side may send to from now on.
    """

    length: int


StreamFrame = StreamData | StreamReset | NewConnectionId | Crypto | ConnectionClose

# Frames that are passed over, by how many integers follow their type.
_INTEGERS = MappingProxyType(
    {
        0x01: 0,  # PING
        0x05: 2,  # STOP_SENDING: the RESET_STREAM that answers it says so again
        0x10: 1,  # MAX_DATA
        0x11: 2,  # MAX_STREAM_DATA
        0x12: 1,  # MAX_STREAMS
        0x13: 1,
        0x14: 1,  # DATA_BLOCKED
        0x15: 2,  # STREAM_DATA_BLOCKED
        0x16: 1,  # STREAMS_BLOCKED
        0x17: 1,
        0x19: 1,  # RETIRE_CONNECTION_ID
        0x1E: 0,  # HANDSHAKE_DONE
        0x1F: 0,  # IMMEDIATE_ACK (draft-ietf-quic-ack-frequency)
        0xAF: 4,  # ACK_FREQUENCY
    }
)


def parse_stream_frames(payload: bytes) -> tuple[list[StreamFrame], bool]:
    """Decode the payload of a 0-RTT or 1-RTT packet.

    Returns:
        The frames that matter to an observer, in order, and whether that is all: False where an extension's frame, or
        one that is broken, hides what comes after it.
    """
    frames: list[StreamFrame] = []
    position = 0
    while position < len(payload):
        padding = _PADDING.match(payload, position)
        if padding:
            position = padding.end()
            continue
        reader = Reader(payload, position)
        try:
            frame = _frame(reader)
        except DecodeError:
            return frames, False
        if frame is not None:
            frames.append(frame)
        position = reader.position
    return frames, True


def _frame(reader: Reader) -> StreamFrame | None:
    """The next frame, None for one that is passed over.

    Raises:
        DecodeError: It is cut, or of a type whose length nobody can know.
    """
    kind = reader.varint()
    integers = _INTEGERS.get(kind)
    if integers is not None:
        for _ in range(integers):
            reader.varint()
        return None
    parse = _PARSERS.get(kind)
    if parse is None:
        raise DecodeError(f"a frame of type 0x{kind:x}")
    return parse(reader, kind)


def _stream(reader: Reader, kind: int) -> StreamData:
    stream = reader.varint()
    offset = reader.varint() if kind & 0x04 else 0
    data = reader.take(reader.varint()) if kind & 0x02 else reader.rest()
    return StreamData(stream, offset, data, fin=bool(kind & 0x01))


def _ack(reader: Reader, kind: int) -> None:
    reader.varint()
    reader.varint()
    for _ in range(2 * reader.varint() + 1 + (3 if kind == 0x03 else 0)):
        reader.varint()


def _reset(reader: Reader, kind: int) -> StreamReset:
    frame = StreamReset(reader.varint(), reader.varint(), reader.varint())
    if kind == 0x24:
        reader.varint()
    return frame


def _crypto(reader: Reader, _kind: int) -> Crypto:
    offset = reader.varint()
    return Crypto(offset, reader.take(reader.varint()))


def _vector(reader: Reader, _kind: int) -> None:
    reader.take(reader.varint())


def _new_connection_id(reader: Reader, _kind: int) -> NewConnectionId:
    reader.varint()
    reader.varint()
    length = len(reader.vector(1))
    reader.take(16)
    return NewConnectionId(length)


def _path(reader: Reader, _kind: int) -> None:
    reader.take(8)


def _close(reader: Reader, kind: int) -> ConnectionClose:
    code = reader.varint()
    frame_type = reader.varint() if kind == 0x1C else None
    reason = reader.take(reader.varint()).decode("utf-8", "replace")
    return ConnectionClose(code, frame_type, reason, application=kind == 0x1D)


def _rest(reader: Reader, _kind: int) -> None:
    reader.rest()


_PARSERS: MappingProxyType[int, Callable[[Reader, int], StreamFrame | None]] = MappingProxyType(
    {
        0x02: _ack,
        0x03: _ack,
        0x04: _reset,
        0x06: _crypto,
        0x07: _vector,  # NEW_TOKEN
        **dict.fromkeys(range(0x08, 0x10), _stream),
        0x18: _new_connection_id,
        0x1A: _path,  # PATH_CHALLENGE
        0x1B: _path,  # PATH_RESPONSE
        0x1C: _close,
        0x1D: _close,
        0x24: _reset,  # RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset)
        0x30: _rest,  # DATAGRAM to the packet's end (RFC 9221)
        0x31: _vector,  # DATAGRAM
    }
)
