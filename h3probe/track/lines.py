"""What is said of connections, a line at a time: each transport's name goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from h3probe.track.tcp import OTHER_PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.timeline import Timeline
    from h3probe.track.tunnel import Tunnel

Weight = Literal["start", "progress", "good", "bad"]


class QuicLines:
    """Says what happens on QUIC connections.

    Args:
        timeline: Where it goes.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def say(
        self,
        connection: QuicConnection,
        mark: Mark,
        text: str | Callable[[], str],
        *,
        outgoing: bool | None,
        weight: Weight = "progress",
    ) -> None:
        """Add a line about a connection, as `Timeline.say`."""
        self._timeline.say(connection, mark, text, transport="quic", outgoing=outgoing, weight=weight)


class TcpLines:
    """Says what happens on TCP connections, and in the tunnels through them.

    Args:
        timeline: Where it goes.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def say(
        self,
        connection: TcpConnection,
        mark: Mark,
        text: str | Callable[[], str],
        *,
        outgoing: bool | None,
        weight: Weight = "progress",
    ) -> None:
        """Add a line about a connection, as `Timeline.say`; none where it has nothing to do with HTTP."""
        if connection.server.port not in OTHER_PROTOCOLS:
            self._timeline.say(connection, mark, text, transport="tcp", outgoing=outgoing, weight=weight)

    def say_tunnel(self, connection: TcpConnection, tunnel: Tunnel, text: str, mark: Mark, *, outgoing: bool) -> None:
        """Add a line about a tunnel through a connection."""
        refused = tunnel.status is not None and not tunnel.open
        self._timeline.say(
            connection, mark, text, transport="proxy", outgoing=outgoing, weight="bad" if refused else "start"
        )
