"""Sockets on loopback: one port number for IPv4 and IPv6, TCP and UDP together."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from h3probe.errors import PrivilegeError, UserError

_ATTEMPTS = 50
_BACKLOG = 128
_ABSENT = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}
_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


@dataclass(slots=True)
class Port:
    """A port number and the sockets that are bound to it.

    Attributes:
        number: 1-65535.
        tcp: Listening, non-blocking stream sockets, 127.0.0.1 before ::1; whoever takes one out of the list closes it.
        udp: Bound, non-blocking datagram sockets, likewise.
    """

    number: int
    tcp: list[socket.socket] = field(default_factory=list)
    udp: list[socket.socket] = field(default_factory=list)

    def close(self) -> None:
        """Close the sockets that are still here."""
        for sock in (*self.tcp, *self.udp):
            sock.close()
        self.tcp.clear()
        self.udp.clear()


def open_port(number: int = 0, *, tcp: bool = True, udp: bool = True) -> Port:
    """Bind 127.0.0.1 and, where the machine has it, ::1.

    Args:
        number: The port, or 0 for any that is free in all the places asked for.
        tcp: Whether to bind TCP.
        udp: Whether to bind UDP.

    Raises:
        UserError: The port is in use, or no port is free.
        PrivilegeError: The system does not give this port to this user.
    """
    last: OSError | None = None
    for _ in range(1 if number else _ATTEMPTS):
        try:
            return _bind(number, tcp=tcp, udp=udp)
        except OSError as error:
            last = error
    if last is not None and last.errno in {errno.EACCES, errno.EPERM}:
        raise PrivilegeError(f"port {number} needs more rights than this user has: choose one above 1023")
    where = f"port {number} on loopback is in use: choose another one" if number else "no port is free on loopback"
    raise UserError(f"{where} ({last.strerror if last else 'unknown error'})")


def _bind(number: int, *, tcp: bool, udp: bool) -> Port:
    kinds = [kind for kind, wanted in ((socket.SOCK_STREAM, tcp), (socket.SOCK_DGRAM, udp)) if wanted]
    port = Port(number)
    with ExitStack() as undo:
        undo.callback(port.close)
        for family, host in _LOOPBACK:
            for kind in kinds:
                sock = _bind_one(family, kind, host, port.number)
                if sock is None:
                    continue
                (port.tcp if kind == socket.SOCK_STREAM else port.udp).append(sock)
                # The first socket may have been given any port; the others must follow it.
                port.number = sock.getsockname()[1]
        undo.pop_all()
    return port


def _bind_one(family: socket.AddressFamily, kind: socket.SocketKind, host: str, number: int) -> socket.socket | None:
    """A bound socket, or None where the machine has no IPv6.

    Raises:
        OSError: Any other reason why it cannot be bound.
    """
    with ExitStack() as undo:
        try:
            sock = undo.enter_context(socket.socket(family, kind))
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if kind == socket.SOCK_STREAM:
                _reuse_after_time_wait(sock)
            sock.bind((host, number))
            if kind == socket.SOCK_STREAM:
                # At once, since SO_REUSEADDR lets others bind a port that nobody listens on yet.
                sock.listen(_BACKLOG)
        except OSError as error:
            if family == socket.AF_INET6 and error.errno in _ABSENT:
                return None
            raise
        sock.setblocking(False)
        undo.pop_all()
        return sock
    raise AssertionError  # ExitStack never swallows here


def _reuse_after_time_wait(sock: socket.socket) -> None:
    # On Windows this option would let two servers share the port, which is what it prevents elsewhere.
    if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
        return
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
