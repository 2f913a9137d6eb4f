"""stuck-on-quic: request after request fails on an alternative that does not answer, with TCP at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.alternative import is_silent, origin_of_attempt, tcp_works
from h3probe.diagnose.clients import recognise
from h3probe.diagnose.rule import TAKEOVER_NS, Finding, Rule, lasted
from h3probe.diagnose.story import REST_NS
from h3probe.diagnose.words import close_text, cut
from h3probe.text import clean, count, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection

SLUG = "stuck-on-quic"
ADVICE = (
    "Make QUIC answer, or take the offer back (`alt-svc: clear`) over TCP. Until then a client without HTTP/3, or a "
    "new one, gets through."
)
# A client's own second try is one attempt more; the third one in a row is another request's.
LEAST = 3
# Where the client's own log tells that each attempt ended a request.
LEAST_TOLD = 2


def runs(story: Story) -> list[list[QuicConnection]]:
    """Return the attempts, in runs, that failed one after the other while TCP, which had worked, was left unused."""
    if story.tunnels or story.crowded or story.mixed:
        return []
    found: list[list[QuicConnection]] = []
    run: list[QuicConnection] = []
    for attempt in story.quic:
        if run and not _goes_on(story, run[-1], attempt):
            found.append(run)
            run = []
        if _fails(story, attempt) and (run or origin_of_attempt(story, attempt) is not None):
            run.append(attempt)
    found.append(run)
    return [run for run in (_without_rescued(story, each) for each in found) if _is_outage(story, run)]


def _fails(story: Story, attempt: QuicConnection) -> bool:
    """Whether the client itself ended an attempt that nothing had answered, and that no TCP raced."""
    raced = any(race.quic is attempt for race in story.races)
    return attempt.client_close is not None and not raced and is_silent(story, attempt)


def _goes_on(story: Story, one: QuicConnection, other: QuicConnection) -> bool:
    """Whether an attempt is the next one of a run: the same socket, the same server, nothing over TCP since."""
    if not _fails(story, other) or one.server != other.server or one.client_close is None:
        return False
    processes = {c.process.pid for c in (one, other) if c.process is not None}
    if one.client != other.client and (len(processes) != 1 or None in (one.process, other.process)):
        return False
    if not one.client_close[0].time_ns <= other.first.time_ns < one.client_close[0].time_ns + REST_NS:
        return False  # Another request's beside it; or the client rested, and what was told of it stands.
    return not _tcp_used(story, one.first.time_ns, other.first.time_ns)


def _tcp_used(story: Story, start_ns: int, end_ns: int) -> bool:
    tcp = [*story.tcp, *story.tcp_elsewhere]
    return any(start_ns <= t.first.time_ns <= end_ns or t.responded_between(start_ns, end_ns) for t in tcp)


def _without_rescued(story: Story, run: list[QuicConnection]) -> list[QuicConnection]:
    """Leave out the last attempt, where TCP took its request over."""
    if not run or run[-1].client_close is None:
        return run
    end_ns = run[-1].client_close[0].time_ns + TAKEOVER_NS
    return run[:-1] if _tcp_used(story, run[-1].first.time_ns, end_ns) else run


def _is_outage(story: Story, run: list[QuicConnection]) -> bool:
    if not run:
        return False
    worked = tcp_works(story)
    if worked is None or worked.ready is None or worked.ready.time_ns > run[0].first.time_ns:
        return False
    ids = {attempt.id for attempt in run}
    told = [e for e in story.exchanges if e.connection in ids]
    if any(e.status is not None for e in told):
        return False
    failed = {e.connection for e in told}
    return len(run) >= LEAST or (len(failed) >= LEAST_TOLD and failed == ids)


def outage(story: Story) -> str:
    """Say in a sentence of a verdict that requests got nowhere; empty where none is known to be stuck."""
    found = max(runs(story), key=len, default=[])
    if not found:
        return ""
    total = seconds(sum(lasted(attempt) for attempt in found))
    return f" {len(found)} attempts over QUIC in a row, {total} in all, led to nothing while TCP was left unused."


def check(story: Story) -> Iterator[Finding]:
    """Fire once for each run."""
    for run in runs(story):
        yield _finding(story, run)


def _finding(story: Story, run: list[QuicConnection]) -> Finding:
    first = run[0]
    waits = [lasted(attempt) for attempt in run]
    ids = {attempt.id for attempt in run}
    failed = [e for e in story.exchanges if e.connection in ids]
    client = recognise(first)
    if failed:
        what = f"{count(len(failed), 'request')} in a row failed (“{clean(failed[-1].error or 'no response', 120)}”)"
    else:
        what = f"{len(run)} QUIC attempts in a row failed, each with what it was made for"
    low, high = seconds(min(waits)), seconds(max(waits))
    each = f"after {low} each" if low == high else f"after {low} to {high}"
    summary = (
        f"{what}, {each}, at {first.server}, which does not answer; TCP had worked, and was left unused all the while."
    )
    advice = ADVICE
    if client is not None and client.stuck is not None:
        summary += f" {client.name}: {client.stuck.text}."
        advice = f"{client.stuck.advice} {ADVICE}"
    reason = origin_of_attempt(story, first)
    worked = tcp_works(story)
    evidence: list[tuple[Mark, str]] = [reason] if reason is not None and reason[0] != first.first else []
    if worked is not None and worked.ready is not None:
        evidence.append((worked.ready, f"TCP to {worked.server} is ready, and answered"))
    for number, attempt in enumerate(run, 1):
        shown = f", {reason[1]}" if reason is not None and attempt is first and reason[0] == first.first else ""
        evidence.append((attempt.first, f"attempt {number} begins{shown}"))
        if attempt.client_close is not None:
            evidence.append((attempt.client_close[0], f"its client ends it: {close_text(attempt.client_close[1])}"))
    return Finding(SLUG, "problem", summary, cut(evidence), advice, list(run), sum(waits))


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="An outage on QUIC, with TCP at hand",
    looks_for=(
        "Three QUIC attempts or more in a row from one socket or process, of which the first follows an Alt-Svc "
        "record, and which the client ended itself without an answer; TCP to the origin had worked before, and was "
        "neither opened nor used meanwhile. Two are enough where the client's log tells that each ended a request. The "
        "cost is the sum of the attempts."
    ),
    advice=f"JDK 26: `-Djdk.httpclient.quic.maxInitialTimeout` below the client's connectTimeout. {ADVICE}",
    sources=(
        "RFC 7838, 2.4: an alternative that fails is not to be used, and the origin is",
        "measured: JDK 26 with connectTimeout; the timeout is neither retried nor does it ban the alternative",
    ),
    check=check,
)
