"""Initials opened: their frames rewritten, and sealed again once the hello that they carry a part of is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from h3probe.errors import DecodeError
from h3probe.redact.mapping import HIGH_BITS
from h3probe.wire.buffer import Reader
from h3probe.wire.quic.frames import ConnectionClose, Crypto, Other, located_frames
from h3probe.wire.reassembly import Reassembler

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.redact.hello import Hellos
    from h3probe.redact.mapping import Mapping

STREAM_LIMIT: Final = 32 << 10


class CryptoStream:
    """The CRYPTO stream of one side's Initials: hello messages, rewritten when they are whole."""

    def __init__(self, hellos: Hellos, mapping: Mapping) -> None:
        self._hellos = hellos
        self._mapping = mapping
        self._pieces = Reassembler(limit=STREAM_LIMIT)
        self._waiting = bytearray()
        self._made = bytearray()
        self.given_up = False

    def add(self, offset: int, data: bytes) -> None:
        """Take a piece of the original."""
        if self.given_up or not self._pieces.add(offset, data):
            return
        self._waiting += self._pieces.take()
        made, used = self._hellos.messages(bytes(self._waiting))
        self._made += made
        del self._waiting[:used]
        length = int.from_bytes(self._waiting[1:4])
        if length > STREAM_LIMIT or len(self._made) > STREAM_LIMIT:
            self.given_up = True

    def covers(self, end: int) -> bool:
        """Whether what stands before `end` in the rewritten stream is known."""
        return self.given_up or end <= len(self._made)

    def read(self, offset: int, data: bytes) -> bytes:
        """Return what stands in the rewritten stream where the original has `data`."""
        made = bytes(self._made[offset : offset + len(data)])
        # Noise that is the start of no message that anyone waits for.
        return made + self._mapping.credential(data[len(made) :]).translate(HIGH_BITS)


class Cut(NamedTuple):
    """CRYPTO data in a packet: where it stands there, where in the stream, and the original."""

    at: int
    offset: int
    data: bytes


class SealedInitial:
    """An Initial whose CRYPTO frames wait for the rest of the hello.

    Args:
        seal: What protects its payload.
        plain: The payload, rewritten but for the CRYPTO data.
        cuts: That data.
        stream: Where it belongs.
    """

    __slots__ = ("_cuts", "_end", "_plain", "_seal", "_stream")

    def __init__(self, seal: Callable[[bytes], bytes], plain: bytearray, cuts: list[Cut], stream: CryptoStream) -> None:
        self._seal = seal
        self._plain = plain
        self._cuts = cuts
        self._stream = stream
        self._end = max((cut.offset + len(cut.data) for cut in cuts), default=0)

    @property
    def ready(self) -> bool:
        """Whether every CRYPTO frame can be written."""
        return self._stream.covers(self._end)

    def give_up(self) -> None:
        """Wait no longer for the rest of the hello."""
        if not self.ready:
            self._stream.given_up = True

    def take(self) -> bytes:
        """Seal it."""
        for at, offset, data in self._cuts:
            self._plain[at : at + len(data)] = self._stream.read(offset, data)
        return self._seal(bytes(self._plain))


def rewrite_frames(plain: bytes, stream: CryptoStream, mapping: Mapping) -> tuple[bytearray, list[Cut]]:
    """The frames rewritten, and the CRYPTO data among them that is still to be."""
    made = bytearray(plain)
    cuts: list[Cut] = []
    try:
        frames = located_frames(plain)
    except DecodeError:
        return bytearray(b"\x1f").ljust(len(plain), b"\0"), cuts  # a frame that does not belong here
    start = 0
    for frame, end in frames:
        if isinstance(frame, Crypto):
            stream.add(frame.offset, frame.data)
            cuts.append(Cut(end - len(frame.data), frame.offset, frame.data))
        elif isinstance(frame, ConnectionClose):
            reader = Reader(plain, start)
            for _ in range(2 if frame.application else 3):
                reader.varint()
            reason = reader.take(reader.varint())
            made[end - len(reason) : end] = mapping.sentence(reason)
        elif isinstance(frame, Other):
            made[end:] = bytes(len(made) - end)
        start = end
    return made, cuts
