"""The relay's TCP fast path on Linux: bytes that nobody would read go from socket to socket inside the kernel.

A direction gets here once it has carried more than anybody reads of it (see `relay_tcp`). What passes is then told
without its bytes, as a capture with a short snap length and some losses would show it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

TELL_S = 0.02
"""At most one segment is told for each direction in that time; the engine takes far longer for one than the kernel."""

_PIPE = 1 << 20


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

        def drain(self, sink: socket.socket, count: int) -> int:
            """Pass on what is in it, `count` bytes at most; give how many went.

            Raises:
                OSError: The sink was reset, or BlockingIOError: it takes nothing now.
            """
            return os.splice(self._out, sink.fileno(), count, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)

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


class Splice:
    """Moves one direction's bytes through a pipe, in callbacks of the loop without a task's switches.

    One move at most takes a turn of the loop, so other connections get theirs. The source is left alone until the sink
    has taken what the pipe holds: that is what holds the source back.

    Args:
        passed: Takes the number of bytes that were taken from the source.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pipe: Pipe,
        source: socket.socket,
        sink: socket.socket,
        passed: Callable[[int], None],
    ) -> None:
        self._loop, self._pipe, self._source, self._sink, self._passed = loop, pipe, source, sink, passed
        self._held = 0
        self._done: asyncio.Future[None] = loop.create_future()

    async def run(self) -> None:
        """Go on until the source's end.

        Raises:
            SourceError: The source was reset, or these sockets cannot be spliced: its `cause` tells.
            SinkError: The sink was reset.
        """
        self._loop.add_reader(self._source, self._fill)
        try:
            await self._done
        finally:
            self._loop.remove_reader(self._source)
            self._loop.remove_writer(self._sink)

    def _fill(self) -> None:
        if self._done.done():
            return
        try:
            count = self._pipe.fill(self._source)
        except BlockingIOError:
            return
        except OSError as error:
            self._done.set_exception(SourceError(error))
            return
        if not count:
            self._done.set_result(None)
            return
        self._held = count
        try:
            self._passed(count)
        except Exception as error:  # noqa: BLE001 - an error of whoever is told ends the connection that it is told of
            self._done.set_exception(error)
            return
        if not self._drain():
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._drain_rest)

    def _drain_rest(self) -> None:
        if not self._done.done() and self._drain():
            self._loop.remove_writer(self._sink)
            self._loop.add_reader(self._source, self._fill)

    def _drain(self) -> bool:
        """Empty the pipe; return False where the sink has to be waited for."""
        try:
            while self._held:
                self._held -= self._pipe.drain(self._sink, self._held)
        except BlockingIOError:
            return False
        except OSError as error:
            self._done.set_exception(SinkError(error))
        return True


class SourceError(Exception):
    """The side that sends broke off, or cannot be spliced."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause)
        self.cause = cause


class SinkError(Exception):
    """The side that receives broke off."""
