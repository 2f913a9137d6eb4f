"""One direction of an HTTP/3 connection, read for the heads of its messages (RFC 9114)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

from h3probe.errors import DecodeError
from h3probe.wire.buffer import Reader
from h3probe.wire.http_fields import Request, Response, request, response
from h3probe.wire.qpack import LARGEST_SECTION, QpackDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.wire.qpack import Fields

LARGEST_SETTINGS: Final = 16 << 10
STREAMS_LIMIT: Final = 512
"""Streams of one direction that are read at the same time; the oldest one gives way."""

_HEADERS, _SETTINGS, _GOAWAY = 0x1, 0x4, 0x7
_CONTROL, _ENCODER = 0x0, 0x2
_MAX_TABLE_CAPACITY: Final = 0x1

Kind = Literal["undecided", "message", "control", "encoder", "ignored"]
_KINDS: Final[dict[int, Kind]] = {_CONTROL: "control", _ENCODER: "encoder"}
_EXPENDABLE: Final = frozenset({"undecided", "message", "ignored"})


@dataclass(frozen=True, slots=True)
class TableCapacity:
    """SETTINGS_QPACK_MAX_TABLE_CAPACITY: what the sender of it allows the other direction (RFC 9204, 5).

    Attributes:
        capacity: Bytes, 0 where the SETTINGS do not say it.
    """

    capacity: int


Http3Fact = Request | Response | TableCapacity


@dataclass(slots=True)
class _Stream:
    """How far a stream was read."""

    kind: Kind
    buffer: bytearray = field(default_factory=bytearray)
    skip: int = 0


class Http3Reader:
    """Reads the streams of one direction.

    Args:
        from_client: Which one: the fields of the client's are requests.

    Attributes:
        held: Bytes that wait for the rest of their frame.
    """

    __slots__ = ("_from_client", "_qpack", "_streams", "_tokens", "_waiting", "held")

    def __init__(self, *, from_client: bool) -> None:
        self.held = 0
        self._from_client = from_client
        self._qpack = QpackDecoder()
        self._streams: dict[int, _Stream] = {}
        self._tokens = count(1)
        self._waiting: dict[int, int] = {}  # The stream of each field section that waits, by its number.

    def reads(self, stream: int) -> bool:
        """Whether anything on this stream, in this direction, can be of interest."""
        kind = stream & 3
        if kind == 0:
            return True
        return kind == (2 if self._from_client else 3)

    def allow_table(self, capacity: int) -> list[Http3Fact]:
        """Take what the other side's SETTINGS allow; return the heads that had waited for it."""
        try:
            return self._heads(self._qpack.allow(capacity))
        except DecodeError:
            return []

    def forget(self, stream: int) -> None:
        """Let go of a stream: it has ended, or all that is wanted of it was read."""
        state = self._streams.pop(stream, None)
        if state is not None:
            self.held -= len(state.buffer)

    def feed(self, stream: int, data: bytes) -> list[Http3Fact]:
        """Take the next bytes of a stream.

        Returns:
            What the frames completed by them say, which may be about other streams: their fields had waited.

        Raises:
            DecodeError: The stream is none of HTTP/3's, or its fields cannot be decompressed: nothing more can be
                said of it. Other streams are not touched by that.
        """
        state = self._streams.get(stream)
        if state is None:
            state = self._begin(stream)
        before = len(state.buffer)
        state.buffer += data
        facts: list[Http3Fact] = []
        try:
            self._advance(stream, state, facts)
        except DecodeError:
            state.kind = "ignored"
            state.buffer.clear()
            if not facts:
                raise
        finally:
            self.held += len(state.buffer) - before
        return facts

    def _begin(self, stream: int) -> _Stream:
        if len(self._streams) >= STREAMS_LIMIT:
            # The control stream and the encoder's, which are there from the start, must stay.
            oldest = next((s for s, state in self._streams.items() if state.kind in _EXPENDABLE), stream)
            self.forget(oldest)
        self._streams[stream] = state = _Stream("message" if not stream & 3 else "undecided")
        return state

    def _advance(self, stream: int, state: _Stream, facts: list[Http3Fact]) -> None:
        if state.kind == "undecided":
            kind = _whole_varint(state.buffer, 0)
            if kind is None:
                return
            del state.buffer[: kind[1]]
            state.kind = _KINDS.get(kind[0], "ignored")
        if state.kind == "ignored":
            state.buffer.clear()
        elif state.kind == "encoder":
            data = bytes(state.buffer)
            state.buffer.clear()
            facts += self._heads(self._qpack.feed_encoder(data))
        else:
            while (frame := _next_frame(state)) is not None:
                facts += self._frame(stream, *frame)

    def _frame(self, stream: int, kind: int, payload: bytes) -> Iterable[Http3Fact]:
        if kind == _SETTINGS:
            return (TableCapacity(_capacity(payload)),)
        token = next(self._tokens)
        fields = self._qpack.decode(token, payload)
        self._waiting[token] = stream
        return () if fields is None else self._heads([(token, fields)])

    def _heads(self, done: Iterable[tuple[int, Fields]]) -> list[Http3Fact]:
        heads: list[Http3Fact] = []
        for token, fields in done:
            stream = self._waiting.pop(token)
            try:
                head = request(stream, fields) if self._from_client else response(stream, fields)
            except DecodeError:
                continue  # That message alone is malformed (RFC 9114, 4.1.2).
            if head is not None:
                heads.append(head)
        return heads


def _next_frame(state: _Stream) -> tuple[int, bytes] | None:
    """The next frame that is looked at, as (type, payload); None when more bytes must come.

    Raises:
        DecodeError: It is longer than any that is meant well.
    """
    buffer = state.buffer
    while True:
        if state.skip:
            skipped = min(state.skip, len(buffer))
            del buffer[:skipped]
            state.skip -= skipped
        kind = _whole_varint(buffer, 0)
        length = _whole_varint(buffer, kind[1]) if kind is not None else None
        if kind is None or length is None:
            return None
        wanted = (_SETTINGS, LARGEST_SETTINGS) if state.kind == "control" else (_HEADERS, LARGEST_SECTION)
        if kind[0] != wanted[0]:
            state.skip = length[1] + length[0]
            continue
        if length[0] > wanted[1]:
            raise DecodeError(f"a frame of type {kind[0]} with {length[0]} bytes")
        end = length[1] + length[0]
        if len(buffer) < end:
            return None
        payload = bytes(buffer[length[1] : end])
        del buffer[:end]
        return kind[0], payload


def _whole_varint(data: bytearray, at: int) -> tuple[int, int] | None:
    """The integer at an offset, and the offset after it; None while it is not whole."""
    if at >= len(data) or at + (1 << (data[at] >> 6)) > len(data):
        return None
    end = at + (1 << (data[at] >> 6))
    return int.from_bytes(data[at:end]) & ((1 << (8 * (end - at) - 2)) - 1), end


def _capacity(payload: bytes) -> int:
    """SETTINGS_QPACK_MAX_TABLE_CAPACITY among settings (RFC 9114, 7.2.4).

    Raises:
        TruncatedError: They end within one.
    """
    reader = Reader(payload)
    capacity = 0
    while reader.remaining:
        name, value = reader.varint(), reader.varint()
        if name == _MAX_TABLE_CAPACITY:
            capacity = value
    return capacity
