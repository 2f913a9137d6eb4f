"""What requests waited for before they went on over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.fallback import wait_of
from h3probe.diagnose.verdict.clauses import quic_ended
from h3probe.text import seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from h3probe.diagnose.fallback import Wait
    from h3probe.diagnose.story import Story


def fallback_waits(story: Story) -> list[Wait]:
    """What was waited for before a request went on over TCP."""
    return [wait for wait in (wait_of(story, attempt) for attempt in story.quic) if wait is not None]


def later_wait(story: Story) -> tuple[float, str] | None:
    """Return the longest wait for QUIC before a fallback, in seconds, and a sentence about it."""
    waits = fallback_waits(story)
    if not waits:
        return None
    wait = max(waits, key=lambda wait: wait.seconds)
    attempt, began_ns = wait.attempt, wait.attempt.first.time_ns
    before = [q for q in story.quic if q.server == attempt.server and q.ready and q.ready.time_ns < began_ns]
    what = "for QUIC, which had worked before," if before else "for QUIC"
    which = "The first request" if began_ns == story.begins_ns else "A later request"
    if wait.request is not None and wait.request > 1:
        which = f"Request {wait.request}"
    why = f"{seconds(wait.seconds)} {what} before it fell back to TCP: {kept_waiting(story, wait)}"
    return wait.seconds, f" {which} waited {why}."


def kept_waiting(story: Story, wait: Wait) -> str:
    """Say in a clause what kept a request waiting for QUIC."""
    answered = wait.attempt.first_answer
    if answered is not None and answered.time_ns > wait.until.time_ns:
        after = seconds((answered.time_ns - wait.attempt.first.time_ns) / NS)
        return f"QUIC was answered only after {after}"
    return "QUIC was ready only later" if wait.attempt.established else quic_ended(story, wait.attempt)


def then(story: Story) -> str:
    """Return the same as the end of a verdict; empty where nothing waited."""
    wait = later_wait(story)
    return "" if wait is None else wait[1]
