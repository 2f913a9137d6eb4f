"""What the relay tells of a UDP flow: everything, until both sides have long gone over to QUIC's short headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.vantage.relay_splice import TELL_S

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from h3probe.vantage.datagrams import Datagram

    type Tell = Callable[[bytes, int, bool], None]

_ENOUGH = 64
"""Short-header datagrams of each side that are told before; a connection's history has room for no more."""


class _Direction:
    """One direction's datagrams.

    Attributes:
        shorts: How many with short headers were told since the last long header, of either side.
        held: The latest that was not told yet, and its time (nanoseconds).
        timer: Runs while another one would be too early.
    """

    __slots__ = ("held", "shorts", "timer")

    def __init__(self) -> None:
        self.shorts = 0
        self.held: tuple[bytes, int] | None = None
        self.timer: asyncio.TimerHandle | None = None


class Samples:
    """Chooses for one client's flow, and tells in the order of the datagrams' times.

    What opens, ends or repeats a handshake has long headers and is always told (RFC 9000, 17.2). Of the others the
    latest one is never left out for good, so that when each side was last heard stays known; it comes up to `TELL_S`
    late, with its own time.

    Args:
        tell: Takes a payload, its time in nanoseconds, and whether the client sent it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Tell) -> None:
        self._loop, self._tell = loop, tell
        self._client, self._server = _Direction(), _Direction()
        self._established = False

    def saw(self, datagrams: Sequence[Datagram], time_ns: int, *, by_client: bool) -> None:
        """Take datagrams that have come at the same time."""
        direction = self._client if by_client else self._server
        latest: Datagram | None = None
        for datagram in datagrams:
            is_short = len(datagram) > 0 and datagram[0] & 0xC0 == 0x40
            if is_short and self._established:
                latest = datagram
                continue
            if latest is not None:
                direction.held, latest = (bytes(latest), time_ns), None
            self.flush()
            self._count(direction, is_short=is_short)
            self._tell(bytes(datagram), time_ns, by_client)
        if latest is not None:
            direction.held = bytes(latest), time_ns
            if direction.timer is None:
                self._due(direction)

    def _count(self, direction: _Direction, *, is_short: bool) -> None:
        if is_short:
            direction.shorts += 1
        else:  # perhaps another connection between the same ports
            self._client.shorts = self._server.shorts = 0
        self._established = min(self._client.shorts, self._server.shorts) >= _ENOUGH

    def _due(self, direction: _Direction) -> None:
        direction.timer = None
        if direction.held is not None:
            direction.timer = self._loop.call_later(TELL_S, self._due, direction)
            self.flush()

    def flush(self) -> None:
        """Tell what is held: whatever comes next on the flow is told after it."""
        held = [
            (*direction.held[::-1], direction is self._client)
            for direction in (self._client, self._server)
            if direction.held is not None
        ]
        self._client.held = self._server.held = None
        for time_ns, payload, by_client in sorted(held, key=lambda each: each[0]):
            self._tell(payload, time_ns, by_client)

    def close(self) -> None:
        """Tell the rest, and stop."""
        for direction in (self._client, self._server):
            if direction.timer is not None:
                direction.timer.cancel()
                direction.timer = None
        self.flush()
