"""Captures made by hand, in either byte order, without the code under test."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from h3probe.events import Frame

if TYPE_CHECKING:
    from h3probe.capture import CaptureReader

BYTE_ORDER_MAGIC = 0x1A2B3C4D


class Trickle:
    """A live stream: gives its pieces one by one, and fails the test that waits for more than there is."""

    def __init__(self, *pieces: bytes, ends: bool = False) -> None:
        self.pieces = list(pieces)
        self.ends = ends
        self.given = 0
        self.closed = False

    def read(self, size: int) -> bytes:
        """The next piece, or as much of it as was asked for."""
        if not self.pieces:
            assert self.ends, "it waited for bytes that it does not need"
            return b""
        piece = self.pieces.pop(0)
        if len(piece) > size:
            self.pieces.insert(0, piece[size:])
        self.given += len(piece[:size])
        return piece[:size]

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


def pcap(
    *records: bytes, magic: int = 0xA1B2C3D4, order: str = "<", network: int = 1, snaplen: int = 65535, minor: int = 4
) -> bytes:
    """A pcap file."""
    return struct.pack(order + "IHHiIII", magic, 2, minor, 0, 0, snaplen, network) + b"".join(records)


def record(
    data: bytes, seconds: int = 1, fraction: int = 0, *, length: int | None = None, order: str = "<", more: bytes = b""
) -> bytes:
    """A packet of a pcap file."""
    length = len(data) if length is None else length
    return struct.pack(order + "IIII", seconds, fraction, len(data), length) + more + data


class Blocks:
    """Blocks of a pcapng file in one byte order."""

    def __init__(self, order: str = "<") -> None:
        self.order = order

    def pack(self, layout: str, *values: int) -> bytes:
        """`struct.pack` in this byte order."""
        return struct.pack(self.order + layout, *values)

    def block(self, kind: int, body: bytes, *, tail: int | None = None) -> bytes:
        """Any block; `tail` is a wrong length to end it with."""
        body += bytes(-len(body) % 4)
        size = len(body) + 12
        return self.pack("II", kind, size) + body + self.pack("I", size if tail is None else tail)

    def options(self, *options: tuple[int, bytes]) -> bytes:
        """A list of options and its end."""
        listed = [self.pack("HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]
        return b"".join(listed) + self.pack("HH", 0, 0) if listed else b""

    def section(self, *options: tuple[int, bytes], major: int = 1) -> bytes:
        """A Section Header Block."""
        body = self.pack("IHHq", BYTE_ORDER_MAGIC, major, 0, -1) + self.options(*options)
        return self.block(0x0A0D0D0A, body)

    def interface(self, *options: tuple[int, bytes], link_type: int = 1, snaplen: int = 0) -> bytes:
        """An Interface Description Block."""
        return self.block(1, self.pack("HHI", link_type, 0, snaplen) + self.options(*options))

    def packet(
        self, data: bytes, ticks: int = 0, *options: tuple[int, bytes], interface: int = 0, length: int | None = None
    ) -> bytes:
        """An Enhanced Packet Block."""
        length = len(data) if length is None else length
        head = self.pack("IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), length)
        return self.block(6, head + data + bytes(-len(data) % 4) + self.options(*options))

    def statistics(self, *options: tuple[int, bytes], interface: int = 0) -> bytes:
        """An Interface Statistics Block."""
        return self.block(5, self.pack("III", interface, 0, 0) + self.options(*options))


def frames(reader: CaptureReader) -> list[Frame]:
    """What a reader gives, which must be frames alone."""
    events = list(reader)
    assert all(isinstance(event, Frame) for event in events), events
    return [event for event in events if isinstance(event, Frame)]
