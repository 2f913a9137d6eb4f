"""How much is done for an input, counted and not timed: the same on any machine, however busy it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TOOL = 4
"""None of the numbers that Python gives to debuggers, coverage and profilers."""


def work(target: Callable[[bytes], None], data: bytes) -> int:
    """Count the calls and the turns of loops, in Python code, that a target takes for an input.

    What is done inside one call of C is one: copies of bytes, and regular expressions, have to be timed.
    """
    done = 0

    def count(*_: object) -> None:
        nonlocal done
        done += 1

    monitoring = sys.monitoring
    events = monitoring.events
    counted = (events.PY_START, events.PY_RESUME, events.JUMP, events.CALL)
    monitoring.use_tool_id(_TOOL, "h3probe's work")
    try:
        for event in counted:
            monitoring.register_callback(_TOOL, event, count)
        monitoring.set_events(_TOOL, sum(counted))
        target(data)
    finally:
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)
    return done
