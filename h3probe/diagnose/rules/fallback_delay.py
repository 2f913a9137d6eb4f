"""fallback-delay: seconds spent waiting for QUIC before TCP began."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.diagnose.fallback import wait_of
from h3probe.diagnose.rule import NOTICEABLE_S, Finding, Rule, hellos
from h3probe.diagnose.rules import repeated_timeout
from h3probe.diagnose.words import answered_elsewhere, close_text, cut, timer_of, timer_text, waited_until_close
from h3probe.text import seconds
from h3probe.track.clock import NS
from h3probe.track.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.fallback import Wait
    from h3probe.diagnose.story import Story
    from h3probe.records import Severity

SLUG = "fallback-delay"
ADVICE = (
    "Make QUIC answer, or stop advertising it. A client that races QUIC and TCP does not pay this; one that tries "
    "QUIC alone first pays it for every new connection."
)
ADVICE_LATE = "The server did answer, too late: look at its load, and for loss on the way."

# Below this nobody waited.
SMALL_S = 0.1

STATES = {
    "unanswered": "was not answered",
    "refused": "was refused",
    "stalled": "was answered and stalled",
    "established": "led to a connection only later",
}


def check(story: Story) -> Iterator[Finding]:
    """Fire once for each request that went on over TCP; the longest wait for it counts."""
    waits: dict[tuple[str, int], Wait] = {}
    for wait in (wait_of(story, attempt) for attempt in story.quic):
        if wait is None:
            continue
        key = (wait.tcp.id, wait.until.time_ns)
        if key not in waits or wait.seconds > waits[key].seconds:
            waits[key] = wait
    twice = {connection.id for finding in repeated_timeout.check(story) for connection in finding.about}
    for wait in waits.values():
        finding = _finding(story, wait)
        # Of a request that waited out two timeouts the other rule has the seconds.
        yield replace(finding, cost=None) if wait.attempt.id in twice else finding


def _finding(story: Story, wait: Wait) -> Finding:
    attempt, cost = wait.attempt, wait.seconds
    state = STATES.get(attempt.outcome(story.now_ns) or "", "did not lead to a connection")
    if answered_elsewhere(attempt) is not None:
        state = "was answered from elsewhere alone"
    answered = attempt.first_answer
    late = answered is not None and answered.time_ns > wait.until.time_ns
    if answered is not None and late:
        state = f"was answered only after {seconds((answered.time_ns - attempt.first.time_ns) / NS)}"
    to = "the request on a TCP connection that was open all along" if wait.reused else "the SYN of the fallback to TCP"
    summary = f"{seconds(cost)} passed between the first Initial, which {state}, and {to}."
    if wait.request is not None:
        summary = f"Request {wait.request} to {story.label} waited for QUIC: {summary}"
    waited = waited_until_close(attempt)
    timer = timer_of(attempt, waited if waited is not None else cost) or timer_of(attempt, cost)
    advice = ADVICE
    if timer is not None:
        summary += f" {timer_text(*timer)}."
        if timer[1].changed_by:
            advice = f"A smaller {timer[1].changed_by} makes the wait shorter. {ADVICE}"
    evidence = hellos(attempt)
    if attempt.refusals:
        mark, error = attempt.refusals[0]
        evidence.append(
            (mark, f"ICMP {error.meaning}, {seconds((mark.time_ns - attempt.first.time_ns) / NS)} after it")
        )
    if attempt.client_close is not None:
        evidence.append(
            (attempt.client_close[0], f"the client ends the attempt: {close_text(attempt.client_close[1])}")
        )
    evidence += _told(story, wait)
    what = "the request leaves on the TCP connection" if wait.reused else "SYN"
    evidence.append((wait.until, f"{what} to {wait.tcp.server}, {seconds(cost)} after the first Initial"))
    severity: Severity = "problem" if cost > NOTICEABLE_S else "notice" if cost > SMALL_S else "info"
    if attempt.answered and timer is not None and timer[1].changed_by:
        advice = f"The server did answer: give it more time. {timer[1].changed_by} changes the wait."
    elif late:
        advice = ADVICE_LATE
    return Finding(SLUG, severity, summary, cut(evidence), advice, [attempt, wait.tcp], cost)


def _told(story: Story, wait: Wait) -> list[tuple[Mark, str]]:
    """Evidence: when the request began and was answered, by the client's log, where that tells it exactly."""
    if wait.request is None:
        return []
    exchange = story.exchanges[wait.request - 1]
    if not exchange.exact:
        return []
    return [
        (Mark(None, exchange.time_ns), f"request {wait.request} begins, by the client's log"),
        (Mark(None, exchange.ended_ns), f"request {wait.request} is answered over {exchange.version}, by the same"),
    ]


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="TCP began only after waiting for QUIC",
    looks_for=(
        "The first SYN to the origin after a QUIC attempt's first Initial, later than the client's head start for a "
        "race, while QUIC was not ready. The cost is the SYN's time minus the first Initial's. With the client's log "
        "also a request from before an attempt, which left on an open TCP connection when that was over."
    ),
    advice=ADVICE,
    sources=("RFC 9114, 3.1", "RFC 8305", "measured: JDK 26 waits 2750 ms, or 30 s after an Alt-Svc record"),
    check=check,
)
