"""The pcapng format (draft-ietf-opsawg-pcapng): sections in either byte order, packets, counters, comments, secrets."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from h3probe.capture.reader import MAX_KEPT, CaptureEvent, CaptureReader, Plain
from h3probe.errors import CaptureError, DecodeError
from h3probe.events import Block, Dropped, Frame, Secrets, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from h3probe.capture.window import Window

    type _ReadBody = Callable[[bytes, int, int], Iterable[CaptureEvent]]

SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
PACKET = 2
SIMPLE_PACKET = 3
INTERFACE_STATISTICS = 5
ENHANCED_PACKET = 6
DECRYPTION_SECRETS = 10
TLS_KEY_LOG = 0x544C534B
"""The type of secrets that are lines of a TLS key log (section 4.7)."""
# The rest is skipped: name resolution (4), systemd journal (9), custom (0xbad, 0x40000bad) and whatever is to come.

# Options, named as in the format's description.
OPT_END = 0
OPT_COMMENT = 1
IF_NAME = 2
IF_TSRESOL = 9
IF_TSOFFSET = 14
EPB_DROPCOUNT = 4
ISB_IFDROP = 5
ISB_OSDROP = 7

MAGIC = SECTION_HEADER.to_bytes(4, "big")
"""The first four bytes of every pcapng file, the same in both byte orders."""

MAX_INTERFACES = 65536
"""The most interfaces of a section; a packet block (2) could not name more."""

MAX_NAME = 256
"""The most bytes of an interface's name that are kept."""

MIN_BLOCK = 12
"""The bytes of a block with nothing in it."""

KEEPING = 100
"""What keeping something costs beside its own bytes, in bytes; it bounds the memory for empty comments."""

UNKNOWN_DROPS = 0xFFFF
"""A packet block's count of drops when its writer does not know."""

MAX_TIME_NS = 2**63 - 1
"""The latest time that is reported, in the year 2262."""

TIMELESS = "such packets are taken to come right after the one before"


