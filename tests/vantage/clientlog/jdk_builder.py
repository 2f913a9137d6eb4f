"""Records of the JDK's HttpClient."""

from __future__ import annotations

from h3probe.events import ToldExchange
from h3probe.vantage.clientlog.jdk import JdkLog

URL = "https://localhost:4433/"
STALE = "https://localhost:4434/"
SOURCE = "Nov 30, 2026 1:14:45 PM jdk.internal.net.http.Exchange x"


def log(*messages: str, at: int = 0) -> JdkLog:
    """A log of records, all read at one time."""
    reader = JdkLog()
    for message in messages:
        assert reader.line(SOURCE, at)
        assert reader.line(f"INFO: {message}", at)
    return reader


def told(reader: JdkLog) -> list[ToldExchange]:
    """The exchanges that it has told of."""
    return [each for each in reader.take() if isinstance(each, ToldExchange)]
