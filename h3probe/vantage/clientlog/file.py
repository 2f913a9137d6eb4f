"""A client's log that has been written, as a source of events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from h3probe.errors import CaptureError
from h3probe.events import Event, ToldExchange
from h3probe.vantage.clientlog import recognise
from h3probe.vantage.clientlog.lines import Lines
from h3probe.vantage.clientlog.netlog import LONGEST_EVENT, NetLog

if TYPE_CHECKING:
    from types import TracebackType

    from h3probe.events import Told
    from h3probe.vantage.clientlog import ClientLog

CHUNK: Final = 1 << 18
# More than this is not kept: the oldest is what matters least where a log goes on for days.
LIMIT: Final = 100_000
# Lines before the first one by which a log is recognised that may be its own.
EARLY: Final = 16


class ClientLogFile(Iterator[Event]):
    """A log file of the JDK's client, of curl or of Chromium; read as a whole, since its end may tell its time.

    Args:
        path: Its name.

    Attributes:
        format: `client-log`.
        truncated: False: such a log has no end of its own.
        dropped: None: such a log does not count what it misses.

    Raises:
        CaptureError: It cannot be read, or is no such log.
    """

    format = "client-log"
    truncated = False
    dropped: int | None = None

    def __init__(self, path: str) -> None:
        try:
            told, log, end_ns = _read(Path(path))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise CaptureError(f"{path} cannot be read: {reason or error}") from error
        if isinstance(log, NetLog) and not log.begun:
            raise CaptureError(f"{path} is a NetLog whose first line, the constants, is not whole")
        if log is None:
            raise CaptureError(f"{path} is no log of the JDK's HttpClient, of curl -v or of Chromium (NetLog)")
        base_ns = log.clock.base_ns(end_ns)
        self._events = iter(sorted((_moved(each, base_ns) for each in told), key=lambda each: each.time_ns))

    def __next__(self) -> Event:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is open."""


def _read(path: Path) -> tuple[list[Told], ClientLog | None, int]:
    log: ClientLog | None = None
    told: list[Told] = []
    before: deque[str] = deque(maxlen=EARLY)
    lines = Lines(LONGEST_EVENT)
    with path.open("rb") as stream:
        while True:
            chunk = stream.read(CHUNK)
            for line in lines.feed(chunk) if chunk else lines.finish():
                if log is not None:
                    log.line(line)
                    continue
                before.append(line)
                log = recognise(line)
                if log is not None:
                    for early in before:
                        log.line(early)
            if log is not None:
                if not chunk:
                    log.finish()
                told += log.take()
                del told[:-LIMIT]
            if not chunk:
                return told, log, path.stat().st_mtime_ns


def _moved(told: Told, base_ns: int) -> Told:
    """Move a report from the log's own time to the epoch's."""
    if isinstance(told, ToldExchange) and told.began_ns is not None:
        return replace(told, time_ns=told.time_ns + base_ns, began_ns=told.began_ns + base_ns)
    return replace(told, time_ns=told.time_ns + base_ns)
