"""recvmmsg(2): many datagrams with one system call. Linux only.

Linux joins datagrams for UDP_GRO where a network card brings them, and not on loopback, where most relays stand.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_MESSAGES = 64
_ROOM = 65536
_CONTROL = 64
_DONTWAIT = 0x40

# struct iovec; struct mmsghdr: name, its length, iovecs, their number, control, its length, flags; bytes received.
_IOVEC = struct.Struct("@PN")
_MESSAGE = struct.Struct("@PIPNPNi0PI0P")
# struct cmsghdr with the only thing that these sockets are told, UDP_GRO's segment size.
_CONTROL_MESSAGE = struct.Struct("@Niii")


class Receiver:
    """Buffers for one call at a time, for any socket that is connected.

    Raises:
        OSError: The C library has no recvmmsg.
    """

    def __init__(self) -> None:
        try:
            self._call = ctypes.CDLL(None, use_errno=True).recvmmsg
        except AttributeError as error:
            raise OSError("no recvmmsg") from error
        self._data = bytearray(_MESSAGES * _ROOM)  # untouched pages take no memory
        self._view = memoryview(self._data)
        self._control = bytearray(_MESSAGES * _CONTROL)
        self._iovecs = bytearray(_MESSAGES * _IOVEC.size)
        self._messages = bytearray(_MESSAGES * _MESSAGE.size)
        data, control, iovecs = map(_address, (self._data, self._control, self._iovecs))
        for index in range(_MESSAGES):
            _IOVEC.pack_into(self._iovecs, index * _IOVEC.size, data + index * _ROOM, _ROOM)
            iovec = iovecs + index * _IOVEC.size
            place = control + index * _CONTROL
            _MESSAGE.pack_into(self._messages, index * _MESSAGE.size, 0, 0, iovec, 1, place, _CONTROL, 0, 0)
        self._fresh = bytes(self._messages)
        self._pointer = ctypes.c_void_p(_address(self._messages))

    def receive(self, udp: socket.socket) -> list[memoryview]:
        """What has come, in order, at least one datagram; the views are good until the next call.

        Raises:
            OSError: As `recv` does.
        """
        self._messages[:] = self._fresh  # the kernel writes lengths over room
        count = self._call(udp.fileno(), self._pointer, _MESSAGES, _DONTWAIT, None)
        if count < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        datagrams: list[memoryview] = []
        view, at = self._view, 0
        for message in _MESSAGE.iter_unpack(memoryview(self._messages)[: count * _MESSAGE.size]):
            length = message[7]
            size = self._segment_size(at // _ROOM) if message[5] else 0
            if 0 < size < length:
                datagrams += [view[start : min(start + size, at + length)] for start in range(at, at + length, size)]
            else:
                datagrams.append(view[at : at + length])
            at += _ROOM
        return datagrams

    def _segment_size(self, index: int) -> int:
        size: int = _CONTROL_MESSAGE.unpack_from(self._control, index * _CONTROL)[3]
        return size


def _address(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
