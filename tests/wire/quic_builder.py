"""Builds QUIC packets of any shape, for tests."""

from __future__ import annotations

from h3probe.wire.quic.protection import initial_keys, seal_packet
from h3probe.wire.quic.versions import V1, V2, known

DCID = bytes.fromhex("8394c8f03e515708")
SCID = bytes.fromhex("c1c2c3c4")


def varint(value: int) -> bytes:
    """A variable-length integer in its shortest form (RFC 9000, 16)."""
    for power, limit in enumerate((1 << 6, 1 << 14, 1 << 30, 1 << 62)):
        if value < limit:
            return (value | power << 8 * (1 << power) - 2).to_bytes(1 << power)
    raise ValueError(value)


def long_header(kind: str, *, version: int = V1, dcid: bytes = DCID, scid: bytes = SCID) -> bytes:
    """A long header up to and with its connection IDs, the protected bits 0."""
    parameters = known(version)
    bits = 0 if parameters is None else parameters.long_types.index(kind)
    return bytes((0xC0 | bits << 4,)) + version.to_bytes(4) + _short(dcid) + _short(scid)


def initial(
    payload: bytes,
    *,
    version: int = V1,
    dcid: bytes = DCID,
    scid: bytes = SCID,
    key_dcid: bytes | None = None,
    token: bytes = b"",
    number: int = 0,
    number_length: int = 4,
    from_client: bool = True,
    size: int = 0,
) -> bytes:
    """An Initial packet.

    Args:
        payload: Its frames.
        version: Of the packet.
        dcid: Destination connection ID.
        scid: Source connection ID.
        key_dcid: The one the keys come from, `dcid` if None.
        token: From a Retry or an earlier connection.
        number: The packet number.
        number_length: How many bytes of it are sent.
        from_client: Whose keys protect it.
        size: The packet is padded with PADDING frames to this size.
    """
    header = long_header("initial", version=version, dcid=dcid, scid=scid) + varint(len(token)) + token
    room = size - len(header) - 2 - number_length - 16
    payload = payload.ljust(max(room, 4), b"\x00")
    length = number_length + len(payload) + 16
    header += (0x4000 | length).to_bytes(2)
    keys = initial_keys(version, dcid if key_dcid is None else key_dcid)
    return seal_packet(keys.client if from_client else keys.server, header, number, payload, number_length)


def opaque(kind: str, body: bytes, *, version: int = V1, dcid: bytes = DCID, scid: bytes = SCID) -> bytes:
    """A Handshake or 0-RTT packet whose protected part is `body`."""
    return long_header(kind, version=version, dcid=dcid, scid=scid) + varint(len(body)) + body


def version_negotiation(*versions: int, dcid: bytes = DCID, scid: bytes = SCID) -> bytes:
    """A Version Negotiation packet."""
    return b"\x80" + bytes(4) + _short(dcid) + _short(scid) + b"".join(version.to_bytes(4) for version in versions)


def crypto(offset: int, data: bytes) -> bytes:
    """A CRYPTO frame."""
    return b"\x06" + varint(offset) + varint(len(data)) + data


def close(code: int, reason: bytes = b"", frame_type: int | None = 0) -> bytes:
    """A CONNECTION_CLOSE frame, the application's own if `frame_type` is None."""
    middle = b"\x1d" + varint(code) if frame_type is None else b"\x1c" + varint(code) + varint(frame_type)
    return middle + varint(len(reason)) + reason


def _short(connection_id: bytes) -> bytes:
    return bytes((len(connection_id),)) + connection_id


VERSIONS = (V1, V2, 0xFF00001D)
