"""Keeps an expensive activity from taking over."""

from __future__ import annotations

import time
from dataclasses import dataclass

_PAUSE = 3.0


@dataclass(slots=True)
class Pace:
    """Allows an activity once in an interval, and for a quarter of the time at most, however long it takes.

    Attributes:
        interval: Seconds from one beginning to the next, at least.
    """

    interval: float
    _not_before: float = float("-inf")
    _began: float = 0.0

    def begin(self) -> bool:
        """Whether it is time again; if so, `end` must follow."""
        self._began = time.monotonic()
        return self._began >= self._not_before

    def end(self) -> None:
        """The activity is over, and what it took decides when the next one may begin."""
        now = time.monotonic()
        self._not_before = max(self._began + self.interval, now + _PAUSE * (now - self._began))