class _Order:
    """The structures of one byte order."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.word = Struct(prefix + "I").unpack_from
        self.head = Struct(prefix + "II").unpack_from  # block type, total length
        self.halves = Struct(prefix + "HH").unpack_from  # major, minor; option code, length; interface, drops
        self.interface = Struct(prefix + "HHI").unpack_from  # link type, reserved, snaplen
        self.packet = Struct(prefix + "IIII").unpack_from  # time (high, low), captured, length
        self.statistics = Struct(prefix + "III").unpack_from  # interface, time (high, low)
        self.counter = Struct(prefix + "Q").unpack
        self.seconds = Struct(prefix + "q").unpack


LITTLE_ENDIAN, BIG_ENDIAN = b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"
ORDERS = {LITTLE_ENDIAN: _Order("<"), BIG_ENDIAN: _Order(">")}
"""By the byte-order magic of a section header."""


@dataclass(slots=True)
class _Interface:
    """What an Interface Description Block says; a tick of its clock is `numerator / denominator` nanoseconds."""

    link_type: int
    snaplen: int
    name: str | None = None
    numerator: int = 1000
    denominator: int = 1
    offset_ns: int = 0
    dropped: int = 0


class PcapngReader(CaptureReader):
    """Reads one pcapng file; a packet without a time (Simple Packet Block) gets that of the one before.

    Raises:
        CaptureError: The stream does not begin with a sound Section Header Block.
    """

    format = "pcapng"

    def __init__(self, window: Window, *, name: str, limit: int) -> None:
        super().__init__(window, name=name, limit=limit)
        self._order = ORDERS[LITTLE_ENDIAN]
        self._interfaces: list[_Interface] = []
        self._time_ns = self._before = 0
        self._mistimed = False
        self._kept = 0
        # Block type: (the least total length, what reads the body).
        self._bodies: dict[int, tuple[int, _ReadBody]] = {
            SECTION_HEADER: (28, self._section),
            INTERFACE_DESCRIPTION: (20, self._interface),
            PACKET: (32, self._packet),
            SIMPLE_PACKET: (16, self._simple),
            INTERFACE_STATISTICS: (24, self._statistics),
            ENHANCED_PACKET: (32, self._enhanced),
            DECRYPTION_SECRETS: (20, self._secrets),
        }
        if not window.need(28):
            raise CaptureError(f"{name} is a pcapng file cut off within its header: nothing in it can be read")
        try:
            self._enter_section()
        except DecodeError as error:
            raise CaptureError(f"{name} starts like a pcapng file, but {error}") from None

    def _enter_section(self) -> int:
        """Take on the byte order of the section whose header stands in the window, 28 bytes at least.

        Returns:
            The header's total length.

        Raises:
            DecodeError: Its byte order or its version is not one of those that there are.
        """
        data, at = self._window.data, self._window.at
        order = ORDERS.get(data[at + 8 : at + 12])
        if order is None:
            raise DecodeError(f"its section header, at byte {self._window.offset}, has no byte-order magic")
        major, minor = order.halves(data, at + 12)
        if major != 1:
            raise DecodeError(
                f"its section header, at byte {self._window.offset}, has the unknown version {major}.{minor}"
            )
        self._order = order
        size: int = order.word(data, at + 4)[0]
        return size

    def _read(self) -> Iterator[CaptureEvent]:
        window = self._window
        while window.need(8):
            kind, size = self._order.head(window.data, window.at)
            if kind == SECTION_HEADER:
                if not window.need(28):
                    break
                try:
                    size = self._enter_section()
                except DecodeError as error:
                    yield self._stop(f"{self.name}: {error}")
                    return
            if not MIN_BLOCK <= size <= self._limit:
                yield self._stop(
                    f"{self.name} is damaged: the block at byte {window.offset} says that it has {size} bytes"
                )
                return
            if not window.need(size):
                break
            events = self._block_events(kind, size)
            for self._left in reversed(range(len(events))):
                yield events[-1 - self._left]
            if self.truncated:
                return
        yield from self._finish("block")

    def _block_events(self, kind: int, size: int) -> list[CaptureEvent]:
        """What a block holds that is whole, and what is wrong with it."""
        window = self._window
        data, at = window.data, window.at
        window.at = at + size
        end = window.at - 4
        least, read_body = self._bodies.get(kind, (MIN_BLOCK, _skip))
        events: list[CaptureEvent] = []
        if size >= least:
            events += read_body(data, at + 8, end)
        else:
            events.append(self._unreadable(f"the block before byte {window.offset} is too short for its type, {kind}"))
        again, self._mistrusted = self._mistrusted, self._order.word(data, end)[0] != size
        if self._mistrusted:
            reason = f"the block before byte {window.offset} does not end with its length"
            stop = f"{self.name} is damaged: {reason}, nor does the one before it"
            events.append(self._stop(stop) if again else self._unreadable(reason))
        return events

    def plain(self, data: bytearray, at: int, end: int) -> Plain | None:
        """Index ordinary packets, as `CaptureReader.plain` says: enhanced ones of one interface, without options."""
        import numpy as np  # noqa: PLC0415 - only large captures need it

        if not self._interfaces:
            return None
        head, prefix = self._order.head, self._order.prefix
        found, room = array("q"), end - 32
        note = found.append
        while at <= room:
            kind, size = head(data, at)
            if kind != ENHANCED_PACKET or size < 32 or at + size > end:
                break
            note(at)
            at += size
        if not found:
            return None
        blocks = np.frombuffer(found, np.int64)
        names = ("kind", "size", "interface", "high", "low", "captured", "length")
        heads = np.ndarray((len(data) - 27,), np.dtype([(name, prefix + "u4") for name in names]), data, 0, (1,))[
            blocks
        ]
        sizes, captured = heads["size"].astype(np.int64), heads["captured"].astype(np.int64)
        trailers = np.ndarray((len(data) - 3,), np.dtype(prefix + "u4"), data, 0, (1,))[blocks + sizes - 4]
        index = int(heads["interface"][0])
        interface = self._interfaces[min(index, len(self._interfaces) - 1)]
        ticks = heads["high"].astype(np.uint64) << np.uint64(32) | heads["low"]
        latest = (MAX_TIME_NS - max(interface.offset_ns, 0)) // interface.numerator
        odd = np.flatnonzero(
            (heads["interface"] != index)
            | (trailers != heads["size"])
            | (sizes % 4 != 0)
            | (sizes > self._limit)
            | (((captured + 3) & ~3) + 32 != sizes)
            | (ticks > np.uint64(latest))
        )
        good = int(odd[0]) if len(odd) else len(blocks)
        if not good or index >= len(self._interfaces) or interface.offset_ns < 0:
            return None
        times = (ticks[:good] * np.uint64(interface.numerator) // np.uint64(interface.denominator)).astype(np.int64)
        times += interface.offset_ns
        first, self._number = self._number + 1, self._number + good
        lengths = np.maximum(captured, heads["length"].astype(np.int64))[:good]
        block = Block(
            first, interface.link_type, data, blocks[:good] + 28, captured[:good], lengths, times, interface.name
        )
        self._before, self._time_ns = self._time_ns, int(times[-1])
        return Plain(block, int(blocks[good - 1] + sizes[good - 1]))

    def take_back(self, block: Block) -> None:
        """Forget that these packets were indexed."""
        super().take_back(block)
        self._time_ns = self._before

    def _unreadable(self, reason: str) -> Unreadable:
        return Unreadable(f"{self.name}: {reason}")

    def _section(self, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        self._interfaces = []
        for code, value in self._options(data, at + 16, end):
            if code == OPT_COMMENT:
                self._comment(0, value)
        return ()

    def _interface(self, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        if len(self._interfaces) == MAX_INTERFACES:
            return (self._unreadable(f"a section has more than {MAX_INTERFACES} interfaces"),)
        link_type, _, snaplen = self._order.interface(data, at)
        interface = _Interface(link_type, snaplen)
        for code, value in self._options(data, at + 8, end):
            if code == OPT_COMMENT:
                self._comment(0, value)
            elif code == IF_NAME:
                interface.name = value[:MAX_NAME].rstrip(b"\0").decode("utf-8", "replace") or None
            elif code == IF_TSRESOL and len(value) == 1:
                interface.numerator, interface.denominator = _tick(value[0])
            elif code == IF_TSOFFSET and len(value) == 8:
                interface.offset_ns = self._order.seconds(value)[0] * 1_000_000_000
        self._interfaces.append(interface)
        self._declare(link_type, snaplen)
        return ()

    def _enhanced(self, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        return self._timed(self._order.word(data, at)[0], data, at + 4, end)

    def _packet(self, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        index, drops = self._order.halves(data, at)
        packet = self._timed(index, data, at + 4, end)
        if drops == UNKNOWN_DROPS or index >= len(self._interfaces):
            return packet
        return (*self._lost(self._interfaces[index], drops), *packet)

    def _simple(self, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        if not self._interfaces:
            return (self._undeclared(0),)
        interface = self._interfaces[0]
        length = self._order.word(data, at)[0]
        captured = min(length, interface.snaplen or length, end - at - 4)
        self._number += 1
        packet = data[at + 4 : at + 4 + captured]
        return (Frame(self._number, self._time_ns, interface.link_type, packet, length, interface.name),)

    def _timed(self, index: int, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        """A packet of an interface, from the time on: what the two kinds of block that have one share."""
        if index >= len(self._interfaces):
            return (self._undeclared(index),)
        interface = self._interfaces[index]
        high, low, captured, length = self._order.packet(data, at)
        at += 16
        if captured > end - at:
            return (self._unreadable(f"a packet of {captured} bytes, after packet {self._number}, overruns its block"),)
        time_ns = (high << 32 | low) * interface.numerator // interface.denominator + interface.offset_ns
        self._number += 1
        events: tuple[CaptureEvent, ...] = ()
        if not 0 <= time_ns <= MAX_TIME_NS:
            time_ns = self._time_ns
            if not self._mistimed:
                events = (self._unreadable(f"packet {self._number} has a time before 1970 or after 2262; {TIMELESS}"),)
                self._mistimed = True
        self._time_ns = time_ns
        options = at + ((captured + 3) & ~3)
        if options < end:
            events = (*events, *self._packet_options(interface, data, options, end))
        packet = data[at : at + captured]
        frame = Frame(self._number, time_ns, interface.link_type, packet, max(captured, length), interface.name)
        return (*events, frame) if events else (frame,)

    def _packet_options(self, interface: _Interface, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        lost: tuple[CaptureEvent, ...] = ()
        for code, value in self._options(data, at, end):
            if code == OPT_COMMENT:
                self._comment(self._number, value)
            elif code == EPB_DROPCOUNT and len(value) == 8:
                lost = self._lost(interface, self._order.counter(value)[0])
        return lost

    def _statistics(self, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        index, _, _ = self._order.statistics(data, at)
        if index >= len(self._interfaces):
            return (self._undeclared(index),)
        interface = self._interfaces[index]
        counters = [
            self._order.counter(value)[0]
            for code, value in self._options(data, at + 12, end)
            if code in (ISB_IFDROP, ISB_OSDROP) and len(value) == 8
        ]
        # The counters count since the start of the capture; packets may have said some of it already.
        return self._lost(interface, sum(counters) - interface.dropped) if counters else ()

    def _secrets(self, data: bytes, at: int, end: int) -> Iterable[CaptureEvent]:
        kind, size = self._order.head(data, at)
        if size > end - at - 8:
            return (self._unreadable(f"a block of secrets, after packet {self._number}, is shorter than it says"),)
        # Secrets of other protocols (SSH, WireGuard, ...) open nothing that h3probe looks into.
        return (Secrets(data[at + 8 : at + 8 + size]),) if kind == TLS_KEY_LOG else ()

    def _options(self, data: bytes, at: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The options from `at`, up to the first that does not fit or the end of them."""
        while at + 4 <= end:
            code, size = self._order.halves(data, at)
            at += 4
            if code == OPT_END or at + size > end:
                return
            yield code, data[at : at + size]
            at += (size + 3) & ~3

    def _comment(self, number: int, value: bytes) -> None:
        if self._keep(len(value)):
            self.comments.append((number, value.decode("utf-8", "replace")))

    def _keep(self, size: int) -> bool:
        """Whether something of so many bytes may be kept till the end."""
        self._kept += size + KEEPING
        return self._kept <= MAX_KEPT

    def _lost(self, interface: _Interface, count: int) -> tuple[CaptureEvent, ...]:
        if count >= 2**63:  # all ones is how some writers say that they do not know
            return ()
        self.dropped = self.dropped or 0
        if count <= 0:
            return ()
        self.dropped += count
        interface.dropped += count
        on = f" on {interface.name}" if interface.name else ""
        return (Dropped(count, f"lost while {self.name} was recorded{on}"),)

    def _undeclared(self, index: int) -> Unreadable:
        return self._unreadable(
            f"a block after packet {self._number} belongs to interface {index}, which is not declared"
        )


def _tick(resolution: int) -> tuple[int, int]:
    """A tick of an interface's clock in nanoseconds, as a fraction, from its if_tsresol (section 4.2)."""
    if resolution & 0x80:
        return 1_000_000_000, 1 << (resolution & 0x7F)
    return (10 ** (9 - resolution), 1) if resolution <= 9 else (1, 10 ** (resolution - 9))


def _skip(_data: bytes, _at: int, _end: int) -> Iterable[CaptureEvent]:
    return ()
