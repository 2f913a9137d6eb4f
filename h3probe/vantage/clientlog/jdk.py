"""The log of the JDK's HttpClient (`-Djdk.httpclient.HttpClient.log=…`), as java.util.logging prints it.

A record is a line with date, class and method, and a line `LEVEL: CATEGORY: text`; headers and stack traces follow on
lines of their own. Date and level are in the language of the JVM: neither is looked at but for the clock's face.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from h3probe.vantage.clientlog.jdk_requests import JdkRequests
from h3probe.vantage.clientlog.lines import LONGEST_LINE
from h3probe.vantage.clientlog.wallclock import WallClock, http_date
from h3probe.vantage.clientlog.words import origin_and_url

if TYPE_CHECKING:
    from h3probe.events import Told

PROPERTY: Final = "jdk.httpclient.HttpClient.log"
CATEGORIES: Final = "errors,requests,headers,http3,quic:control:retransmit"
# Lines of a record's headers or stack trace: what is no log must not be swallowed for ever.
LONGEST_RECORD: Final = 1_000

# The class and the method that end a record's first line: `$`, and `<init>`, are in some of them.
_SOURCE: Final = re.compile(r"(?:^|\s)jdk\.internal\.net\.http\.[\w.$]+ [\w$<>]+$")
_MESSAGE: Final = re.compile(
    r"(?:^|[\s:\]-])(REQUEST|RESPONSE|HEADERS|HTTP3|ALTSVC|QUIC|ERROR|FRAME|SSL|CHANNEL|MISC|TRACE): (.*)"
)
_LOGGER: Final = re.compile(r"jdk\.(?:internal\.net\.http|httpclient\.HttpClient)\b")
_HEADERS_OF: Final = re.compile(r"^  ([A-Z]+) (\S+) (\d{3})$")
_STREAM: Final = re.compile(r"^H3 RESPONSE HEADERS \(stream=(\d{1,19})\)")
# What a program prints of a request that its client did not even try: no line of the log says so.
_UNSUPPORTED: Final = re.compile(r"java\.net\.http\.UnsupportedProtocolVersionException: .*")
_THROWN: Final = re.compile(r"^(?:\tat |\t\.\.\. \d+ more|\t?(?:Caused by|Suppressed): |[\w.$/]+(?:Exception|Error)\b)")


@dataclass(slots=True)
class _Block:
    """The record whose further lines are read: its category, and what of its headers is wanted."""

    category: str
    lines: int = 0
    blank: int = 0
    origin: str | None = None
    response: bool = False
    stream: int | None = None


class JdkLog:
    """Reads such a log line by line.

    Attributes:
        clock: The times of the log itself; used where no other time is given.
    """

    def __init__(self) -> None:
        self.clock = WallClock(12)
        self._requests = JdkRequests(self.clock)
        self._in_source = False
        self._block: _Block | None = None

    @staticmethod
    def recognises(line: str) -> bool:
        """Whether only such a log has such a line."""
        return _SOURCE.search(line) is not None or (
            _LOGGER.search(line) is not None and _MESSAGE.search(line) is not None
        )

    def line(self, line: str, now_ns: int | None = None) -> bool:
        """Take a line, without its end.

        Args:
            line: What it says.
            now_ns: When it was read, where that is when it was written; the log's own clock is used otherwise.

        Returns:
            Whether the line is the log's own.
        """
        self._requests.live_ns = now_ns
        line = line[:LONGEST_LINE]
        if _SOURCE.search(line) is not None:
            self._block, self._in_source = None, True
            self.clock.face(line)
            return True
        in_source, self._in_source = self._in_source, False
        # A formatter of the user's own may put all of it on one line.
        named = not line[:1].isspace() and _LOGGER.search(line) is not None
        message = _MESSAGE.search(line) if in_source or named else None
        if message is not None:
            if not in_source:
                self.clock.face(line)
            self._message(message[1], message[2])
            return True
        unsupported = _UNSUPPORTED.search(line)
        if unsupported is not None:
            self._requests.unsupported(unsupported[0])
        return self._further(line)

    def take(self) -> list[Told]:
        """Return what has been told since the last call."""
        told, self._requests.told = self._requests.told, []
        return told

    def finish(self, now_ns: int | None = None) -> None:
        """Take note that the log has ended: what failed and went on nowhere has failed."""
        self._requests.live_ns = now_ns
        self._requests.finish()

    def _message(self, category: str, text: str) -> None:
        self._block = _Block(category)
        if category == "HEADERS":
            self._block.response = "RESPONSE HEADERS" in text
            stream = _STREAM.match(text)
            self._block.stream = int(stream[1]) if stream is not None else None
        self._requests.record(category, text)

    def _further(self, line: str) -> bool:
        """Take a line that may go on with the record before it: headers, or a stack trace."""
        block = self._block
        if block is None:
            return False
        block.lines += 1
        headers = block.category == "HEADERS"
        if not line:
            block.blank += 1
            # Headers end with one empty line or two, a stack trace with one; the first record after it ends it anyway.
            if block.blank > (2 if headers and not block.response else 1) or not (headers or block.lines > 1):
                self._block = None
                return False
            return True
        belongs = line.startswith("  ") if headers else block.category == "ERROR" and _THROWN.match(line) is not None
        if block.blank or not belongs or block.lines > LONGEST_RECORD:
            self._block = None
            return False
        if block.response:
            self._header(block, line)
        return True

    def _header(self, block: _Block, line: str) -> None:
        of = _HEADERS_OF.match(line)
        if of is not None and block.lines == 1:
            parts = origin_and_url(of[2])
            block.origin = parts[0] if parts is not None else None
            return
        name, _, value = line.strip().partition(": ")
        match name.lower():
            case "date":
                utc_ns = http_date(value)
                if utc_ns is not None:
                    self.clock.anchor(utc_ns)
            case "alt-svc":
                self._requests.alt_svc(value, block.origin, block.stream)
