"""The client's own log as a vantage point: which request was made, what carried it, how it ended.

Each client's log is read by a module of its own, line by line and sans-IO; `file` reads one that has been written,
`pipe` one that is being written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from h3probe.vantage.clientlog.curl import CurlLog
from h3probe.vantage.clientlog.jdk import JdkLog
from h3probe.vantage.clientlog.netlog import NetLog

if TYPE_CHECKING:
    from h3probe.events import Told
    from h3probe.vantage.clientlog.wallclock import WallClock


class ClientLog(Protocol):
    """Reads one kind of log, line by line; no line makes it raise.

    Attributes:
        clock: The times of the log itself; used where no other time is given.
    """

    clock: WallClock

    def line(self, line: str, now_ns: int | None = None) -> bool:
        """Take a line without its end, and when it was read if that is when it was written; whether it is the log's."""

    def take(self) -> list[Told]:
        """Return what has been told since the last call."""

    def finish(self, now_ns: int | None = None) -> None:
        """Take note that the log has ended."""


def recognise(line: str) -> ClientLog | None:
    """Return what reads the log that such a line is from; None where it may be any text."""
    if JdkLog.recognises(line):
        return JdkLog()
    if NetLog.recognises(line):
        return NetLog()
    return CurlLog() if CurlLog.recognises(line) else None
