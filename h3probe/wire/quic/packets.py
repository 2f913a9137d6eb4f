"""A UDP payload cut into QUIC packets, as far as their headers are in the clear (RFC 8999; RFC 9000, 17)."""

from __future__ import annotations

import re

from h3probe.errors import DecodeError, TruncatedError
from h3probe.facts import fact
from h3probe.wire.buffer import Reader
from h3probe.wire.quic.versions import NEGOTIATION, Kind, is_gquic, is_reserved, known, version_name

LONGEST_CONNECTION_ID = 20
SMALLEST_PROTECTED = 20
"""Packet number and payload that header protection can be sampled from (RFC 9001, 5.4.2)."""
SMALLEST_SHORT = 1 + SMALLEST_PROTECTED
SMALLEST_FIRST_DATAGRAM = 1200
_TAG = 16
# Google's first version with the connection IDs where RFC 8999 has them.
_Q049 = 0x51303439

# The public header before Q046: flags with the version bit and an 8-byte connection ID, then the version.
_GQUIC_VERSION = re.compile(rb"[QT]0\d\d")


@fact
class LongPacket:
    """A packet with a long header (RFC 9000, 17.2).

    Attributes:
        version: Its number; 0 in Version Negotiation.
        kind: What the type bits mean in that version; `unknown` in one that h3probe does not know.
        dcid: Destination connection ID.
        scid: Source connection ID.
        token: Of an Initial, or what a Retry hands out; else empty.
        offset: Where it begins in the datagram.
        pn_offset: Where the protected packet number begins in `data`; 0 where there is none.
        data: The packet from its first byte to its last, cut short if the datagram is.
        supported_versions: The list of a Version Negotiation.
        truncated: Whether the datagram ends before the packet does.
    """

    version: int
    kind: Kind
    dcid: bytes
    scid: bytes
    token: bytes
    offset: int
    pn_offset: int
    data: bytes
    supported_versions: tuple[int, ...] = ()
    truncated: bool = False


@fact
class ShortPacket:
    """A 1-RTT packet (RFC 9000, 17.3): it takes the rest of its datagram.

    Attributes:
        offset: Where it begins in the datagram.
        data: All of it; how much is connection ID is for the flow's tracker to know.
    """

    offset: int
    data: bytes


def split_datagram(payload: bytes) -> list[LongPacket | ShortPacket]:
    """Cut a UDP payload into the packets coalesced in it (RFC 9000, 12.2).

    What follows the last packet and is none itself (zeros, bytes without the fixed bit, an unknown version)
    is ignored. A last packet that the capture cut is kept, with `truncated` set.

    Raises:
        DecodeError: The payload does not even begin with a QUIC packet.
    """
    packets: list[LongPacket | ShortPacket] = []
    position = 0
    while position < len(payload):
        try:
            packet, end = _packet(payload, position)
        except DecodeError:
            if not packets:
                raise
            break
        packets.append(packet)
        position = end
    if not packets:
        raise TruncatedError("an empty datagram")
    return packets


def looks_like_quic(payload: bytes, wire_length: int | None = None) -> bool:
    """Whether a UDP payload, on whatever port, begins with a QUIC packet with a long header.

    Strict, for picking QUIC out of other traffic: a known version (or a reserved one, in a datagram that could
    be a first one), the fixed bit, connection IDs of at most 20 bytes and a length that fits.

    Args:
        payload: The bytes captured.
        wire_length: The UDP payload's length on the wire, if the capture may have cut it.
    """
    length = len(payload) if wire_length is None else wire_length
    if len(payload) < 7 or not payload[0] & 0x80:
        return False
    try:
        packet, end = _packet(payload, 0)
    except DecodeError:
        return False
    if not isinstance(packet, LongPacket) or end > length or (packet.truncated and length == len(payload)):
        return False
    if max(len(packet.dcid), len(packet.scid)) > LONGEST_CONNECTION_ID:
        return False
    if packet.kind == "version-negotiation":
        return any(known(v) or is_reserved(v) or is_gquic(v) for v in packet.supported_versions)
    if packet.kind == "unknown":
        return is_reserved(packet.version) and bool(payload[0] & 0x40) and length >= SMALLEST_FIRST_DATAGRAM
    return True


def gquic_version(payload: bytes) -> str | None:
    """The version of a gQUIC packet that states one, as `Q043`; None for any other payload."""
    if not payload:
        return None
    if payload[0] & 0x80:
        number = int.from_bytes(payload[1:5])
        return version_name(number) if is_gquic(number) else None
    found = _GQUIC_VERSION.match(payload, 9) if payload[0] & 0x09 == 0x09 else None
    return found.group().decode("ascii") if found else None


def _packet(payload: bytes, offset: int) -> tuple[LongPacket | ShortPacket, int]:
    """The packet at an offset, and the offset after it, which lies past the payload if the packet was cut."""
    if payload[offset] & 0x80:
        return _long_packet(payload, offset)
    if not payload[offset] & 0x40 or (offset and len(payload) - offset < SMALLEST_SHORT):
        raise DecodeError(f"no QUIC packet at offset {offset}")
    return ShortPacket(offset, payload[offset:]), len(payload)


def _long_packet(payload: bytes, offset: int) -> tuple[LongPacket, int]:
    """A packet with a long header (RFC 9000, 17.2.2 to 17.2.5), and the offset after it."""
    reader = Reader(payload, offset)
    first, number = reader.u8(), reader.u32()
    version = known(number)
    if version is None:
        if is_gquic(number) and number < _Q049:
            raise DecodeError(f"{version_name(number)}, whose long header has another layout")
        if offset:
            raise DecodeError(f"version 0x{number:08x} at offset {offset}, after another packet")
        return _versionless(number, reader.vector(1), reader.vector(1), payload, reader), len(payload)
    if not first & 0x40:
        raise DecodeError(f"the fixed bit is not set at offset {offset}")
    dcid, scid = reader.vector(1), reader.vector(1)
    if len(dcid) > LONGEST_CONNECTION_ID or len(scid) > LONGEST_CONNECTION_ID:
        raise DecodeError(f"a connection ID of {max(len(dcid), len(scid))} bytes")
    kind = version.long_types[first >> 4 & 3]
    if kind == "retry":
        token = reader.rest()
        short = len(token) < _TAG
        packet = LongPacket(number, kind, dcid, scid, token[:-_TAG], offset, 0, payload[offset:], truncated=short)
        return packet, len(payload)
    try:
        token = reader.take(reader.varint()) if kind == "initial" else b""
        length = reader.varint()
    except TruncatedError:
        return LongPacket(number, kind, dcid, scid, b"", offset, 0, payload[offset:], truncated=True), len(payload)
    if length < SMALLEST_PROTECTED:
        raise DecodeError(f"a packet of {length} bytes at offset {offset}")
    start = reader.position
    end = start + length
    cut = end > len(payload)
    return LongPacket(number, kind, dcid, scid, token, offset, start - offset, payload[offset:end], (), cut), end


def _versionless(number: int, dcid: bytes, scid: bytes, payload: bytes, reader: Reader) -> LongPacket:
    """Version Negotiation, or a version of which only the invariants are known (RFC 8999, 5 and 6)."""
    if number != NEGOTIATION:
        return LongPacket(number, "unknown", dcid, scid, b"", 0, 0, payload)
    count, odd = divmod(reader.remaining, 4)
    if not count and not odd:
        raise DecodeError("a Version Negotiation without versions")
    offered = tuple(reader.u32() for _ in range(count))
    return LongPacket(number, "version-negotiation", dcid, scid, b"", 0, 0, payload, offered, truncated=bool(odd))
