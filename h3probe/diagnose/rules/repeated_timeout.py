"""repeated-timeout: one request waits out two timeouts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.rule import Finding, Rule, hellos, lasted
from h3probe.diagnose.words import close_text, cut, timer_of, timer_text
from h3probe.text import clean, seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.quic import QuicConnection

SLUG = "repeated-timeout"
ADVICE = "Shorten the timeout, or leave out the second try; better, make QUIC answer or allow TCP."
# The second attempt leaves around the end of the first: a JDK was measured to send it 11 ms before the close.
SLACK_NS = NS
# A new program needs longer than this to start and to send its first packet.
SAME_TRY_NS = NS // 20
# Below this a second attempt is a quick retry, not a timeout waited out again.
SHORTEST_TIMER_S = 2.0


def check(story: Story) -> Iterator[Finding]:
    """Fire for each pair of attempts, one right after the other's timeout."""
    used: QuicConnection | None = None
    for first, second in pairwise(story.quic):
        if first is not used and _is_repeat(story, first, second):
            used = second  # A second try is not the first one of another pair.
            yield _finding(first, second)


def _is_repeat(story: Story, first: QuicConnection, second: QuicConnection) -> bool:
    silent = ("unanswered", "refused")
    if first.outcome(story.now_ns) not in silent or second.outcome(story.now_ns) not in (*silent, None):
        return False
    if first.server != second.server or first.dcid == second.dcid or first.ja4 != second.ja4:
        return False
    waited = (second.first.time_ns - first.first.time_ns) / NS
    end = first.ended or first.last_client or first.last
    if waited < SHORTEST_TIMER_S or (first.ended is not None and abs(second.first.time_ns - end.time_ns) > SLACK_NS):
        return False
    if not _of_one_request(first, second, waited):
        return False  # Two requests, for all that can be seen.
    between = [t for t in story.tcp if first.first.time_ns <= t.first.time_ns <= second.first.time_ns]
    return not between and story.tcp_open_at(second.first.time_ns) is None


def _of_one_request(first: QuicConnection, second: QuicConnection, waited: float) -> bool:
    """Whether one socket or process made both, and the first one ran into a timeout rather than into its end.

    A script that starts one client after the other, and an application's own timeout, look much the same.
    """
    reason = first.client_close[1].reason if first.client_close is not None else ""
    processes = [c.process.pid for c in (first, second) if c.process is not None]
    if len(set(processes)) > 1:
        return False
    client = recognise(first)
    if client is not None and client.always_so and client.retry is None:
        return False  # All that is known of it, and it tries no second time by itself.
    if first.client.port != second.client.port and len(processes) < 2:
        end_ns = (first.ended or first.last).time_ns
        if not reason or second.first.time_ns - end_ns > SAME_TRY_NS:
            return False
    if first.ended is None or (client is not None and client.timers):
        return timer_of(first, waited) is not None or bool(reason)
    return True


def _finding(first: QuicConnection, second: QuicConnection) -> Finding:
    one = (second.first.time_ns - first.first.time_ns) / NS
    ends = (second.last_client or second.last).time_ns
    total = (ends - first.first.time_ns) / NS
    port = "the same UDP port" if first.client.port == second.client.port else f"UDP port {second.client.port}"
    timer = timer_of(first, one)
    named = f" ({timer_text(*timer)})" if timer else ""
    summary = (
        f"A first QUIC attempt of {seconds(one)}{named} failed; right after it a second one began, new DCID, from "
        f"{port}, and no TCP in between: one request waits out two timeouts. The second one "
    )
    if second.client_close is not None:
        summary += f"took {seconds(lasted(second))}."
    else:
        summary += f"was seen for {seconds(lasted(second))}, and not to its end."
    if first.client_close is not None and first.client_close[1].reason:
        summary += f" The first one's CONNECTION_CLOSE says “{clean(first.client_close[1].reason, 120)}”."
    evidence = [*hellos(first), *hellos(second)]
    for attempt, name in ((first, "first"), (second, "second")):
        if attempt.client_close is not None:
            mark, frame = attempt.client_close
            evidence.append((mark, f"the client ends the {name} attempt: {close_text(frame)}"))
    return Finding(SLUG, "problem", summary, cut(evidence), _advice(first, one), [first, second], total)


def _advice(first: QuicConnection, waited: float) -> str:
    client = recognise(first)
    parts = []
    if client is not None and client.retry is not None:
        parts.append(f"{client.name}: {client.retry.text}; `{client.retry.setting}` leaves the second attempt out.")
    timer = timer_of(first, waited)
    if timer is not None and timer[1].changed_by:
        parts.append(f"{timer[1].changed_by} shortens each attempt.")
    return " ".join([*parts, ADVICE])


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="One request, two timeouts",
    looks_for=(
        "After a whole timer without an answer, a second QUIC attempt at the same server: a new connection ID, the "
        "same fingerprint, within a second of the first one's end, no TCP in between and none open."
    ),
    advice=(
        f"JDK 26: `-Djdk.httpclient.disableRetryConnect=true`, `-Djdk.httpclient.quic.maxInitialTimeout`. {ADVICE}"
    ),
    sources=("measured: JDK 26 retries a ConnectException once, 30 s and 30 s",),
    check=check,
)
