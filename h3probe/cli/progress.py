"""How far a long run has come: one line on standard error, which a terminal shows in place of the last one."""

from __future__ import annotations

import sys
import time


class Progress:
    """Counts what has ended.

    Args:
        total: How much there is.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._in_place = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def done(self, name: str) -> None:
        """Another one has ended."""
        self._done += 1
        text = f"{self._done} of {self._total} after {self.seconds:.0f} s: {name}"
        sys.stderr.write(f"\r\x1b[K{text}" if self._in_place else f"h3probe: {text}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Take the line away."""
        if self._in_place:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
