"""AF_PACKET through memory shared with the kernel (TPACKET_V3, Documentation/networking/packet_mmap.rst). Linux only.

An ordinary user's socket queues no more than net.core.rmem_max, some hundred packets as systems are set up, and a busy
connection brings thousands while Python looks at one. The ring has room for as many as it has memory for, whoever asks,
and costs no system call for each packet. Packets come in blocks, a block when it is full or `LATENCY_S` old.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import socket
import struct
from typing import TYPE_CHECKING, Final

from h3probe.vantage import bpf
from h3probe.vantage.linux import attach_filter
from h3probe.vantage.packets import Packet

if TYPE_CHECKING:
    from collections.abc import Collection

LATENCY_S: Final = 0.008
"""Seconds after which a block is handed over that is not full. After the last moment of interest, wait for as long."""

_BLOCK: Final = 1 << 20
_BLOCKS: Final = 32
_FRAME: Final = 1 << 11  # the kernel wants to know a number of frames, which means nothing in this version

# linux/if_packet.h, linux/sockios.h
_SOL_PACKET: Final = 263
_PACKET_RX_RING: Final = 5
_PACKET_STATISTICS: Final = 6
_PACKET_VERSION: Final = 10
_TPACKET_V3: Final = 2
_STATUS_USER: Final = 1
_STATUS_VLAN: Final = 1 << 4
_STATUS_VLAN_PROTOCOL: Final = 1 << 6
_SIOCGIFNAME: Final = 0x8910
_REQUEST: Final = struct.Struct("=7I")
_BLOCK_HEADER: Final = struct.Struct("=III")  # status, packets, where the first begins: at 8
# Where the next begins, seconds, nanoseconds, bytes kept, length, status, mac, network, hash, tag, tag's protocol;
# padding up to 48; then struct sockaddr_ll: family, protocol, interface, hardware, packet type.
_FRAME_HEADER: Final = struct.Struct("=IIIIIIHHIIH10xHHiHB")
_IFREQ: Final = struct.Struct("@16si20x")
_STATISTICS: Final = struct.Struct("=III")

_ETHERNET: Final = 1
_RAW: Final = 101
_ETHERNET_HARDWARE: Final = (1, 772)  # ARPHRD_ETHER, ARPHRD_LOOPBACK


class RingSource:
    """The packets of a socket that exists, and which is this object's from now on: all interfaces of its network.

    Args:
        packets: An AF_PACKET socket; it may be another network namespace's.
        ports: As in `Sniffer`.
        hosts: As in `Sniffer`.

    Raises:
        OSError: The kernel has no such ring, or no memory for it.
    """

    def __init__(self, packets: socket.socket, *, ports: Collection[int] = (), hosts: Collection[bytes] = ()) -> None:
        self._socket = packets
        self._ports, self._hosts = ports, hosts
        self._names: dict[int, str] = {}
        self._received = self._dropped = 0
        self._block = self._left = self._at = 0
        # What came before the ring and the filter is of no interest, and the ring is made while nothing comes.
        attach_filter(packets, bpf.reject_everything())
        packets.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                packets.recv(1)
        packets.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        frames = _BLOCK * _BLOCKS // _FRAME
        request = _REQUEST.pack(_BLOCK, _BLOCKS, _FRAME, frames, round(LATENCY_S * 1000), 0, 0)
        packets.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        self._memory = mmap.mmap(packets.fileno(), _BLOCK * _BLOCKS)
        self.statistics()
        self._received = self._dropped = 0
        self.narrow(())

    @property
    def sockets(self) -> list[socket.socket]:
        """What to wait for."""
        return [self._socket]

    def narrow(self, interfaces: Collection[int]) -> None:
        """Watch these interfaces from now on, by their indexes in the socket's network; none means all."""
        attach_filter(self._socket, bpf.program(interfaces=interfaces, ports=self._ports, hosts=self._hosts))

    def read(self) -> Packet | None:
        """The next packet that waits, or None; never blocks."""
        base = self._block * _BLOCK
        if not self._left:
            status, self._left, first = _BLOCK_HEADER.unpack_from(self._memory, base + 8)
            if not status & _STATUS_USER:
                self._left = 0
                return None
            self._at = base + first
        packet, following = self._packet(self._at)
        self._at += following
        self._left -= 1
        if not self._left:  # the block is the kernel's again
            self._memory[base + 8 : base + 12] = bytes(4)
            self._block = (self._block + 1) % _BLOCKS
        return packet

    def _packet(self, at: int) -> tuple[Packet, int]:
        (following, seconds, nanoseconds, kept, length, status, mac, net, _, tag, protocol, _, _, interface, hardware,
         kind) = _FRAME_HEADER.unpack_from(self._memory, at)  # fmt: skip
        data = self._memory[at + mac : at + mac + kept]
        network = net - mac
        if status & _STATUS_VLAN and hardware == 1:
            # The kernel took the tag out of the frame; put it back where it was on the wire.
            protocol = protocol if status & _STATUS_VLAN_PROTOCOL else 0x8100
            data = data[:12] + struct.pack("!HH", protocol, tag) + data[12:]
            length, network = length + 4, network + 4
        if not 0 <= network < len(data):
            network = 0
        link_type = _ETHERNET
        if hardware not in _ETHERNET_HARDWARE:
            link_type, data, length, network = _RAW, data[network:], length - network, 0
        header = network or (0 if link_type == _RAW else None)
        time_ns = seconds * 1_000_000_000 + nanoseconds
        outgoing = kind == socket.PACKET_OUTGOING
        return Packet(time_ns, link_type, data, length, self._name(interface), header, outgoing), following

    def _name(self, index: int) -> str:
        name = self._names.get(index)
        if name is None:
            try:  # asked by the socket, since the number means something in its own network alone
                answer = fcntl.ioctl(self._socket, _SIOCGIFNAME, _IFREQ.pack(b"", index))
                name = _IFREQ.unpack(answer)[0].rstrip(b"\0").decode(errors="replace")
            except OSError:  # it is gone
                name = f"interface {index}"
            self._names[index] = name
        return name

    def statistics(self) -> tuple[int, int]:
        """(packets that passed the filter, those among them that found no room), since the start."""
        counters = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        received, dropped, _ = _STATISTICS.unpack(counters)  # reading sets the kernel's own back to zero
        self._received += received
        self._dropped += dropped
        return self._received, self._dropped

    def close(self) -> None:
        """Give the memory and the socket back."""
        self._memory.close()
        self._socket.close()
