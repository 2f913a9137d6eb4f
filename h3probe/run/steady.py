"""Time that neither jumps nor runs while the machine sleeps, for stamps that were made by a clock that does.

Packets are stamped with the time of day. When that is set back an hour, a SYN seems to come before the Initial that it
followed; when the machine slept an hour, a client seems to have waited for one, and its own timers, which stood still,
know nothing of it. So what happens after a step is told as if there had been none, and the step itself is told.
"""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from h3probe.events import Block

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Event

STEP_NS = 200_000_000
"""A clock that is adjusted slowly is further off than this after minutes only, and then it is nobody's step."""
_TO_COME_NS = 1_000_000_000
_SECOND_NS = 1_000_000_000


def _slept_ns() -> int:
    """How long the machine has slept since it was started; 0 where the system does not tell (clock_gettime(2))."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


class SteadyClock:
    """Compares the time of day with a clock that nobody sets, and corrects stamps by the difference.

    Args:
        day_ns: The time of day, as packets are stamped.
        steady_ns: A clock that is never set and stands still while the machine sleeps.
        slept_ns: How long it has slept.
    """

    def __init__(
        self,
        day_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = time.monotonic_ns,
        slept_ns: Callable[[], int] = _slept_ns,
    ) -> None:
        self._day_ns, self._steady_ns, self._slept_ns = day_ns, steady_ns, slept_ns
        self._first = self._offset = day_ns() - steady_ns()
        self._before = self._offset
        self._slept = slept_ns()

    def now_ns(self) -> int:
        """The time now, as if the clock had never been set."""
        return self._steady_ns() + self._first

    def look(self) -> str | None:
        """Look for a step; to be called often. What happened, in words, once."""
        offset = self._day_ns() - self._steady_ns()
        step = offset - self._offset
        if abs(step) < STEP_NS:
            if self._offset == self._first:  # slow adjustments are followed as long as nothing is corrected
                self._first = self._before = self._offset = offset
            return None
        self._before, self._offset = self._offset, offset
        slept, self._slept = self._slept_ns() - self._slept, self._slept_ns()
        if slept >= STEP_NS:
            return f"the machine slept for {slept / _SECOND_NS:,.0f} s; times go on as if it had not"
        way = "forward" if step > 0 else "back"
        return f"the clock was set {way} by {abs(step) / _SECOND_NS:,.1f} s; times go on as if it had not been"

    def corrected(self, event: Event | Block) -> Event | Block:
        """The event with its times as if the clock had never been set."""
        if self._offset == self._first:
            return event
        if isinstance(event, Block):  # which is shorter than what lies between two steps
            last_ns = int(event.times_ns[-1])
            return replace(event, times_ns=event.times_ns + (self._corrected_ns(last_ns) - last_ns))
        times: dict[str, Any] = {
            each.name: self._corrected_ns(value)
            for each in fields(event)
            if each.name.endswith("_ns") and (value := getattr(event, each.name)) is not None
        }
        return replace(event, **times) if times else event

    def _corrected_ns(self, time_ns: int) -> int:
        # A stamp may be older than the step: the clock it was made by is the one that puts it shortly before now.
        now = self.now_ns()
        candidates = [time_ns - offset + self._first for offset in (self._offset, self._before)]
        return min(candidates, key=lambda each: (each > now + _TO_COME_NS, abs(now - each)))
