"""One connection seen twice: on both sides of a NAT, of a load balancer, or of a proxy that splits TCP on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.track.tracker import Connection

# A ClientHello gets from one side to the other in less; a proxy far from its server first connects.
COPY_NS = 1 * NS


def copies(connections: Iterable[Connection]) -> dict[str, Connection]:
    """Return, by the id of each that repeats a ClientHello to or from another host, the client's own connection.

    A random is 32 bytes that no client uses twice (RFC 8446, 4.1.2). A client that goes on from another port of its own
    is no copy.
    """
    found: dict[str, Connection] = {}
    originals: dict[tuple[str, bytes, str | None], Connection] = {}
    for connection in sorted(connections, key=_said_ns):
        hello = connection.hello
        if hello is None or not hello.random or connection.first.frame is None:
            continue
        original = originals.setdefault((connection.transport, hello.random, hello.sni), connection)
        near = _said_ns(connection) - _said_ns(original) <= COPY_NS
        if original is not connection and near and _is_elsewhere(original, connection):
            found[connection.id] = original
    return found


def _said_ns(connection: Connection) -> int:
    """When its ClientHello was seen, else when it began."""
    if connection.transport == "quic":
        marks = connection.hello_datagrams
        return (marks[0] if marks else connection.first).time_ns
    tls = connection.tls
    return (tls.hello_mark if tls is not None and tls.hello_mark is not None else connection.first).time_ns


def _is_elsewhere(original: Connection, connection: Connection) -> bool:
    """Whether one is the other with a new client's or server's address, or leaves from where the other one went."""
    if not (_is_plain(original) and _is_plain(connection)):
        return False
    if original.server == connection.server:
        return original.client.host != connection.client.host
    return original.client == connection.client or original.server.host == connection.client.host


def _is_plain(connection: Connection) -> bool:
    """Whether it was seen from its start, and was not made through a proxy that is asked (CONNECT, SOCKS)."""
    if connection.mid_stream:
        return False
    return connection.transport == "quic" or (connection.tunnels is None and not connection.inner)
