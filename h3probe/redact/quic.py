"""QUIC datagrams: connection IDs replaced, Initials opened, rewritten and sealed again, the rest made noise.

The Initial keys come from the client's first Destination Connection ID (RFC 9001, 5.2). With that ID replaced they
are others, and anyone can derive those as well: what was in an Initial (ACKs, the hellos, a close) is still there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from h3probe.errors import DecodeError
from h3probe.redact.piece import Joined, Known
from h3probe.redact.quic_flow import Connection, Flow
from h3probe.redact.quic_headers import QuicHeaders
from h3probe.redact.quic_initial import CryptoStream, SealedInitial, rewrite_frames
from h3probe.track.quic_routing import flow_key
from h3probe.track.table import BoundedTable
from h3probe.wire.quic.aggregate import LARGEST_PLAIN, split_aggregate
from h3probe.wire.quic.packets import LongPacket, ShortPacket, gquic_version, looks_like_quic, split_datagram
from h3probe.wire.quic.protection import initial_keys, retry_is_valid, seal_packet, unmask
from h3probe.wire.quic.versions import known

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.redact.hello import Hellos
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.piece import Piece
    from h3probe.wire.quic.protection import PacketKeys, Unmasked

FLOWS_LIMIT: Final = 20_000
STREAMS_LIMIT: Final = 1_024


class QuicRewriter:
    """Rewrites the datagrams of all flows; bounded in memory."""

    def __init__(self, mapping: Mapping, hellos: Hellos) -> None:
        self._mapping = mapping
        self._hellos = hellos
        self._headers = QuicHeaders(mapping)
        self._flows: BoundedTable[tuple[Endpoint, Endpoint], Flow] = BoundedTable(FLOWS_LIMIT)
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
                return Known(self._headers.stranger(payload))
            flow = Flow()
            self._flows.put(key, flow)
        if payload[:1] and payload[0] & 0xC0 == 0x40 and len(payload) <= LARGEST_PLAIN:  # most of them are so
            return Known(self._headers.short(payload, flow.id_at(destination, payload, 1)))
        parts = [payload]
        if len(payload) > LARGEST_PLAIN:
            dcid = payload[6 : 6 + payload[5]] if payload[0] & 0x80 else flow.id_at(destination, payload, 1)
            parts = split_aggregate(payload, dcid)
        pieces: list[Piece] = []
        for part in parts:
            try:
                packets = split_datagram(part)
            except DecodeError:
                pieces.append(Known(self._headers.undecodable(part)))
                continue
            pieces += [self._packet(flow, source, destination, packet) for packet in packets]
            pieces.append(Known(self._headers.behind(part[packets[-1].offset + len(packets[-1].data) :])))
        return pieces[0] if len(pieces) == 1 else Joined(pieces)

    def quoted(self, source: Endpoint, destination: Endpoint, payload: bytes) -> bytes:
        """Rewrite what an ICMP error quotes of a datagram: its headers, as far as they are there."""
        flow = self._flows.get(flow_key(source, destination))
        if flow is None or not payload:
            return self._headers.stranger(payload)
        if not payload[0] & 0x80:
            return self._headers.short(payload, flow.id_at(destination, payload, 1))
        return self._headers.cut(payload)

    def _packet(self, flow: Flow, source: Endpoint, destination: Endpoint, packet: LongPacket | ShortPacket) -> Piece:
        if isinstance(packet, ShortPacket):
            return Known(self._headers.short(packet.data, flow.id_at(destination, packet.data, 1)))
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
            flow.connections.append(Connection(source, packet.dcid, packet.scid))
        return Known(self._headers.protected(packet))

    def _retry(self, flow: Flow, source: Endpoint, packet: LongPacket) -> bytes:
        """A Retry; its integrity tag is made anew where it is right (RFC 9001, 5.8)."""
        flow.sent(source, packet.scid)
        made = self._headers.header(packet, packet.data[0])[0] + self._mapping.credential(packet.token)
        version = known(packet.version)
        tag = self._mapping.noise(packet.data, len(packet.data) - len(made))
        for connection in reversed(flow.connections):
            if retry_is_valid(packet, connection.key_dcid) and version and version.retry_key and version.retry_nonce:
                dcid = self._mapping.connection_id(connection.key_dcid)
                pseudo = bytes((len(dcid),)) + dcid + made
                tag = AESGCM(version.retry_key).encrypt(version.retry_nonce, b"", pseudo)
                break
        return made + tag

    def _initial(self, flow: Flow, source: Endpoint, destination: Endpoint, packet: LongPacket) -> Piece | None:
        for connection, from_client in flow.candidates(source, packet):
            keys = initial_keys(packet.version, connection.key_dcid)
            side = keys.client if from_client else keys.server
            try:
                bare = unmask(side, packet.data, packet.pn_offset, 0x0F, connection.largest[from_client])
                plain = side.open(bare.number, packet.data[len(bare.header) :], bare.header)
            except DecodeError:
                continue
            flow.opened_by(connection)
            connection.largest[from_client] = max(connection.largest[from_client], bare.number)
            new_keys = initial_keys(packet.version, self._mapping.connection_id(connection.key_dcid))
            stream = self._stream((*flow_key(source, destination), connection.key_dcid, from_client))
            frames, cuts = rewrite_frames(plain, stream, self._mapping)
            header, _ = self._headers.header(packet, bare.header[0])
            new_side = new_keys.client if from_client else new_keys.server
            seal = partial(_seal, new_side, header, bare)
            return SealedInitial(seal, frames, cuts, stream)
        return None

    def _stream(self, key: tuple[Endpoint, Endpoint, bytes, bool]) -> CryptoStream:
        stream = self._streams.get(key)
        if stream is None:
            stream = CryptoStream(self._hellos, self._mapping)
            for gone in self._streams.put(key, stream):
                gone.given_up = True
        return stream


def _seal(keys: PacketKeys, header: bytes, bare: Unmasked, plain: bytes) -> bytes:
    return seal_packet(keys, header, bare.number, plain, (bare.header[0] & 3) + 1)
