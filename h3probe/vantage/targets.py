"""The addresses a relay forwards to, and those of its sockets."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from h3probe.events import Endpoint

SocketAddress = tuple[Any, ...]
"""As the socket module has it: (host, port) or (host, port, flow, scope)."""


@dataclass(slots=True)
class Targets:
    """One target, resolved once: a name often has an IPv6 and an IPv4 address, and a server on only one of them.

    Attributes:
        addresses: (family, socket address), in the resolver's order; never empty.
        preferred: The index of the one that last answered.
    """

    addresses: list[tuple[int, SocketAddress]]
    preferred: int = 0

    def order(self) -> list[int]:
        """The indexes in the order to try: the preferred one, then the others as they were resolved."""
        return sorted(range(len(self.addresses)), key=lambda index: (index != self.preferred, index))


def endpoint(address: SocketAddress) -> Endpoint:
    """An address of the socket module as it stands on the wire."""
    host = address[0].partition("%")[0]
    return Endpoint(socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host), address[1])


def local_endpoint(listener: socket.socket, client: SocketAddress) -> Endpoint:
    """The address under which a client knows a listening UDP socket, which may be bound to all of them."""
    own = endpoint(listener.getsockname())
    if any(own.host):
        return own
    # Which address answers is a matter of routing, and connecting a socket asks for the route and sends nothing.
    with socket.socket(listener.family, socket.SOCK_DGRAM) as question:
        try:
            question.connect(client)
        except OSError:
            return own
        return Endpoint(endpoint(question.getsockname()).host, own.port)


def split_host_and_port(text: str, *, lowest: int, barred: str = "") -> tuple[str | None, int]:
    """Read `[HOST:]PORT` of a command line, an IPv6 address in brackets.

    Args:
        text: As given.
        lowest: The lowest port that makes sense.
        barred: Characters that no host has, beside those that never are in one.

    Raises:
        ValueError: It is anything else; its text says what.
    """
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and lowest <= int(port) <= 65535):
        raise ValueError(f"{port!r} is no port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{host!r} is no host (an IPv6 address stands in brackets)")
    if colon and (not host or any(character in "[]/@" + barred or character.isspace() for character in host)):
        raise ValueError(f"{host!r} is no host")
    return host or None, int(port)
