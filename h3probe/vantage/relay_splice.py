"""The relay's TCP fast path on Linux: bytes that nobody would read go from socket to socket inside the kernel.

A direction gets here once it has carried more than anybody reads of it (see `relay_tcp`). What passes is then told
without its bytes, as a capture with a short snap length and some losses would show it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

TELL_S = 0.02
"""At most one segment is told for each direction in that time; the engine takes far longer for one than the kernel."""

_PIPE = 1 << 20
BREATHER = 4 << 20
"""Bytes after which other connections get their turn, even where both sockets are always ready."""


class Passing:
    """Tells what one direction passes: its first bytes at once, what follows added up.

    Args:
        tell: Takes a number of bytes, and when the last of them passed (nanoseconds).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[int, int], None]) -> None:
        self._loop, self._tell = loop, tell
        self._untold = 0
        self._moment_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def passed(self, count: int) -> None:
        """Take note of bytes that were taken from the source."""
        self._untold += count
        self._moment_ns = time.time_ns()
        if self._timer is None:
            self._due()

    def _due(self) -> None:
        self._timer = None
        if self._untold:
            # The timer first: whoever is told may raise.
            self._timer = self._loop.call_later(TELL_S, self._due)
            self._flush()

    def _flush(self) -> None:
        count, self._untold = self._untold, 0
        self._tell(count, self._moment_ns)

    def close(self) -> None:
        """Tell the rest: whatever comes next on the connection is told after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._untold:
            self._flush()


if sys.platform == "linux":
    import fcntl

    class Pipe:
        """The pipe that bytes go through; what is in it counts as taken from the source.

        Raises:
            OSError: There are no descriptors left, or no memory for pipes.
        """

        def __init__(self) -> None:
            self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            with contextlib.suppress(OSError):  # beyond what one user may have: it works with less, slower
                fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE)

        def fill(self, source: socket.socket) -> int:
            """Take what the source has; 0 at its end.

            Raises:
                OSError: The source was reset, or BlockingIOError: it has nothing. The pipe must have been empty.
            """
            return os.splice(source.fileno(), self._in, _PIPE, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)

        async def empty(self, sink: socket.socket, count: int) -> None:
            """Pass on what is in it; waiting for the sink is what holds the source back.

            Raises:
                OSError: The sink was reset.
            """
            while count:
                try:
                    count -= os.splice(self._out, sink.fileno(), count, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
                except BlockingIOError:
                    await _writable(sink)

        def close(self) -> None:
            """Close both ends."""
            os.close(self._in)
            os.close(self._out)


def open_pipe() -> Pipe | None:
    """A pipe; None where the platform has no splice, or the process no descriptors left."""
    if sys.platform != "linux":
        return None
    try:
        return Pipe()
    except OSError:
        return None


async def readable(source: socket.socket) -> None:
    """Wait until a socket has bytes, its end, or an error."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(source, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(source)


async def _writable(sink: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(sink, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(sink)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
