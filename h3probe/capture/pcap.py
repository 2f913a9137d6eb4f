"""The pcap format (draft-ietf-opsawg-pcap), in both byte orders and with the variants that are found in the wild."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING

from h3probe.capture.reader import CaptureEvent, CaptureReader, Plain
from h3probe.errors import CaptureError
from h3probe.events import Block, Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.capture.window import Window

MICROSECONDS, NANOSECONDS = 1000, 1
"""What a timestamp's second word counts, in nanoseconds."""

# Magic number as read in the file's own byte order: (unit, bytes of header after the usual 24, record header).
# Every variant of the record header starts with seconds, fraction, captured length, length on the wire.
VARIANTS = {
    0xA1B2C3D4: (MICROSECONDS, 0, "IIII"),
    0xA1B23C4D: (NANOSECONDS, 0, "IIII"),
    # Alexey Kuznetzov's patch of libpcap 0.4: interface index, protocol and packet type follow.
    0xA1B2CD34: (MICROSECONDS, 0, "IIII8x"),
    # Ixia's lcap, software and hardware: the length of all records follows the file header.
    0x1C0001AB: (MICROSECONDS, 4, "IIII"),
    0x1C0001AC: (NANOSECONDS, 4, "IIII"),
}

MAGICS = {magic.to_bytes(4, order) for magic in VARIANTS for order in ("little", "big")}
"""The first four bytes of every file that `PcapReader` reads."""

MAX_PACKET = 256 * 1024
"""libpcap's MAXIMUM_SNAPLEN, in bytes: a longer packet is damage, unless the file's own snaplen allows for it."""


class PcapReader(CaptureReader):
    """Reads one pcap file.

    Raises:
        CaptureError: The stream ends within the file header.
    """

    format = "pcap"

    def __init__(self, window: Window, *, name: str, limit: int) -> None:
        super().__init__(window, name=name, limit=limit)
        if not window.need(24):
            raise CaptureError(f"{name} is a pcap file cut off within its header: nothing in it can be read")
        order = "<" if int.from_bytes(window.data[:4], "little") in VARIANTS else ">"
        self._magic, major, minor, snaplen, network = Struct(order + "IHH8xII").unpack_from(window.data)
        self._unit, more, record = VARIANTS[self._magic]
        if not window.need(24 + more):
            raise CaptureError(f"{name} is a pcap file cut off within its header: nothing in it can be read")
        window.at = 24 + more
        self._record = Struct(order + record)
        self._order = order
        # libpcap before 2.4 wrote the two lengths in the other order, on some platforms even in 2.3.
        self._swapped = major == 2 and minor < 4
        self._longest = max(MAX_PACKET, min(snaplen, limit))
        # The upper half says whether frames end in a checksum (FCS), which the lengths of IP tell apart anyway.
        self._link_type = network & 0xFFFF
        self._declare(self._link_type, snaplen)

    def _read(self) -> Iterator[CaptureEvent]:
        # The hot path: locals, and one call per record (the unpacking) besides making the Frame.
        window, unpack, header = self._window, self._record.unpack_from, self._record.size
        unit, link_type = self._unit, self._link_type
        while window.need(header):
            data, at = window.data, window.at
            seconds, fraction, captured, length = unpack(data, at)
            if captured > length:
                captured, length = (length, captured) if self._swapped else (captured, captured)
            stop = at + header + captured
            if stop > len(data):
                if captured > self._longest:
                    yield self._stop(
                        f"{self.name} is damaged: packet {self._number + 1}, at byte {window.offset}, "
                        f"says that it has {captured} bytes"
                    )
                    return
                if not window.need(header + captured):
                    break
                data, at = window.data, window.at
                stop = at + header + captured
            if not captured and seconds == self._magic:
                yield self._stop(
                    f"{self.name}: another pcap file begins at byte {window.offset}; give it as a file of its own"
                )
                return
            window.at = stop
            self._number += 1
            yield Frame(
                self._number,
                seconds * 1_000_000_000 + fraction * unit,
                link_type,
                data[at + header : stop],
                length,
            )
        yield from self._finish("packet")

    def plain(self, data: bytearray, at: int, end: int) -> Plain | None:
        """Index ordinary packets, as `CaptureReader.plain` says."""
        import numpy as np  # noqa: PLC0415 - only large captures need it

        captured = Struct(self._order + "8xI").unpack_from
        header, found, room = self._record.size, array("q"), end - self._record.size
        note = found.append
        while at <= room:
            note(at)
            at += header + captured(data, at)[0]
        if at > end:
            found.pop()
        records = np.frombuffer(found, np.int64)
        words = np.ndarray(
            (len(data) - 15,), np.dtype([(name, self._order + "u4") for name in ("s", "f", "c", "l")]), data, 0, (1,)
        )[records]
        kept = words["c"].astype(np.int64)
        lengths = words["l"].astype(np.int64)
        odd = np.flatnonzero((kept == 0) | (kept > lengths) | (kept > self._longest))
        good = int(odd[0]) if len(odd) else len(records)
        if not good:
            return None
        first, self._number = self._number + 1, self._number + good
        times = words["s"][:good].astype(np.int64) * 1_000_000_000 + words["f"][:good].astype(np.int64) * self._unit
        block = Block(first, self._link_type, data, records[:good] + header, kept[:good], lengths[:good], times)
        return Plain(block, int(records[good - 1]) + header + int(kept[good - 1]))
