"""The time of a capture: nanoseconds in, the output contract's `at` and `time` out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

NS = 1_000_000_000
# A frame that is this far ahead of the one before it is a damaged time stamp, unless the next one agrees with it:
# no capture's silence is that long, and a file put together from several goes on from there.
JUMP_NS = 3_600 * NS


@dataclass(slots=True)
class Clock:
    """Knows when the first packet was, and the latest one.

    It has no time of its own: `see` is told each packet's.

    Attributes:
        start_ns: Time of the first packet, None before it.
        now_ns: The latest time seen.
    """

    start_ns: int | None = None
    now_ns: int = 0
    _jump_ns: int | None = None

    def see(self, time_ns: int) -> None:
        """Take note of a packet's time."""
        if self.start_ns is None:
            self.start_ns = self.now_ns = time_ns
        if time_ns - self.now_ns < JUMP_NS:
            self._jump_ns = None
        elif self._jump_ns is None or time_ns < self._jump_ns - JUMP_NS:
            self._jump_ns = time_ns
            return
        self.now_ns = max(self.now_ns, time_ns)

    def at(self, time_ns: int) -> float:
        """Seconds since the first packet (negative where a file is not in order)."""
        return (time_ns - (self.start_ns if self.start_ns is not None else time_ns)) / NS

    def maybe_at(self, time_ns: int | None) -> float | None:
        """Seconds since the first packet, or None for None."""
        return None if time_ns is None else self.at(time_ns)

    def time(self) -> str | None:
        """The latest time, RFC 3339; None before the first packet."""
        return None if self.start_ns is None else self.rfc3339(self.now_ns)

    @staticmethod
    def rfc3339(time_ns: int) -> str:
        """RFC 3339 in UTC with nanoseconds; a time outside the years 1-9999 is given as its limit."""
        seconds, fraction = divmod(time_ns, NS)
        return f"{_second(seconds)}.{fraction:09d}Z"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    """A whole second, in which much may happen."""
    seconds = min(max(seconds, -62_135_596_800), 253_402_300_799)
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="seconds")
