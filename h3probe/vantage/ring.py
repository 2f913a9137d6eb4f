"""The AF_PACKET socket of the live watcher, and the ring that the kernel writes packets into (Linux only).

AF_PACKET is the one way to see all interfaces (later ones too) in one order, with the kernel's own timestamps and drop
counters. A ring in place of the socket's own queue: the queue of somebody who is not root holds some hundred packets, a
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
from typing import TYPE_CHECKING, Final

from h3probe.errors import PrivilegeError, UserError
from h3probe.vantage import bpf
from h3probe.vantage.packets import Packet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from h3probe.vantage.bulk import Ports

# linux/if_packet.h and asm-generic/socket.h, which Python does not name.
_SO_ATTACH_FILTER: Final = 26
_SOL_PACKET: Final = 263
_PACKET_RX_RING: Final = 5
_PACKET_STATISTICS: Final = 6
_PACKET_VERSION: Final = 10
_TPACKET_V3: Final = 2
_ETH_P_ALL: Final = 3

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
BLOCKS: Final = (512, 128, 32)
"""64 MiB if the kernel has them: half a second of a busy gigabit. Otherwise less."""
RETIRE_S: Final = 0.001
"""How long a block is filled before it is shown, rounded up to the kernel's tick and up to twice that (4 to 20 ms):
whose a packet is, is asked while its socket is open."""


class PacketSource:
    """One AF_PACKET socket over all interfaces, or those whose indexes its filter names.

    Args:
        interfaces: Indexes; none means all, later ones too.
        ports: Keep these ports only (`h3probe.vantage.bpf`).
        hosts: Likewise, packed addresses.
        opened: A packet socket to read, of another network namespace; one of this namespace is opened otherwise.

    Raises:
        PrivilegeError: Neither root nor CAP_NET_RAW.
        UserError: The kernel has no memory for a ring.
    """

    def __init__(
        self,
        *,
        interfaces: Collection[int] = (),
        ports: Collection[int] = (),
        hosts: Collection[bytes] = (),
        opened: socket.socket | None = None,
    ) -> None:
        self._interfaces, self._ports, self._hosts = interfaces, ports, hosts
        self._bulk: Collection[Ports] = ()
        self._names: dict[int, str] = {}
        self._received = self._dropped = self._read = 0
        self._socket = _open() if opened is None else opened
        try:
            self._prepare()
        except BaseException:
            self._socket.close()
            raise

    def _prepare(self) -> None:
        self._socket.setblocking(False)
        # The socket receives from the moment it exists. What came before the filter must not be taken for filtered.
        self._attach(bpf.reject_everything())
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        self._blocks = self._make_ring()
        self._ring = mmap.mmap(self._socket.fileno(), self._blocks * BLOCK_BYTES)
        self._view = memoryview(self._ring)
        self._block = self._at = self._left = 0
        self.statistics()
        self._received = self._dropped = 0
        self._filter()

    def _make_ring(self) -> int:
        for blocks in BLOCKS:
            frames = blocks * BLOCK_BYTES // mmap.PAGESIZE
            request = _REQUEST.pack(BLOCK_BYTES, blocks, mmap.PAGESIZE, frames, round(RETIRE_S * 1000), 0, 0)
            try:
                self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
            except OSError as error:
                if error.errno != errno.ENOMEM:
                    raise
                continue
            return blocks
        raise UserError(f"the kernel has no memory for a ring of packets ({BLOCKS[-1] * BLOCK_BYTES >> 20} MiB)")

    @property
    def sockets(self) -> list[socket.socket]:
        """What to wait for."""
        return [self._socket]

    def narrow(self, interfaces: Collection[int]) -> None:
        """Watch these interfaces from now on; the filter is exchanged in one step, and no packet is lost by it."""
        self._interfaces = interfaces
        self._filter()

    def thin_out(self, bulk: Collection[Ports]) -> None:
        """Keep samples of these flows from now on, and what opens or ends something."""
        self._bulk = bulk
        self._filter()

    def _filter(self) -> None:
        self._attach(bpf.program(interfaces=self._interfaces, ports=self._ports, hosts=self._hosts, bulk=self._bulk))

    def _attach(self, program: bytes) -> None:
        array = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("@HP", len(program) // 8, ctypes.addressof(array))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)

    def read(self) -> Packet | None:
        """The next packet that waits, or None."""
        while not self._left:
            start = self._block * BLOCK_BYTES
            _, _, status, count, first, _ = _BLOCK.unpack_from(self._view, start)
            if not status & _BLOCK_IS_OURS:
                return None
            self._at, self._left = start + first, count
            if not count:  # handed over by its timer, which may come a moment after all packets were read
                self._give_back()
        at = self._at
        packet = packet_at(self._view, at, self._name)
        self._read += 1
        self._left -= 1
        if self._left:
            self._at = at + _PACKET.unpack_from(self._view, at)[0]
        else:
            self._give_back()
        return packet

    def _give_back(self) -> None:
        status_at = self._block * BLOCK_BYTES + _BLOCK_STATUS_AT
        self._view[status_at : status_at + 4] = bytes(4)
        self._block = (self._block + 1) % self._blocks

    def _name(self, index: int) -> str:
        """The name of an interface, which it had when it was first seen."""
        name = self._names.get(index)
        if name is None:
            if len(self._names) >= _MAX_NAMES:  # a host that makes one for each container it starts
                self._names.clear()
            name = self._names[index] = _interface_name(self._socket, index)
        return name

    def statistics(self) -> tuple[int, int]:
        """(packets that passed the filter, those among them that found no room), since the start."""
        counters = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        received, dropped, _ = _STATISTICS.unpack(counters)  # reading sets the kernel's own back to zero
        self._received += received
        self._dropped += dropped
        return self._received, self._dropped

    def unread(self) -> int:
        """Packets in the ring, also in the block that the kernel still fills."""
        received, dropped = self.statistics()
        return received - dropped - self._read

    def close(self) -> None:
        """Close the socket."""
        self._view.release()
        self._ring.close()
        self._socket.close()


def _open() -> socket.socket:
    try:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    except PermissionError as error:
        raise PrivilegeError(
            "watching interfaces needs root or CAP_NET_RAW; `h3probe watch --relay PORT=HOST:PORT` and "
            "`h3probe explain FILE` need nothing"
        ) from error


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
