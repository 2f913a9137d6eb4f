"""Where events go: a pipe or a file, one line each, without ever making the proxy wait."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import TYPE_CHECKING, Final

from h3probe.events import Dropped
from h3probe.vantage.proxy_events import format_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import ProxyEvent

LIMIT: Final = 16 << 20
"""Bytes that wait for a reader at most; events beyond them are counted and dropped."""


class Reporter:
    """Writes events in the event loop's pauses, all that are there at once.

    Args:
        on_broken: Called when nobody reads any more.
    """

    def __init__(self, on_broken: Callable[[], None]) -> None:
        self._descriptor = -1
        self._on_broken = on_broken
        self._lines: deque[str] = deque()
        self._rest = b""
        self._waiting = 0
        self._lost = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False
        self._broken = False

    def open(self, descriptor: int) -> None:
        """Write to this descriptor, which is set not to block; events that were reported before have waited."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self.flush()

    def emit(self, event: ProxyEvent | Dropped) -> None:
        """Take an event, in the order of the calls; from any thread once the event loop is known."""
        if self._broken:
            return
        line = format_event(event)
        if self._waiting + len(line) > LIMIT:
            self._lost += 1
            return
        self._lines.append(line)
        self._waiting += len(line)
        if self._scheduled:
            return
        self._scheduled = True
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self._loop.call_soon_threadsafe(self.flush)

    def flush(self) -> None:
        """Write what waits, as much as is taken."""
        self._scheduled = False
        if self._broken or self._descriptor < 0:
            return
        if self._lost and self._waiting < LIMIT // 2:
            self._lines.append(format_event(Dropped(self._lost, "the proxy's events came faster than they were read")))
            self._lost = 0
        data = self._rest + "".join(f"{line}\n" for line in self._lines).encode()
        self._lines.clear()
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BlockingIOError:
            self._wait()
        except OSError:
            self._break()
            return
        self._rest, self._waiting = data, len(data)

    def _wait(self) -> None:
        self._scheduled = True
        if self._loop is not None:
            self._loop.add_writer(self._descriptor, self._writable)

    def _writable(self) -> None:
        if self._loop is not None:
            self._loop.remove_writer(self._descriptor)
        self.flush()

    def _break(self) -> None:
        self._broken = True
        self._lines.clear()
        self._rest = b""
        self._on_broken()

    def close(self) -> None:
        """Write what is taken at once, and close."""
        self.flush()
        if self._loop is not None and self._rest:
            self._loop.remove_writer(self._descriptor)
        self._broken = True
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
