"""A QUIC path that dies: the client sends again and again, further and further apart, and nothing comes back any more.

Whatever a client sends long after its server's latest packet is there to be acknowledged (RFC 9000, 13.2), except for
one close; what is not acknowledged is sent again, with a doubling timer (RFC 9002, 6.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.track.clock import NS
from h3probe.track.mark import Mark

if TYPE_CHECKING:
    from h3probe.events import FlowCount
    from h3probe.track.quic import QuicConnection

# What comes so long after the client's packet before it is a new question, or its timer that has run out.
TRY_NS = NS // 2


def sent(connection: QuicConnection, mark: Mark, *, from_client: bool) -> None:
    """Take note of a datagram, before it is the latest one of its side."""
    if not from_client:
        connection.tries, connection.tried = 0, None
    elif connection.last_client is not None and mark.time_ns - connection.last_client.time_ns >= TRY_NS:
        connection.tries += 1
        connection.tried = connection.tried or mark


def counted(connection: QuicConnection, flow: FlowCount) -> None:
    """Take note of datagrams that were counted, likewise."""
    if flow.server is not None:
        connection.tries, connection.tried = 0, None
    unheard = flow.unheard
    if unheard is None:
        return
    if unheard.first is not None:
        sent(connection, Mark(*unheard.first), from_client=True)
    if unheard.tried is not None:
        connection.tries += unheard.tries
        connection.tried = connection.tried or Mark(*unheard.tried)
