"""Many UDP datagrams with few system calls, where the kernel can: Linux's recvmmsg, UDP_GRO and UDP_SEGMENT.

Datagrams go in and out one by one; that the kernel joins and parts them on the way is not seen by anybody. Everywhere
else, and where a network card or an older kernel refuses, each takes a system call of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h3probe.vantage.recvmmsg import Receiver
    from h3probe.vantage.targets import SocketAddress

    type Datagram = bytes | memoryview

_MAX_DATAGRAM = 65535
_BUFFER = 4 * 1024 * 1024
# Both of Linux's <linux/udp.h>; the socket module has no names for them.
_UDP_SEGMENT, _UDP_GRO = 103, 104
_MAX_SEGMENTS = 64
_MAX_TRAIN = 65535 - 40 - 8
_IS_LINUX = sys.platform == "linux"
_SIZE = struct.Struct("@i")


def prepare(udp: socket.socket) -> None:
    """Make room for bursts, and have datagrams of one sender handed over joined, which what receives here parts."""
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        udp.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    if _IS_LINUX:
        with contextlib.suppress(OSError):  # before Linux 5.0
            udp.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)


def dont_fragment(udp: socket.socket) -> None:
    """Have datagrams that the path cannot carry whole refused, where the platform can."""
    if _IS_LINUX:
        from h3probe.vantage import linux  # noqa: PLC0415 - Linux only

        linux.dont_fragment(udp)


class OneByOne:
    """Receives from sockets that are connected, as `recvmmsg.Receiver` does, without its buffers."""

    def receive(self, udp: socket.socket) -> list[memoryview]:
        """The datagrams that one system call gives.

        Raises:
            OSError: As `recv` does.
        """
        datagrams, _ = receive(udp)
        return [memoryview(datagram) for datagram in datagrams]


def receiver() -> OneByOne | Receiver:
    """What receives most with one call here."""
    if _IS_LINUX:
        from h3probe.vantage.recvmmsg import Receiver  # noqa: PLC0415 - Linux only

        with contextlib.suppress(OSError):
            return Receiver()
    return OneByOne()


def receive(udp: socket.socket) -> tuple[list[Datagram], SocketAddress]:
    """The datagrams that one system call gives, at least one, and their sender.

    Raises:
        OSError: As `recvfrom` does.
    """
    if not _IS_LINUX:
        data, address = udp.recvfrom(_MAX_DATAGRAM)
        return [data], address
    data, ancillary, _, address = udp.recvmsg(_MAX_DATAGRAM, socket.CMSG_SPACE(_SIZE.size))
    for level, kind, value in ancillary:
        if (level, kind) == (socket.IPPROTO_UDP, _UDP_GRO):
            (size,) = _SIZE.unpack_from(value)
            return list(_parted(memoryview(data), size)), address
    return [data], address


def _parted(train: memoryview, size: int) -> Iterator[memoryview]:
    """Datagrams of `size` bytes each, the last one perhaps shorter."""
    if not 0 < size < len(train):
        return iter([train])
    return (train[at : at + size] for at in range(0, len(train), size))


def send(udp: socket.socket, datagrams: Sequence[Datagram], address: SocketAddress | None = None) -> Sequence[Datagram]:
    """Send datagrams in order; return those that have left.

    Args:
        udp: Connected, where there is no address.
        datagrams: At least one.
        address: Their receiver.

    Raises:
        ConnectionRefusedError: A datagram to the connected address was refused; what follows it is not sent.
    """
    lost: set[int] = set()
    start = 0
    for train in _trains(datagrams):
        if len(train) == 1 or not _send_train(udp, train, address):
            lost.update(at for at, each in enumerate(train, start) if not _send_one(udp, each, address))
        start += len(train)
    return [each for at, each in enumerate(datagrams) if at not in lost] if lost else datagrams


def _trains(datagrams: Sequence[Datagram]) -> Iterator[Sequence[Datagram]]:
    """Runs of datagrams that may leave as one: all of one size, but for a shorter last one."""
    if not _IS_LINUX:
        yield from ([datagram] for datagram in datagrams)
        return
    start, size = 0, len(datagrams[0])
    most = _most(size)
    for at, (before, datagram) in enumerate(itertools.pairwise(datagrams), 1):
        length = len(datagram)
        if len(before) < size or not 0 < length <= size or at - start >= most:
            yield datagrams[start:at]
            start, size = at, length
            most = _most(size)
    yield datagrams[start:]


def _most(size: int) -> int:
    return min(_MAX_SEGMENTS, _MAX_TRAIN // size) if size else 1


def _send_train(udp: socket.socket, train: Sequence[Datagram], address: SocketAddress | None) -> bool:
    size = struct.pack("@H", len(train[0]))
    try:
        udp.sendmsg(train, [(socket.IPPROTO_UDP, _UDP_SEGMENT, size)], 0, address)
    except ConnectionRefusedError:
        if address is None:
            raise
        return False
    except OSError:  # an older kernel, a segment longer than the path carries, ...: nothing of it has left
        return False
    return True


def _send_one(udp: socket.socket, datagram: Datagram, address: SocketAddress | None) -> bool:
    try:
        if address is None:
            udp.send(datagram)
        else:
            udp.sendto(datagram, address)
    except ConnectionRefusedError:
        if address is None:
            raise
        return False
    except OSError:  # a full queue, a datagram longer than the path carries, no route any more
        return False
    return True
