"""What is said of connections, a line at a time: each transport's name goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from h3probe.track.tcp import OTHER_PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from h3probe.track.mark import Mark
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.timeline import Subject, Timeline, Weight
    from h3probe.track.tunnel import Tunnel


class Lines:
    """Says what happens on connections over one transport.

    Args:
        timeline: Where it goes.
        transport: Theirs.
        quiet: Ports of servers of which nothing is said.
    """

    def __init__(self, timeline: Timeline, transport: Literal["quic", "tcp"], quiet: Collection[int] = ()) -> None:
        self._timeline, self._transport, self._quiet = timeline, transport, quiet

    def say(
        self,
        connection: Subject,
        mark: Mark,
        text: str | Callable[[], str],
        *,
        outgoing: bool | None,
        weight: Weight = "progress",
    ) -> None:
        """Add a line about a connection, as `Timeline.say`."""
        if connection.server.port not in self._quiet:
            self._timeline.say(connection, mark, text, transport=self._transport, outgoing=outgoing, weight=weight)


class TcpLines(Lines):
    """The same over TCP, but for what has nothing to do with HTTP, and in the tunnels through it.

    Args:
        timeline: Where it goes.
    """

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline, "tcp", OTHER_PROTOCOLS)

    def say_tunnel(self, connection: TcpConnection, tunnel: Tunnel, text: str, mark: Mark, *, outgoing: bool) -> None:
        """Add a line about a tunnel through a connection."""
        refused = tunnel.status is not None and not tunnel.open
        self._timeline.say(
            connection, mark, text, transport="proxy", outgoing=outgoing, weight="bad" if refused else "start"
        )
