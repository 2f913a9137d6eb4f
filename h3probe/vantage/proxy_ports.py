"""Ports for a process that will listen: found to be free before it starts, so that what is wrong is said well."""

from __future__ import annotations

import contextlib
import errno
import socket

from h3probe.errors import UserError

LOOPBACKS = ("127.0.0.1", "::1")
_TRIES = 32
_NO_SUCH_FAMILY = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}


def claim(host: str | None, port: int, *, udp: bool) -> tuple[list[str], int]:
    """Find the addresses of `host` that there are, and a port that is free on all of them.

    Args:
        host: A name or an address; None for both loopback addresses.
        port: 0 for any.
        udp: Whether UDP is wanted too.

    Returns:
        The addresses, at least one, and the port. Nothing is held: somebody else may take it in between.

    Raises:
        UserError: The port is in use, or takes root, or there is no such address here.
    """
    hosts = LOOPBACKS if host is None else _resolve(host)
    for tries_left in reversed(range(_TRIES)):
        try:
            return _claim_once(hosts, port, udp=udp)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port == 0 and tries_left:
                continue  # free for one address or protocol, and taken for another one
            raise UserError(_why_not(error, host, port)) from error
    raise AssertionError("the last try returns or raises")


def _resolve(host: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UserError(f"{host!r} is no address of this host to listen on") from error
    return tuple(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


def _claim_once(hosts: tuple[str, ...], port: int, *, udp: bool) -> tuple[list[str], int]:
    here: list[str] = []
    missing = OSError(errno.EADDRNOTAVAIL, "no such address here")
    with contextlib.ExitStack() as stack:
        for host in hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM) if udp else (socket.SOCK_STREAM,):
                    bound = stack.enter_context(socket.socket(family, kind))
                    if kind == socket.SOCK_STREAM:
                        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if family == socket.AF_INET6:
                        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    bound.bind((host, port))
                    port = bound.getsockname()[1]
            except OSError as error:
                if error.errno not in _NO_SUCH_FAMILY:
                    raise
                missing = error  # a host without IPv6, say
                continue
            here.append(host)
    if not here:
        raise missing
    return here, port


def _why_not(error: OSError, host: str | None, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use here: give another one, or 0 for any that is free"
    if error.errno == errno.EACCES:
        return f"port {port} takes root: give one above 1023, or 0 for any that is free"
    return f"cannot listen on {host or 'loopback'} port {port} ({error.strerror})"
