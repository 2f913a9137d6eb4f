"""The two AF_PACKET sockets of the live watcher (Linux only).

AF_PACKET is the one way to see all interfaces (later ones too) in one order, with the kernel's own timestamps and drop
counters. What may decide something must not be lost because of what only counts, so the two come by sockets of their
own, whose losses are told apart.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from h3probe.errors import PrivilegeError, UserError
from h3probe.vantage import bpf
from h3probe.vantage.interfaces import is_loopback
from h3probe.vantage.ordinary import NOTHING, Apart
from h3probe.vantage.ring import SOL_PACKET, Ring

if TYPE_CHECKING:
    from collections.abc import Collection

    from h3probe.vantage.packets import Packet

_ETH_P_ALL: Final = 3
_PACKET_IGNORE_OUTGOING: Final = 23
_ADDRESS = struct.Struct("=HHiHBB8x")  # linux/if_packet.h, sockaddr_ll

NARROW_BLOCKS: Final = (512, 128, 32)
"""64 MiB if the kernel has them: half a second of a busy gigabit. Otherwise less."""
NARROW_RETIRE_S: Final = 0.001
"""Whose a packet is, is asked while its socket is open. Up to Linux 6.17 this is 4 to 20 ms, by the kernel's tick."""
WIDE_BLOCKS: Final = (256, 64, 16)
"""32 MiB: some 100,000 packets that are cut to their headers, a quarter of a second or more."""
WIDE_RETIRE_S: Final = 0.02
"""Nobody waits for them but the end of a run, and a block that is shown early is hardly filled."""


class PacketSource:
    """Two sockets over all interfaces, or those whose indexes their filters name.

    The narrow one is there to lose nothing: it gets all but what only counts, whole, into a large ring. What only
    counts, once there is so much of it that it is left apart, goes to the wide one, cut to the headers. That has no
    ring, and sees nothing, before it is needed: a run without transfers pays nothing for it.

    Args:
        interfaces: Indexes; none means all, later ones too.
        ports: Keep these ports only (`h3probe.vantage.bpf`).
        hosts: Likewise, packed addresses.
        opened: The two sockets, of another network namespace; those of this one are opened otherwise.

    Attributes:
        narrow: What may decide something.
        wide: What only counts; None as long as it is not needed.

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
        opened: tuple[socket.socket, socket.socket] | None = None,
    ) -> None:
        self._interfaces, self._ports, self._hosts = interfaces, ports, hosts
        self._apart = NOTHING
        self._whole = False
        self._wide_socket: socket.socket | None
        self._deciding, self._wide_socket = (_open(_ETH_P_ALL), _open(0)) if opened is None else opened
        self.wide: Ring | None = None
        try:
            self._face()
            self.narrow = Ring(self._deciding, NARROW_BLOCKS, NARROW_RETIRE_S)
            self.narrow.keep(self._program("narrow", NOTHING))
        except BaseException:
            self._deciding.close()
            self._wide_socket.close()
            raise

    @property
    def sockets(self) -> list[socket.socket]:
        """What to wait for; nothing needs to be counted at once."""
        return [self.narrow.socket]

    def watch(self, interfaces: Collection[int]) -> None:
        """Watch these interfaces from now on."""
        self._interfaces = interfaces
        self._face(whole=True)  # Until the filters are exchanged, those of the interfaces before are wanted.
        self._exchange(self._apart)
        self._face()

    def _face(self, *, whole: bool = False) -> None:
        """Where nothing but loopback is watched, let packets on their way out pass unseen: all come in again.

        The filters drop them anyway; so they cost their senders nothing.
        """
        alone = not whole and bool(self._interfaces) and all(map(is_loopback, self._interfaces))
        for opened in (self._deciding, self._wide_socket if self.wide is None else self.wide.socket):
            if opened is not None:
                with suppress(OSError):  # Linux has it since 4.20
                    opened.setsockopt(SOL_PACKET, _PACKET_IGNORE_OUTGOING, alone)

    def keep_whole(self) -> None:
        """Let every packet come to the narrow socket, and whole."""
        self._whole = True
        self.set_apart(NOTHING)

    def set_apart(self, apart: Apart) -> bool:
        """Leave what only counts of these flows to the wide socket; whether that is possible."""
        if apart and self.wide is None and not self._widen():
            return False
        self._exchange(apart)
        return True

    def _widen(self) -> bool:
        if self._wide_socket is None:
            return False
        opened, self._wide_socket = self._wide_socket, None
        try:
            self.wide = Ring(opened, WIDE_BLOCKS, WIDE_RETIRE_S)
            _receive(opened)
        except (UserError, OSError):  # what only counts goes on coming to the narrow one
            if self.wide is not None:
                self.wide.close()
                self.wide = None
            opened.close()
        return self.wide is not None

    def _exchange(self, apart: Apart) -> None:
        """Exchange both filters so that in between a packet may come to both of them, and never to none."""
        before, self._apart = self._apart, apart
        if self.wide is not None:
            both = Apart(before.flows | apart.flows, before.everything or apart.everything)
            self.wide.keep(self._program("wide", both))
        self.narrow.keep(self._program("narrow", apart))
        if self.wide is not None and both != apart:
            self.wide.keep(self._program("wide", apart))

    def _program(self, part: bpf.Part, apart: Apart) -> bytes:
        return bpf.program(
            interfaces=self._interfaces,
            ports=self._ports,
            hosts=self._hosts,
            apart=apart,
            part=part,
            whole=self._whole,
        )

    def make_room(self) -> None:
        """Take over what waits at the narrow socket, so that it has room while that is read."""
        self.narrow.make_room()

    def clear(self) -> None:
        """Leave out what waits at the narrow socket, and count from here."""
        self.narrow.clear()

    def read(self) -> Packet | None:
        """The next packet of the narrow socket that waits, or None."""
        return self.narrow.read()

    def statistics(self) -> tuple[int, int]:
        """Of the narrow socket: packets that passed its filter, those among them that found no room."""
        return self.narrow.statistics()

    def unread(self) -> int:
        """Of the narrow socket: packets that are not read yet."""
        return self.narrow.unread()

    def close(self) -> None:
        """Close the sockets."""
        self.narrow.close()
        if self.wide is not None:
            self.wide.close()
        if self._wide_socket is not None:
            self._wide_socket.close()


def _open(protocol: int) -> socket.socket:
    """A packet socket; with protocol 0 it sees nothing, and costs no packet anything (packet(7))."""
    try:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    except PermissionError as error:
        raise PrivilegeError(
            "watching interfaces needs root or CAP_NET_RAW; `h3probe watch --relay PORT=HOST:PORT` and "
            "`h3probe explain FILE` need nothing"
        ) from error


def _receive(opened: socket.socket) -> None:
    """Let a socket see all interfaces, for which Python's own bind has no name."""
    address = _ADDRESS.pack(socket.AF_PACKET, socket.htons(_ETH_P_ALL), 0, 0, 0, 0)
    if ctypes.CDLL(None, use_errno=True).bind(opened.fileno(), address, len(address)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
