"""ClientHellos, read from bytes that go by on their way to somebody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from h3probe.errors import DecodeError
from h3probe.wire.quic.frames import Crypto, parse_frames
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.protection import initial_keys, open_packet
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls import handshake_messages, records
from h3probe.wire.tls_hello import parse_client_hello
from h3probe.wire.tls_names import CLIENT_HELLO, HANDSHAKE

if TYPE_CHECKING:
    from h3probe.wire.tls_hello import ClientHello

LONGEST: Final = 1 << 16
MOST_DATAGRAMS: Final = 32
_RECORD_HEADER: Final = 5


@dataclass(frozen=True, slots=True)
class QuicIds:
    """What the header of a client's first Initial says (RFC 9000, 17.2.2).

    Attributes:
        version: The version's number.
        dcid: Destination connection ID.
        scid: Source connection ID.
    """

    version: int
    dcid: bytes
    scid: bytes


class TlsHello:
    """Reads a ClientHello from the start of a stream, however it is cut.

    Attributes:
        over: Whether no further byte is of interest: the hello was read, or this is none.
        ids: Always None: TLS over TCP has no connection IDs.
    """

    __slots__ = ("_buffer", "_handshake", "_wanted", "ids", "over")

    def __init__(self) -> None:
        self.over = False
        self.ids: QuicIds | None = None
        self._buffer = bytearray()
        self._handshake = bytearray()
        self._wanted = _RECORD_HEADER

    def feed(self, data: bytes) -> ClientHello | None:
        """Take the stream's next bytes; return the hello when they complete it."""
        if self.over:
            return None
        self._buffer += data
        try:
            while len(self._buffer) >= self._wanted:
                if self._wanted == _RECORD_HEADER:
                    self._start_record()
                else:
                    hello = self._end_record()
                    if hello is not None:
                        self.over = True
                        return hello
        except DecodeError:
            self.over = True
        return None

    def _start_record(self) -> None:
        if self._buffer[0] != HANDSHAKE or self._buffer[1] != 3:
            raise DecodeError("no handshake record")
        length = int.from_bytes(self._buffer[3:5])
        if not length or len(self._handshake) + length > LONGEST:
            raise DecodeError("no ClientHello is as long as this")
        self._wanted = _RECORD_HEADER + length

    def _end_record(self) -> ClientHello | None:
        found, end = records(bytes(self._buffer[: self._wanted]))
        if not found or end != self._wanted:
            raise DecodeError("no record")
        self._handshake += found[0].payload
        del self._buffer[: self._wanted]
        self._wanted = _RECORD_HEADER
        if self._handshake[0] != CLIENT_HELLO:
            raise DecodeError("a handshake that begins with something else")
        if len(self._handshake) < 4 or len(self._handshake) < 4 + int.from_bytes(self._handshake[1:4]):
            return None  # one message may fill many records, and each is to cost no more than itself
        messages, _ = handshake_messages(bytes(self._handshake))
        return parse_client_hello(messages[0][1])


class QuicHello:
    """Reads a ClientHello from the Initials that a client sends, in whatever order they come.

    Attributes:
        over: As of `TlsHello`.
        ids: Of the first Initial, once there was one.
    """

    __slots__ = ("_datagrams", "_stream", "ids", "over")

    def __init__(self) -> None:
        self.over = False
        self.ids: QuicIds | None = None
        self._datagrams = 0
        self._stream = Reassembler(limit=LONGEST)

    def feed(self, data: bytes) -> ClientHello | None:
        """Take a datagram; return the hello when it completes it."""
        if self.over:
            return None
        self._datagrams += 1
        try:
            hello = self._read(data)
        except DecodeError:
            hello = None
        self.over = hello is not None or self._datagrams >= MOST_DATAGRAMS
        return hello

    def _read(self, data: bytes) -> ClientHello | None:
        for packet in split_datagram(data):
            if not isinstance(packet, LongPacket) or packet.kind != "initial" or packet.truncated:
                continue
            if self.ids is None:
                self.ids = QuicIds(packet.version, packet.dcid, packet.scid)
            self._open(packet)
        messages, _ = handshake_messages(self._stream.contiguous)
        if not messages:
            return None
        kind, body = messages[0]
        if kind != CLIENT_HELLO:
            self.over = True
            return None
        return parse_client_hello(body)

    def _open(self, packet: LongPacket) -> None:
        """Take an Initial's CRYPTO frames; its keys come from the first DCID, or after a Retry from its own."""
        first = self.ids.dcid if self.ids is not None else packet.dcid
        for dcid in dict.fromkeys((first, packet.dcid)):
            try:
                opened = open_packet(initial_keys(packet.version, dcid).client, packet, -1)
            except DecodeError:
                continue
            for frame in parse_frames(opened.payload):
                if isinstance(frame, Crypto):
                    self._stream.add(frame.offset, frame.data)
            return
