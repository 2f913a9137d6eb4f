"""What the proxy writes to its pipe, put together to lines, and read."""

from __future__ import annotations

from h3probe.errors import DecodeError
from h3probe.events import Unreadable
from h3probe.vantage.proxy_events import LONGEST_LINE, Line, parse_event

Report = Line | Unreadable


class Reports:
    """Takes bytes as they come, and gives the events in them; a line that is none, or does not end, is told of."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skipping = False

    def take(self, data: bytes) -> list[Report]:
        """Take what comes next."""
        found: list[Report] = []
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        for line in lines:
            if self._skipping:
                self._skipping = False
                continue
            try:
                found.append(parse_event(bytes(line)))
            except DecodeError as error:
                found.append(Unreadable(f"the proxy reported something that is no event ({error})"))
        if len(self._buffer) > LONGEST_LINE:
            self._buffer.clear()
            if not self._skipping:
                found.append(Unreadable("the proxy reported a line that does not end"))
            self._skipping = True
        return found

    def clear(self) -> None:
        """Forget what has not ended yet: another process writes what comes next."""
        self._buffer.clear()
