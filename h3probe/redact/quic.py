"""QUIC datagrams: connection IDs replaced, Initials opened, rewritten and sealed again, the rest made noise.

The Initial keys come from the client's first Destination Connection ID (RFC 9001, 5.2). With that ID replaced they
are others, and anyone can derive those as well: what was in an Initial (ACKs, the hellos, a close) is still there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from h3probe.errors import DecodeError
from h3probe.redact.piece import Joined, Known
from h3probe.track.quic_routing import flow_key
from h3probe.track.table import BoundedTable
from h3probe.wire.buffer import Reader
from h3probe.wire.quic.aggregate import LARGEST_PLAIN, split_aggregate
from h3probe.wire.quic.frames import ConnectionClose, Crypto, Other, located_frames
from h3probe.wire.quic.packets import LongPacket, ShortPacket, gquic_version, looks_like_quic, split_datagram
from h3probe.wire.quic.protection import initial_keys, retry_is_valid, seal_packet, unmask
from h3probe.wire.quic.versions import is_gquic, is_reserved, known
from h3probe.wire.reassembly import Reassembler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from h3probe.events import Endpoint
    from h3probe.redact.hello import Hellos
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.piece import Piece
    from h3probe.wire.quic.protection import PacketKeys, Unmasked

FLOWS_LIMIT: Final = 20_000
STREAMS_LIMIT: Final = 1_024
STREAM_LIMIT: Final = 32 << 10
CONNECTIONS_PER_FLOW: Final = 32
IDS_PER_SENDER: Final = 64
_TAG: Final = 16
_COALESCED: Final = 8
_LENGTHS: Final = 5
"""Bytes that an empty token's length and a packet's length may take."""
_HIGH_BITS: Final = bytes(byte | 0x80 for byte in range(256))


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
        return made + self._mapping.credential(data[len(made) :]).translate(_HIGH_BITS)


@dataclass(slots=True)
class _Connection:
    """What opens a connection's Initials, and what they carry."""

    client: Endpoint
    key_dcid: bytes
    client_scid: bytes
    largest: dict[bool, int] = field(default_factory=lambda: {True: -1, False: -1})


@dataclass(slots=True)
class _Flow:
    """One pair of UDP ports."""

    connections: list[_Connection] = field(default_factory=list)
    ids: dict[Endpoint, dict[bytes, None]] = field(default_factory=dict)

    def sent(self, source: Endpoint, scid: bytes) -> None:
        """Take note of a connection ID that one side chose."""
        if not scid:
            return
        known_ids = self.ids.setdefault(source, {})
        known_ids.pop(scid, None)
        known_ids[scid] = None
        if len(known_ids) > IDS_PER_SENDER:
            del known_ids[next(iter(known_ids))]

    def id_at(self, destination: Endpoint, data: bytes, at: int) -> bytes:
        """The connection ID that stands in front, of those that the receiver chose."""
        for connection_id in self.ids.get(destination, ()):
            if data.startswith(connection_id, at):
                return connection_id
        return b""


class _Cut(NamedTuple):
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

    def __init__(
        self, seal: Callable[[bytes], bytes], plain: bytearray, cuts: list[_Cut], stream: CryptoStream
    ) -> None:
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


def _lacks_fixed_bit(data: bytes) -> bool:
    """Whether a long header of a version that is known stands there, but for the fixed bit."""
    return bool(data) and data[0] & 0xC0 == 0x80 and known(int.from_bytes(data[1:5])) is not None


def _lengths_end(packet: LongPacket, at: int) -> int:
    """Where noise begins in a packet of a reserved version (RFC 9000, 15), or Google's: they may be like version 1.

    Its lengths stay where there is no token, and they fit; else nothing does: it may be anything.
    """
    reader = Reader(packet.data, at)
    initial, retry = packet.data[0] & 0x30 == 0, packet.data[0] & 0x30 == 0x30
    if retry or not (is_reserved(packet.version) or is_gquic(packet.version)):
        return at
    try:
        has_token = initial and reader.varint() != 0
        fits = not has_token and reader.varint() <= reader.remaining and reader.position - at <= _LENGTHS
    except DecodeError:
        fits = False
    return reader.position if fits else at


