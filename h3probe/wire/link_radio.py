"""IEEE 802.11 frames, and the headers that say how they were received."""

from __future__ import annotations

import struct
from typing import Final

from h3probe.errors import EncryptedError
from h3probe.wire.encapsulation import Network, by_ethertype

_U32: Final = struct.Struct(">I")
_LE16: Final = struct.Struct("<H")
_LE32: Final = struct.Struct("<I")


def ieee80211(data: bytes, offset: int = 0, *, padded: bool = False) -> Network:
    """An unencrypted IEEE 802.11 data frame (section 9.3.2.1) with an LLC header."""
    control, flags = data[offset], data[offset + 1]
    is_data, has_payload, is_qos = control & 0x0C == 0x08, not control & 0x40, bool(control & 0x80)
    if control & 0x03 or not is_data or not has_payload:
        return 0, offset, None
    if flags & 0x40:
        raise EncryptedError("802.11 frames with encryption")
    to_ds, from_ds = flags & 0x01, flags & 0x02
    length = 30 if to_ds and from_ds else 24
    source = 24 if to_ds and from_ds else 16 if from_ds else 10
    is_aggregate = False
    if is_qos:
        is_aggregate = bool(data[offset + length] & 0x80)
        length += 2
        if flags & 0x80:  # +HTC
            length += 4
    if padded:
        length = (length + 3) & ~3
    if is_aggregate:  # an A-MSDU (9.3.2.2.2): of several packets, each behind a header of its own, the first
        length += 14
    version, start = by_ethertype(0, data, offset + length)
    return version, start, data[offset + source : offset + source + 6]


def radiotap(data: bytes) -> Network:
    """Radiotap (radiotap.org): its own length, then an 802.11 frame that a flag may say is padded."""
    (length,) = _LE16.unpack_from(data, 2)
    (present,) = _LE32.unpack_from(data, 4)
    fields = 8
    more = present
    while more & 0x80000000:
        (more,) = _LE32.unpack_from(data, fields)
        fields += 4
    padded = False
    if present & 0x2:
        if present & 0x1:  # TSFT, 8 bytes, naturally aligned
            fields = ((fields + 7) & ~7) + 8
        padded = bool(data[fields] & 0x20)
    return ieee80211(data, length, padded=padded)


def prism(data: bytes) -> Network:
    """The header of Prism's driver, with its length in the host's byte order, or AVS's, before an 802.11 frame."""
    if data[:3] == b"\x80\x21\x10":
        return avs(data)
    length = min(_LE32.unpack_from(data, 4)[0], _U32.unpack_from(data, 4)[0])
    return ieee80211(data, length)


def avs(data: bytes) -> Network:
    """AVS: version and length, then what it knows of the radio."""
    return ieee80211(data, _U32.unpack_from(data, 4)[0])
