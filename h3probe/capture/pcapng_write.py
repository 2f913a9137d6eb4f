"""Writing pcapng (draft-ietf-opsawg-pcapng): one section, little endian, whole blocks."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from h3probe.capture.pcapng import (
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    IF_NAME,
    IF_TSRESOL,
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    ISB_IFDROP,
    OPT_COMMENT,
    OPT_END,
    SECTION_HEADER,
    TLS_KEY_LOG,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.events import Block, Frame

BYTE_ORDER_MAGIC = 0x1A2B3C4D
SHB_HARDWARE = 2
SHB_OS = 3
SHB_USERAPPL = 4
ISB_IFRECV = 4
EPB_PROCESSID_THREADID = 8

MAX_OPTION = 65535
"""The longest value of an option, in bytes."""

MAX_PACKET = 256 * 1024
"""The most bytes of a packet that Wireshark reads; what is longer is cut."""

_HEAD = Struct("<II").pack
_WORD = Struct("<I").pack
_OPTION = Struct("<HH").pack
_COUNTER = Struct("<Q").pack
_SECTION = Struct("<IHHq").pack  # magic, version, section length (-1: not known)
_INTERFACE = Struct("<HHI").pack  # link type, reserved, snaplen
_ENHANCED = Struct("<IIIII").pack  # interface, time (high, low), captured, length
_STATISTICS = Struct("<III").pack  # interface, time (high, low)


class Sink(Protocol):
    """What is written to: a buffered file, or what is like one."""

    def write(self, data: bytes, /) -> int:
        """Take a block."""

    def flush(self) -> None:
        """Hand everything on."""


class PcapngWriter:
    """Writes a capture that Wireshark opens, block by block.

    Each block goes out in one call of `stream.write`, so a buffered file holds whole blocks after every `flush`.
    `OSError` from the stream (a full disk) is passed on.

    Args:
        stream: Where to write; buffered, and the caller's to close.
        application: The program that writes, with its version.
        hardware: The machine's processor.
        os: The machine's operating system.
        comment: What Wireshark is to show of the whole file.
    """

    def __init__(
        self,
        stream: Sink,
        *,
        application: str,
        hardware: str | None = None,
        os: str | None = None,
        comment: str | None = None,
    ) -> None:
        self._stream = stream
        self._ids: dict[tuple[str | None, int], int] = {}
        self._clocks: list[_Clock] = []
        named = ((OPT_COMMENT, comment), (SHB_HARDWARE, hardware), (SHB_OS, os), (SHB_USERAPPL, application))
        options = [(code, _text(value)) for code, value in named if value]
        self._block(SECTION_HEADER, _SECTION(BYTE_ORDER_MAGIC, 1, 0, -1), options)

    @property
    def interfaces(self) -> int:
        """How many are declared; they are numbered from 0."""
        return len(self._clocks)

    def interface(self, name: str | None, link_type: int, snaplen: int = 0, tsresol: int = 9) -> int:
        """The number of an interface, which is declared when it is first asked for.

        Args:
            name: Its name, None where it is not known.
            link_type: A LINKTYPE_ number; the same name with another one is another interface.
            snaplen: The most bytes kept of a packet, 0 for no limit.
            tsresol: The decimals of a second that its times have, 0-9.
        """
        number = self._ids.get((name, link_type))
        if number is not None:
            return number
        options = [(IF_NAME, _text(name))] if name else []
        options.append((IF_TSRESOL, bytes([tsresol])))
        self._block(INTERFACE_DESCRIPTION, _INTERFACE(link_type, 0, snaplen), options)
        self._clocks.append(_Clock(10 ** (9 - tsresol)))
        number = self._ids[name, link_type] = len(self._ids)
        return number

    def packet(self, frame: Frame, *, comment: str | None = None, pid: int | None = None) -> None:
        """Write a packet, and first its interface if it is new; the frame's number is not kept, its place is.

        Args:
            frame: The packet.
            comment: What Wireshark is to show beside it.
            pid: The process that sent it, where that is known.
        """
        number = self.interface(frame.interface, frame.link_type)
        clock = self._clocks[number]
        clock.ticks = max(frame.time_ns, 0) // clock.tick_ns
        data = frame.data[:MAX_PACKET]
        head = _ENHANCED(number, clock.ticks >> 32, clock.ticks & 0xFFFFFFFF, len(data), frame.length)
        options = [(OPT_COMMENT, _text(comment))] if comment else []
        if pid is not None:
            options.append((EPB_PROCESSID_THREADID, _HEAD(pid & 0xFFFFFFFF, 0)))  # 0: no thread in particular
        self._block(ENHANCED_PACKET, head + _padded(data), options)

    def packets(self, block: Block) -> None:
        """Write a block's packets, and first its interface if it is new."""
        from h3probe.capture.pcapng_block import enhanced_packets  # noqa: PLC0415 - numpy, which a block has loaded

        number = self.interface(block.interface, block.link_type)
        self._clocks[number].ticks = max(int(block.times_ns[-1]), 0)
        self._stream.write(enhanced_packets(block, number))

    def statistics(self, interface: int, received: int | None, dropped: int | None) -> None:
        """Write an interface's counters since the start, as of its latest packet; None for one that is not known."""
        ticks = self._clocks[interface].ticks
        counted = ((ISB_IFRECV, received), (ISB_IFDROP, dropped))
        options = [(code, _COUNTER(value)) for code, value in counted if value is not None]
        self._block(INTERFACE_STATISTICS, _STATISTICS(interface, ticks >> 32, ticks & 0xFFFFFFFF), options)

    def secrets(self, key_log: bytes) -> None:
        """Write lines of a TLS key log (SSLKEYLOGFILE); only the packets after them can be decrypted with them."""
        self._block(DECRYPTION_SECRETS, _HEAD(TLS_KEY_LOG, len(key_log)) + _padded(key_log), ())

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        self._stream.flush()

    def _block(self, kind: int, body: bytes, options: Sequence[tuple[int, bytes]]) -> None:
        for code, value in options:
            body += _OPTION(code, len(value)) + _padded(value)
        if options:
            body += _OPTION(OPT_END, 0)
        size = len(body) + 12
        self._stream.write(_HEAD(kind, size) + body + _WORD(size))


@dataclass(slots=True)
class _Clock:
    """An interface's clock: a tick's nanoseconds, and the ticks since 1970 at its latest packet."""

    tick_ns: int
    ticks: int = 0


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _text(value: str) -> bytes:
    """UTF-8, cut to what an option holds, without half a character at the end."""
    data = value.encode("utf-8", "replace")
    return data if len(data) <= MAX_OPTION else data[:MAX_OPTION].decode("utf-8", "ignore").encode()
