"""One direction of an HTTP/2 connection, read for the heads of its messages (RFC 9113).

Flow control, priorities and bodies are none of an observer's business: frames that carry no fields are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import hpack

from h3probe.errors import DecodeError
from h3probe.wire.buffer import Reader
from h3probe.wire.http_fields import Request, Reset, Response, request, response

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LARGEST_BLOCK: Final = 64 << 10
"""Bytes of one message's compressed fields that are read; more is taken for hostile."""
LARGEST_LIST: Final = 256 << 10
"""Bytes that one message's fields may grow to."""
LARGEST_TABLE: Final = 1 << 20
"""Bytes of HPACK's dynamic table that are kept for one direction; no known client or server asks for more."""
_LARGEST_SETTINGS: Final = 6 * 1024

_FRAME_HEADER: Final = 9
_HEADERS, _RST_STREAM, _SETTINGS, _PUSH_PROMISE, _CONTINUATION = 1, 3, 4, 5, 9
# The most bytes of each frame that is looked at.
_LIMITS: Final = {
    _HEADERS: LARGEST_BLOCK + 512,
    _RST_STREAM: 4,
    _SETTINGS: _LARGEST_SETTINGS,
    _PUSH_PROMISE: LARGEST_BLOCK + 512,
    _CONTINUATION: LARGEST_BLOCK + 512,
}
_ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x4, 0x8, 0x20
_HEADER_TABLE_SIZE: Final = 1


@dataclass(frozen=True, slots=True)
class TableSize:
    """SETTINGS_HEADER_TABLE_SIZE: what the sender of it allows the other direction (RFC 9113, 6.5.2).

    Attributes:
        size: Bytes.
    """

    size: int


# RFC 9113, 7.
ERRORS: Final = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)


def error_name(code: int) -> str:
    """The name of an HTTP/2 error code, the code in hex where it has none."""
    return ERRORS[code] if code < len(ERRORS) else f"0x{code:x}"


Http2Fact = Request | Response | Reset | TableSize


class Http2Reader:
    """Reads one direction, from its first byte on.

    Args:
        from_client: Which one: the client's begins with the preface, and its fields are requests.

    Attributes:
        lost: Why it cannot be read any further; None while it can.
        held: Bytes that wait for the rest of a frame or of a field block.
    """

    __slots__ = ("_block", "_buffer", "_decoder", "_from_client", "_preface", "_promised", "_skip", "_stream", "lost")

    def __init__(self, *, from_client: bool) -> None:
        self.lost: str | None = None
        self._from_client = from_client
        self._preface = from_client
        self._buffer = bytearray()
        self._skip = 0
        self._block = bytearray()
        self._stream = 0
        self._promised = False
        self._decoder = hpack.Decoder(max_header_list_size=LARGEST_LIST)

    @property
    def held(self) -> int:
        """Bytes that wait for the rest of a frame or of a field block."""
        return len(self._buffer) + len(self._block)

    def allow_table(self, size: int) -> None:
        """Take what the other side's SETTINGS allow: from then on this direction may use a table of that size.

        The limit never shrinks here: the sender goes on with the larger table until it has seen the SETTINGS.
        """
        allowed = max(self._decoder.max_allowed_table_size, min(size, LARGEST_TABLE))
        self._decoder.max_allowed_table_size = allowed

    def feed(self, data: bytes) -> list[Http2Fact]:
        """Take the next bytes of the direction.

        Returns:
            What the frames completed by them say.

        Raises:
            DecodeError: This is no HTTP/2, or its fields cannot be decompressed: nothing more can be said of the
                direction. What was found before it in the same bytes is returned first, and the next call raises.
        """
        if self.lost is not None:
            raise DecodeError(self.lost)
        facts: list[Http2Fact] = []
        self._buffer += data
        try:
            while (frame := self._next()) is not None:
                facts += self._frame(*frame)
        except DecodeError as error:
            self.lost = str(error)
            self._buffer.clear()
            self._block.clear()
            if not facts:
                raise
        return facts

    def _next(self) -> tuple[int, int, int, bytes] | None:
        """The next frame that is looked at, as (type, flags, stream, payload); None when more bytes must come."""
        buffer = self._buffer
        while self._pass_over() and len(buffer) >= _FRAME_HEADER:
            length, kind, flags = int.from_bytes(buffer[:3]), buffer[3], buffer[4]
            if kind not in _LIMITS or (kind == _SETTINGS and flags & _ACK):
                if self._stream:
                    raise DecodeError("a frame in the midst of a field block")
                self._skip = _FRAME_HEADER + length
                continue
            if length > _LIMITS[kind]:
                raise DecodeError(f"a frame of type {kind} with {length} bytes")
            end = _FRAME_HEADER + length
            if len(buffer) < end:
                return None
            stream, payload = int.from_bytes(buffer[5:9]) & 0x7FFF_FFFF, bytes(buffer[_FRAME_HEADER:end])
            del buffer[:end]
            return kind, flags, stream, payload
        return None

    def _pass_over(self) -> bool:
        """Remove what is not looked at; whether all of it was there."""
        buffer = self._buffer
        if self._preface:
            if not PREFACE.startswith(buffer[: len(PREFACE)]):
                raise DecodeError("no HTTP/2 connection preface")
            if len(buffer) < len(PREFACE):
                return False
            del buffer[: len(PREFACE)]
            self._preface = False
        skipped = min(self._skip, len(buffer))
        del buffer[:skipped]
        self._skip -= skipped
        return not self._skip

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> list[Http2Fact]:
        reader = Reader(payload)
        if bool(self._stream) != (kind == _CONTINUATION) or (self._stream and stream != self._stream):
            raise DecodeError("a field block that another frame interrupts, or that nothing began")
        match kind:
            case 1 | 5 | 9:
                return self._fields(kind, flags, stream, payload)
            case 3:
                return [Reset(stream, reader.u32())]
            case _:
                return self._settings(reader)

    def _settings(self, reader: Reader) -> list[Http2Fact]:
        facts: list[Http2Fact] = []
        while reader.remaining:
            name, value = reader.u16(), reader.u32()
            if name == _HEADER_TABLE_SIZE:
                facts.append(TableSize(value))
        return facts

    def _fields(self, kind: int, flags: int, stream: int, payload: bytes) -> list[Http2Fact]:
        """Take a part of a field block (RFC 9113, 6.2, 6.6 and 6.10)."""
        if kind != _CONTINUATION:
            reader = Reader(payload)
            padding = reader.u8() if flags & _PADDED else 0
            if kind == _PUSH_PROMISE:
                reader.take(4)
            elif flags & _PRIORITY:
                reader.take(5)
            if padding > reader.remaining or not stream:
                raise DecodeError("fields with more padding than there is, or without a stream")
            payload = reader.take(reader.remaining - padding)
            self._stream, self._promised = stream, kind == _PUSH_PROMISE
        self._block += payload
        if len(self._block) > LARGEST_BLOCK:
            raise DecodeError(f"a field block of more than {LARGEST_BLOCK} bytes")
        if not flags & _END_HEADERS:
            return []
        block, promised = bytes(self._block), self._promised
        self._block.clear()
        self._stream, self._promised = 0, False
        try:
            fields = self._decoder.decode(block, raw=True)
        except hpack.HPACKError:
            raise DecodeError("a field block that cannot be decompressed") from None
        if promised:
            return []  # It had to be decompressed all the same: the table goes on from it.
        try:
            head = request(stream, fields) if self._from_client else response(stream, fields)
        except DecodeError:
            return []  # That message alone is malformed (RFC 9113, 8.1.1).
        return [] if head is None else [head]