def _seal(keys: PacketKeys, header: bytes, bare: Unmasked, plain: bytes) -> bytes:
    return seal_packet(keys, header, bare.number, plain, (bare.header[0] & 3) + 1)


class QuicRewriter:
    """Rewrites the datagrams of all flows; bounded in memory."""

    def __init__(self, mapping: Mapping, hellos: Hellos) -> None:
        self._mapping = mapping
        self._hellos = hellos
        self._flows: BoundedTable[tuple[Endpoint, Endpoint], _Flow] = BoundedTable(FLOWS_LIMIT)
        self._streams: BoundedTable[tuple[Endpoint, Endpoint, bytes, bool], CryptoStream] = BoundedTable(STREAMS_LIMIT)

    def datagram(self, source: Endpoint, destination: Endpoint, payload: bytes, length: int) -> Piece:
        """Rewrite a UDP payload, QUIC or not.

        Args:
            source: Its sender.
            destination: Its receiver.
            payload: As captured.
            length: As on the wire.
        """
        key = flow_key(source, destination)
        flow = self._flows.get(key)
        if flow is None:
            if not looks_like_quic(payload, length) and gquic_version(payload) is None:
                return Known(self._stranger(payload))
            flow = _Flow()
            self._flows.put(key, flow)
        if payload[:1] and payload[0] & 0xC0 == 0x40 and len(payload) <= LARGEST_PLAIN:  # most of them are so
            return Known(self._short(flow, destination, payload))
        parts = [payload]
        if len(payload) > LARGEST_PLAIN:
            dcid = payload[6 : 6 + payload[5]] if payload[0] & 0x80 else flow.id_at(destination, payload, 1)
            parts = split_aggregate(payload, dcid)
        pieces: list[Piece] = []
        for part in parts:
            try:
                packets = split_datagram(part)
            except DecodeError:
                pieces.append(Known(self._undecodable(part)))
                continue
            pieces += [self._packet(flow, source, destination, packet) for packet in packets]
            rest = part[packets[-1].offset + len(packets[-1].data) :]
            pieces.append(Known(self._without_fixed_bit(rest) if _lacks_fixed_bit(rest) else bytes(len(rest))))
        return pieces[0] if len(pieces) == 1 else Joined(pieces)

    def quoted(self, source: Endpoint, destination: Endpoint, payload: bytes) -> bytes:
        """Rewrite what an ICMP error quotes of a datagram: its headers, as far as they are there."""
        flow = self._flows.get(flow_key(source, destination))
        if flow is None or not payload:
            return self._stranger(payload)
        if not payload[0] & 0x80:
            return self._short(flow, destination, payload)
        reader = Reader(payload)
        made = b""
        try:
            made = bytes((self._first_byte(payload),)) + payload[1:5]
            reader.take(5)
            for _ in range(2):
                connection_id = reader.vector(1)
                made += bytes((len(connection_id),)) + self._mapping.connection_id(connection_id)
        except DecodeError:
            made += payload[len(made) : len(made) + 1]  # the length of what is cut
        return made[: len(payload)] + self._mapping.noise(payload, max(len(payload) - len(made), 0))

    def _stranger(self, payload: bytes) -> bytes:
        """What is not QUIC, or a version with other headers: noise that still is not, or still is."""
        if not payload:
            return b""
        noise = self._mapping.noise(payload, len(payload))
        if gquic_version(payload) is None:
            return bytes((payload[0] & 0xC0 | noise[0] & 0x3F,)) + noise[1:]
        if payload[0] & 0x80:
            return payload[:5] + noise[5:]
        return payload[:1] + self._mapping.connection_id(payload[1:9]) + payload[9:13] + noise[13:]

    def _undecodable(self, payload: bytes) -> bytes:
        """What is no packet, between packets: it stays none, by the fixed bit (RFC 9000, 17.2)."""
        if _lacks_fixed_bit(payload):
            return self._without_fixed_bit(payload)
        noise = self._stranger(payload)
        if not payload[0] & 0x80 or gquic_version(payload) is not None:
            return noise
        version = payload[1:5] if known(int.from_bytes(payload[1:5])) else b"\0\0\0\1"
        return (bytes((noise[0] & 0xBF,)) + version + noise[5:])[: len(payload)]

    def _without_fixed_bit(self, payload: bytes) -> bytes:
        """Packets whose sender made a random bit of the fixed one (RFC 9287): their headers, and noise."""
        made = b""
        for _ in range(_COALESCED):
            if len(made) == len(payload):
                break
            first, rest = payload[len(made)], payload[len(made) + 1 :]
            try:
                packet = split_datagram(bytes((first | 0x40,)) + rest)[0]
            except DecodeError:
                packet = None
            if not isinstance(packet, LongPacket):
                break
            protected = self._protected(packet)
            made += bytes((protected[0] & (first | 0xBF),)) + protected[1:]
        return made + self._mapping.noise(payload, len(payload) - len(made))

    def _first_byte(self, packet: bytes) -> int:
        """The form, fixed, type and spin bits; what is under header protection becomes noise."""
        open_bits = 0xF0 if packet[0] & 0x80 else 0xE0
        return packet[0] & open_bits | self._mapping.noise(packet, 1)[0] & ~open_bits & 0xFF

    def _short(self, flow: _Flow, destination: Endpoint, packet: bytes) -> bytes:
        connection_id = flow.id_at(destination, packet, 1)
        noise = self._mapping.noise(packet, len(packet))
        first = packet[0] & 0xE0 | noise[0] & 0x1F
        made = bytes((first,)) + self._mapping.connection_id(connection_id)
        return made + noise[len(made) :]

    def _packet(self, flow: _Flow, source: Endpoint, destination: Endpoint, packet: LongPacket | ShortPacket) -> Piece:
        if isinstance(packet, ShortPacket):
            return Known(self._short(flow, destination, packet.data))
        if packet.kind == "retry":
            return Known(self._retry(flow, source, packet))
        if packet.kind != "version-negotiation":
            flow.sent(source, packet.scid)
        if packet.kind == "initial" and packet.pn_offset and not packet.truncated:
            opened = self._initial(flow, source, destination, packet)
            if opened is not None:
                return opened
        elif packet.kind == "initial" and not flow.connections and source.port >= destination.port:
            # A snaplen cut it; its ID still opens what the server answers.
            flow.connections.append(_Connection(source, packet.dcid, packet.scid))
        return Known(self._protected(packet))

    def _header(self, packet: LongPacket, first: int) -> tuple[bytes, int]:
        """A long header up to its packet number, replaced; and how much of the packet it takes."""
        data = packet.data
        dcid, scid = self._mapping.connection_id(packet.dcid), self._mapping.connection_id(packet.scid)
        made = bytes((first,)) + data[1:5] + bytes((len(dcid),)) + dcid + bytes((len(scid),)) + scid
        at = len(made)
        if packet.kind == "version-negotiation":
            return made + data[at:], len(data)
        if packet.kind == "unknown":
            end = _lengths_end(packet, at)
            return made + data[at:end], end
        if packet.kind == "retry":
            return made, at
        if packet.kind == "initial":
            reader = Reader(data, at)
            try:
                length = reader.varint()
            except DecodeError:
                return made, at
            token = data[reader.position : reader.position + length]
            made += data[at : reader.position] + self._mapping.credential(token)
            at = len(made)
        end = packet.pn_offset or min(len(data), at + (1 << (data[at] >> 6)) if at < len(data) else at)
        return made + data[at:end], end

    def _protected(self, packet: LongPacket) -> bytes:
        """A packet that cannot be opened: its header, and noise."""
        first = packet.data[0] if packet.kind in ("version-negotiation", "unknown") else self._first_byte(packet.data)
        made, end = self._header(packet, first)
        return made + self._mapping.noise(packet.data, len(packet.data) - end)

    def _retry(self, flow: _Flow, source: Endpoint, packet: LongPacket) -> bytes:
        """A Retry; its integrity tag is made anew where it is right (RFC 9001, 5.8)."""
        flow.sent(source, packet.scid)
        made = self._header(packet, packet.data[0])[0] + self._mapping.credential(packet.token)
        version = known(packet.version)
        tag = self._mapping.noise(packet.data, len(packet.data) - len(made))
        for connection in reversed(flow.connections):
            if retry_is_valid(packet, connection.key_dcid) and version and version.retry_key and version.retry_nonce:
                dcid = self._mapping.connection_id(connection.key_dcid)
                pseudo = bytes((len(dcid),)) + dcid + made
                tag = AESGCM(version.retry_key).encrypt(version.retry_nonce, b"", pseudo)
                break
        return made + tag

    def _initial(self, flow: _Flow, source: Endpoint, destination: Endpoint, packet: LongPacket) -> Piece | None:
        for connection, from_client in self._candidates(flow, source, packet):
            keys = initial_keys(packet.version, connection.key_dcid)
            side = keys.client if from_client else keys.server
            try:
                bare = unmask(side, packet.data, packet.pn_offset, 0x0F, connection.largest[from_client])
                plain = side.open(bare.number, packet.data[len(bare.header) :], bare.header)
            except DecodeError:
                continue
            if all(connection is not c for c in flow.connections):
                flow.connections = [*flow.connections[1 - CONNECTIONS_PER_FLOW :], connection]
            connection.largest[from_client] = max(connection.largest[from_client], bare.number)
            new_keys = initial_keys(packet.version, self._mapping.connection_id(connection.key_dcid))
            stream = self._stream((*flow_key(source, destination), connection.key_dcid, from_client))
            frames, cuts = self._frames(plain, stream)
            header, _ = self._header(packet, bare.header[0])
            new_side = new_keys.client if from_client else new_keys.server
            seal = partial(_seal, new_side, header, bare)
            return SealedInitial(seal, frames, cuts, stream)
        return None

    def _candidates(self, flow: _Flow, source: Endpoint, packet: LongPacket) -> Iterator[tuple[_Connection, bool]]:
        """What may open an Initial: its own ID first, for a client's first flight, then what is known of the flow."""
        own = next((c for c in flow.connections if c.client == source and c.key_dcid == packet.dcid), None)
        if own is not None or all(c.client == source for c in flow.connections):
            yield own or _Connection(source, packet.dcid, packet.scid), True
        for connection in reversed(flow.connections):
            if connection is not own:
                yield connection, connection.client == source
        if own is None and not all(c.client == source for c in flow.connections):
            yield _Connection(source, packet.dcid, packet.scid), True

    def _stream(self, key: tuple[Endpoint, Endpoint, bytes, bool]) -> CryptoStream:
        stream = self._streams.get(key)
        if stream is None:
            stream = CryptoStream(self._hellos, self._mapping)
            for gone in self._streams.put(key, stream):
                gone.given_up = True
        return stream

    def _frames(self, plain: bytes, stream: CryptoStream) -> tuple[bytearray, list[_Cut]]:
        """The frames rewritten, and the CRYPTO data among them that is still to be."""
        made = bytearray(plain)
        cuts: list[_Cut] = []
        try:
            frames = located_frames(plain)
        except DecodeError:
            return bytearray(b"\x1f").ljust(len(plain), b"\0"), cuts  # a frame that does not belong here
        start = 0
        for frame, end in frames:
            if isinstance(frame, Crypto):
                stream.add(frame.offset, frame.data)
                cuts.append(_Cut(end - len(frame.data), frame.offset, frame.data))
            elif isinstance(frame, ConnectionClose):
                reader = Reader(plain, start)
                for _ in range(2 if frame.application else 3):
                    reader.varint()
                reason = reader.take(reader.varint())
                made[end - len(reason) : end] = self._mapping.sentence(reason)
            elif isinstance(frame, Other):
                made[end:] = bytes(len(made) - end)
            start = end
        return made, cuts
