"""An AF_PACKET socket, and the ring that the kernel writes its packets into (Linux only).

A ring in place of the socket's own queue: the queue of somebody who is not root holds some hundred packets, a
ring as many as its memory; and reading takes no system call for each. It is TPACKET_V3 (the kernel's
Documentation/networking/packet_mmap.rst): one block after the other is filled, and handed over when it is full or a
moment after its first packet. Packets are stamped as they get there, which costs those that the filter drops nothing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError
from h3probe.vantage import bpf
from h3probe.vantage.packets import Packet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

# linux/if_packet.h and asm-generic/socket.h, which Python does not name.
_SO_ATTACH_FILTER: Final = 26
SOL_PACKET: Final = 263
_PACKET_RX_RING: Final = 5
_PACKET_STATISTICS: Final = 6
_PACKET_VERSION: Final = 10
_TPACKET_V3: Final = 2

_REQUEST = struct.Struct("=IIIIIII")  # block size and number, frame size and number, timeout, private bytes, features
_BLOCK = struct.Struct("=IIIIII")  # version, private bytes, status, packets, offset of the first one, length
_BLOCK_STATUS_AT: Final = 8
_PACKET = struct.Struct("=IIIIIIHHIIH")  # next, s, ns, captured, length, status, mac, net, hash, VLAN tag and protocol
_ADDRESS_AT: Final = 48  # behind that header
_ADDRESS = struct.Struct("=HHiHB")  # family, protocol, interface, hardware type, packet type
_STATISTICS = struct.Struct("=III")  # packets, dropped, times the ring was full
_BLOCK_IS_OURS: Final = 1
_SIOCGIFNAME: Final = 0x8910
_INTERFACE_REQUEST = struct.Struct("=16si20x")
_MAX_NAMES: Final = 4096
_VLAN_VALID: Final = 1 << 4
_VLAN_PROTOCOL_VALID: Final = 1 << 6

_ETHERNET: Final = 1
_RAW: Final = 101
_ETHERNET_HARDWARE: Final = (1, 772)  # ARPHRD_ETHER, ARPHRD_LOOPBACK

BLOCK_BYTES: Final = 128 * 1024
"""More than an aggregate of 64 KiB, and little enough that a block given back after a millisecond wastes not much."""
HELD: Final = 64 << 20
"""Bytes of packets that are taken out of a ring and not read yet, at most, and by and large."""


class Ring:
    """One AF_PACKET socket and its ring; nothing comes before it is told what to keep.

    Args:
        opened: The socket.
        sizes: How many blocks, as many of the first number as there is memory for.
        retire_s: How long a block is filled before it is shown, at most, and up to twice that.

    Raises:
        UserError: The kernel has no memory for a ring.
    """

    def __init__(self, opened: socket.socket, sizes: Collection[int], retire_s: float) -> None:
        self.socket = opened
        self._retire_ms = round(retire_s * 1000)
        self.socket.setblocking(False)
        # The socket may receive from the moment it exists. What came before the filter must not be taken for filtered.
        self.keep(bpf.reject_everything())
        self.socket.setsockopt(SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        self._blocks = self._make(sizes)
        self._ring = mmap.mmap(self.socket.fileno(), self._blocks * BLOCK_BYTES)
        self._view = memoryview(self._ring)
        self._names: dict[int, str] = {}
        self._block = self.given = 0
        self._stash: deque[tuple[bytes, int]] = deque()
        self._piece, self._at, self._left, self._borrowed = memoryview(b""), 0, 0, False
        self.received = self.dropped = 0
        self.statistics()
        self.received = self.dropped = 0

    def _make(self, sizes: Collection[int]) -> int:
        for blocks in sizes:
            frames = blocks * BLOCK_BYTES // mmap.PAGESIZE
            request = _REQUEST.pack(BLOCK_BYTES, blocks, mmap.PAGESIZE, frames, self._retire_ms, 0, 0)
            try:
                self.socket.setsockopt(SOL_PACKET, _PACKET_RX_RING, request)
            except OSError as error:
                if error.errno != errno.ENOMEM:
                    raise
                continue
            return blocks
        raise UserError(f"the kernel has no memory for a ring of packets ({min(sizes) * BLOCK_BYTES >> 20} MiB)")

    def keep(self, program: bytes) -> None:
        """Exchange the filter, in one step: no packet is lost by it."""
        array = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("@HP", len(program) // 8, ctypes.addressof(array))
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)

    def read(self) -> Packet | None:
        """The next packet that waits, or None."""
        while not self._left:
            piece = self._stash.popleft() if self._stash else self._borrow()
            if piece is None:
                return None
            self._piece, self._at, self._left = memoryview(piece[0]), 0, piece[1]
            self._given_back()  # one without packets: handed over by its timer when all of them had been read
        packet = packet_at(self._piece, self._at, self.name)
        self._at += _PACKET.unpack_from(self._piece, self._at)[0]
        self.given += 1
        self._left -= 1
        self._given_back()
        return packet

    def make_room(self) -> None:
        """Take over what waits, if that is much; `read` gives it first, and the socket does not tell of it.

        Every few milliseconds (since Linux 6.18, with a finer timer, every one or two) the kernel begins another block,
        however few packets there are: a ring of hundreds of blocks holds no more than a second or two of anything.
        """
        if not self.waits(8):
            return
        if self._borrowed:
            self._give_back()
        held = sum(len(data) for data, _ in self._stash)
        while held < HELD and (piece := self.take_block(read=False)) is not None:
            self._stash.append(piece)
            held += len(piece[0])

    def clear(self) -> None:
        """Leave out what waits, and count from here."""
        self.given += self._left + sum(count for _, count in self._stash)
        self._stash.clear()
        self._left = 0
        self._given_back()
        for _ in range(self._blocks):  # and no more, however much comes
            if self.take_block() is None:
                break
        # What is left is in the block that the kernel fills.
        self.received, self.dropped, self.given = self.unread(), 0, 0

    def take_block(self, *, read: bool = True) -> tuple[bytes, int] | None:
        """A copy of the next block that waits, from its first packet on, and how many there are; None without one."""
        piece = self._borrow()
        if piece is not None:
            self._give_back()
            self.given += piece[1] if read else 0
        return piece

    def _borrow(self) -> tuple[bytes, int] | None:
        start = self._block * BLOCK_BYTES
        _, _, status, count, first, length = _BLOCK.unpack_from(self._view, start)
        if not status & _BLOCK_IS_OURS:
            return None
        self._borrowed = True
        return bytes(self._view[start + first : start + length]), count

    def _given_back(self) -> None:
        """Give a block back whose packets were all read: until then the socket is readable."""
        if self._borrowed and not self._left:
            self._give_back()

    def _give_back(self) -> None:
        self._borrowed = False
        status_at = self._block * BLOCK_BYTES + _BLOCK_STATUS_AT
        self._view[status_at : status_at + 4] = bytes(4)
        self._block = (self._block + 1) % self._blocks

    def packets(self, piece: bytes, count: int) -> Iterator[Packet]:
        """The packets of such a copy."""
        view, at = memoryview(piece), 0
        for _ in range(count):
            yield packet_at(view, at, self.name)
            at += _PACKET.unpack_from(view, at)[0]

    def waits(self, part: int) -> bool:
        """Whether a half, a third … of its blocks waits."""
        start = (self._block + self._blocks // part) % self._blocks * BLOCK_BYTES
        return bool(_BLOCK.unpack_from(self._view, start)[2] & _BLOCK_IS_OURS)

    def name(self, index: int) -> str:
        """The name of an interface, which it had when it was first seen."""
        name = self._names.get(index)
        if name is None:
            if len(self._names) >= _MAX_NAMES:  # a host that makes one for each container it starts
                self._names.clear()
            name = self._names[index] = _interface_name(self.socket, index)
        return name

    def statistics(self) -> tuple[int, int]:
        """(packets that passed the filter, those among them that found no room), since the start."""
        counters = self.socket.getsockopt(SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        received, dropped, _ = _STATISTICS.unpack(counters)  # reading sets the kernel's own back to zero
        self.received += received
        self.dropped += dropped
        return self.received, self.dropped

    def unread(self) -> int:
        """Packets in the ring, also in the block that the kernel still fills."""
        received, dropped = self.statistics()
        return received - dropped - self.given

    def close(self) -> None:
        """Give back its memory, and close the socket."""
        self._view.release()
        self._ring.close()
        self.socket.close()


def packet_at(view: memoryview, at: int, name: Callable[[int], str]) -> Packet:
    """Read one packet of a block.

    Args:
        view: The ring.
        at: Where the packet's own header begins.
        name: Gives the name of an interface by its index.
    """
    header = _PACKET.unpack_from(view, at)
    _, seconds, nanoseconds, captured, length, status, start, network, _, tag, tag_protocol = header
    _, _, interface, hardware, kind = _ADDRESS.unpack_from(view, at + _ADDRESS_AT)
    data = bytes(view[at + start : at + start + captured])
    network -= start
    if status & _VLAN_VALID and hardware == _ETHERNET_HARDWARE[0]:
        # The kernel took the tag out of the frame; put it back where it was on the wire.
        protocol = tag_protocol if status & _VLAN_PROTOCOL_VALID else 0x8100
        data = data[:12] + struct.pack("!HH", protocol, tag & 0xFFFF) + data[12:]
        length, network = length + 4, network + 4
    if not 0 <= network < len(data):  # the kernel did not say, or said something below zero
        network = 0
    link_type = _ETHERNET
    if hardware not in _ETHERNET_HARDWARE:
        # PPP and tunnels show no link header at all; of any other kind the kernel knows where its own one ends.
        link_type, data, length, network = _RAW, data[network:], length - network, 0
    at_network = network or (0 if link_type == _RAW else None)
    time_ns = seconds * 1_000_000_000 + nanoseconds
    return Packet(time_ns, link_type, data, length, name(interface), at_network, kind == socket.PACKET_OUTGOING)


def _interface_name(opened: socket.socket, index: int) -> str:
    """The name of an interface in the socket's network namespace, which need not be this process's (netdevice(7))."""
    request = bytearray(_INTERFACE_REQUEST.pack(b"", index))
    try:
        fcntl.ioctl(opened, _SIOCGIFNAME, request)
    except OSError:  # it is gone
        return f"if{index}"
    return request[: request.index(0)].decode("utf-8", "replace")
