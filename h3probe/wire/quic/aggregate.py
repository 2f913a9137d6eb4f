"""Datagrams that the kernel joined (GSO, GRO), taken apart again.

A capture on loopback, or behind receive offload, shows one "UDP packet" that holds several QUIC datagrams of
one size, the last one perhaps shorter. The size is not in the packet; the connection ID that each of them
starts with gives it away.
"""

from __future__ import annotations

# No QUIC stack sends larger datagrams over a path with the usual MTU; below it nothing was joined.
LARGEST_PLAIN = 1_500
# RFC 9000, 14: the smallest size a path must carry, and so the smallest full datagram of a train.
SMALLEST_SEGMENT = 1_200
# Below four bytes a connection ID turns up in ciphertext by chance.
SHORTEST_SEARCHED = 4


def _starts_packet(payload: bytes, start: int, dcid: bytes) -> bool:
    """Whether a QUIC packet to `dcid` can start here (RFC 9000, 17.2 and 17.3)."""
    if start >= len(payload):
        return False
    first = payload[start]
    if first & 0xC0 == 0xC0:
        return payload[start + 5 : start + 6] == bytes([len(dcid)]) and payload.startswith(dcid, start + 6)
    return first & 0xC0 == 0x40 and payload.startswith(dcid, start + 1)


def _segment_size(payload: bytes, dcid: bytes) -> int | None:
    """The size of all datagrams but the last, or None where none explains the whole payload."""
    at = payload.find(dcid, SMALLEST_SEGMENT)
    while 0 <= at <= LARGEST_PLAIN:
        for size in (at - 1, at - 6):
            if size >= SMALLEST_SEGMENT and all(
                _starts_packet(payload, start, dcid) for start in range(size, len(payload), size)
            ):
                return size
        at = payload.find(dcid, at + 1)
    return None


def split_aggregate(payload: bytes, dcid: bytes) -> list[bytes]:
    """Return the datagrams in `payload`: itself alone unless it is a train of datagrams to `dcid`.

    Args:
        payload: A UDP payload, as captured.
        dcid: The Destination Connection ID that packets in this direction carry; where it is too short to be
            searched for, the payload is given back whole.
    """
    if len(payload) <= LARGEST_PLAIN or len(dcid) < SHORTEST_SEARCHED:
        return [payload]
    size = _segment_size(payload, dcid)
    if size is None:
        return [payload]
    return [payload[start : start + size] for start in range(0, len(payload), size)]
