"""QUIC packets as far as anyone can read them: headers with other connection IDs, and noise for what is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.errors import DecodeError
from h3probe.wire.buffer import Reader
from h3probe.wire.quic.packets import LongPacket, gquic_version, split_datagram
from h3probe.wire.quic.versions import is_gquic, is_reserved, known

if TYPE_CHECKING:
    from h3probe.redact.mapping import Mapping

_COALESCED: Final = 8
_LENGTHS: Final = 5
"""Bytes that an empty token's length and a packet's length may take."""


class QuicHeaders:
    """Rewrites what is not opened."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping

    def short(self, packet: bytes, connection_id: bytes) -> bytes:
        """Rewrite a packet with a short header, which begins with that connection ID."""
        noise = self._mapping.noise(packet, len(packet))
        first = packet[0] & 0xE0 | noise[0] & 0x1F
        made = bytes((first,)) + self._mapping.connection_id(connection_id)
        return made + noise[len(made) :]

    def protected(self, packet: LongPacket) -> bytes:
        """A packet that cannot be opened: its header, and noise."""
        first = packet.data[0] if packet.kind in ("version-negotiation", "unknown") else self._first_byte(packet.data)
        made, end = self.header(packet, first)
        return made + self._mapping.noise(packet.data, len(packet.data) - end)

    def header(self, packet: LongPacket, first: int) -> tuple[bytes, int]:
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

    def _first_byte(self, packet: bytes) -> int:
        """The form, fixed, type and spin bits; what is under header protection becomes noise."""
        open_bits = 0xF0 if packet[0] & 0x80 else 0xE0
        return packet[0] & open_bits | self._mapping.noise(packet, 1)[0] & ~open_bits & 0xFF

    def cut(self, payload: bytes) -> bytes:
        """Rewrite the beginning of a packet with a long header, as far as it is there."""
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

    def stranger(self, payload: bytes) -> bytes:
        """What is not QUIC, or a version with other headers: noise that still is not, or still is."""
        if not payload:
            return b""
        noise = self._mapping.noise(payload, len(payload))
        if gquic_version(payload) is None:
            return bytes((payload[0] & 0xC0 | noise[0] & 0x3F,)) + noise[1:]
        if payload[0] & 0x80:
            return payload[:5] + noise[5:]
        return payload[:1] + self._mapping.connection_id(payload[1:9]) + payload[9:13] + noise[13:]

    def undecodable(self, payload: bytes) -> bytes:
        """What is no packet, between packets: it stays none, by the fixed bit (RFC 9000, 17.2)."""
        if _lacks_fixed_bit(payload):
            return self._without_fixed_bit(payload)
        noise = self.stranger(payload)
        if not payload[0] & 0x80 or gquic_version(payload) is not None:
            return noise
        version = payload[1:5] if known(int.from_bytes(payload[1:5])) else b"\0\0\0\1"
        return (bytes((noise[0] & 0xBF,)) + version + noise[5:])[: len(payload)]

    def behind(self, payload: bytes) -> bytes:
        """Rewrite what comes after the last packet of a datagram: padding, as a rule."""
        return self._without_fixed_bit(payload) if _lacks_fixed_bit(payload) else bytes(len(payload))

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
            protected = self.protected(packet)
            made += bytes((protected[0] & (first | 0xBF),)) + protected[1:]
        return made + self._mapping.noise(payload, len(payload) - len(made))


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
