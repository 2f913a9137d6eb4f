"""The interfaces of this host, by the names a user types."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

# linux/sockios.h and linux/if.h, which Python does not name.
_SIOCGIFFLAGS: Final = 0x8913
_IFF_LOOPBACK: Final = 0x8
_REQUEST = struct.Struct("=16sH22x")


def by_name() -> dict[str, int]:
    """Every interface there is now, with its index."""
    return {name: index for index, name in socket.if_nameindex()}


def is_loopback(index: int) -> bool:
    """Whether this is a loopback interface; False where it is gone."""
    import fcntl  # noqa: PLC0415 - there is none on Windows

    try:
        name = socket.if_indextoname(index).encode()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            found = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, _REQUEST.pack(name, 0))
    except OSError:
        return False
    return bool(_REQUEST.unpack(found)[1] & _IFF_LOOPBACK)


def indexes(wanted: Iterable[str]) -> list[int]:
    """The indexes of these interfaces.

    Raises:
        UserError: There is no such interface; the line lists those there are.
    """
    known = by_name()
    found = []
    for name in wanted:
        if name not in known:
            raise UserError(f"no interface {name!r} here; there are: {', '.join(known) or 'none'}")
        found.append(known[name])
    return found
