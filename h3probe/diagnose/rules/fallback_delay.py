"""fallback-delay: seconds spent waiting for QUIC before TCP began."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.rule import NOTICEABLE_S, TAKEOVER_NS, Finding, Rule, hellos
from h3probe.diagnose.words import close_text, cut, timer_of, timer_text, waited_until_close
from h3probe.text import seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection

SLUG = "fallback-delay"
ADVICE = (
    "Make QUIC answer, or stop advertising it. A client that races QUIC and TCP does not pay this; one that tries "
    "QUIC alone first pays it for every new connection."
)

# Below this nobody waited.
SMALL_S = 0.1
# What a server still sends of an earlier request when the next one's first Initial leaves.
SETTLING_NS = NS // 5

STATES = {
    "unanswered": "was not answered",
    "refused": "was refused",
    "stalled": "was answered and stalled",
    "established": "led to a connection only later",
}


def fallback_of(story: Story, attempt: QuicConnection) -> TcpConnection | None:
    """Return the TCP attempt that a client fell back to after a QUIC attempt, None where there is none.

    It is the first SYN to the origin after the attempt's first Initial, outside of a race, while the attempt was
    still pending or just over, and not after QUIC had become ready.
    """
    if not _is_whole(story, attempt):
        return None
    tcp = story.first_syn_after(attempt)
    if tcp is None or tcp.syn is None or any(race.tcp is tcp for race in story.races):
        return None
    syn_ns = tcp.syn.time_ns
    if syn_ns - attempt.first.time_ns <= story.head_start_ns or not _goes_on(attempt, syn_ns):
        return None
    if attempt.ready is not None and attempt.ready.time_ns <= syn_ns:
        return None
    if attempt.established and attempt.ready is None:
        return None
    end = attempt.ended
    if end is not None and end.time_ns + TAKEOVER_NS < syn_ns:
        return None
    if end is None and attempt.last.time_ns < syn_ns and _long_silent(attempt, syn_ns):
        return None
    in_use = [t for t in story.tcp if t is not tcp and t.responded_between(attempt.first.time_ns + SETTLING_NS, syn_ns)]
    if in_use:
        return None  # Requests went on over TCP meanwhile: nobody waited.
    newer = [q for q in story.quic if attempt.first.time_ns < q.first.time_ns <= syn_ns and _same_place(q, attempt)]
    return None if newer else tcp


def _is_whole(story: Story, attempt: QuicConnection) -> bool:
    """Whether an attempt was seen from its start, outside of a race, and can be read."""
    if attempt.mid_stream or story.crowded or any(race.quic is attempt for race in story.races):
        return False
    if not attempt.decodable:
        return attempt.version_negotiation is not None
    # A first packet that is a close is the end of an attempt, not the start of one.
    return bool(attempt.hello_datagrams) or attempt.client_close is None


def _goes_on(attempt: QuicConnection, syn_ns: int) -> bool:
    """Whether the client is one that still goes on to TCP so late."""
    client = recognise(attempt)
    if client is None or client.fallback_within is None:
        return True
    return syn_ns - attempt.first.time_ns <= client.fallback_within * NS


def _long_silent(attempt: QuicConnection, syn_ns: int) -> bool:
    """Whether an attempt without a close had gone quiet for longer than its own doubling timer explains."""
    marks = attempt.hello_datagrams
    gap = max((b.time_ns - a.time_ns for a, b in pairwise(marks)), default=NS)
    return syn_ns - attempt.last.time_ns > max(3 * gap, 3 * NS)


def _same_place(one: QuicConnection, other: QuicConnection) -> bool:
    return one.server == other.server


def check(story: Story) -> Iterator[Finding]:
    """Fire once for each TCP attempt that was a fallback; the longest wait for it counts."""
    waits: dict[str, tuple[QuicConnection, TcpConnection]] = {}
    for attempt in story.quic:
        tcp = fallback_of(story, attempt)
        if tcp is not None and (tcp.id not in waits or attempt.first.time_ns < waits[tcp.id][0].first.time_ns):
            waits[tcp.id] = (attempt, tcp)
    for attempt, tcp in waits.values():
        yield _finding(story, attempt, tcp)


def _finding(story: Story, attempt: QuicConnection, tcp: TcpConnection) -> Finding:
    syn = tcp.syn or tcp.first
    cost = (syn.time_ns - attempt.first.time_ns) / NS
    outcome = attempt.outcome(story.now_ns)
    state = STATES.get(outcome or "", "did not lead to a connection")
    summary = f"{seconds(cost)} passed between the first Initial, which {state}, and the SYN of the fallback to TCP."
    waited = waited_until_close(attempt)
    timer = timer_of(attempt, waited if waited is not None else cost) or timer_of(attempt, cost)
    advice = ADVICE
    if timer is not None:
        summary += f" {timer_text(*timer)}."
        advice = f"{timer[1].changed_by} changes the wait. {ADVICE}" if timer[1].changed_by else ADVICE
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
    evidence.append((syn, f"SYN to {tcp.server}, {seconds(cost)} after the first Initial"))
    severity: Severity = "problem" if cost > NOTICEABLE_S else "notice" if cost > SMALL_S else "info"
    if attempt.answered and timer is not None and timer[1].changed_by:
        advice = f"The server did answer: give it more time. {timer[1].changed_by} changes the wait."
    return Finding(SLUG, severity, summary, cut(evidence), advice, [attempt, tcp], cost)


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="TCP began only after waiting for QUIC",
    looks_for=(
        "The first SYN to the origin after a QUIC attempt's first Initial, later than the client's head start for a "
        "race, while QUIC was not ready. The cost is the SYN's time minus the first Initial's."
    ),
    advice=ADVICE,
    sources=("RFC 9114, 3.1", "RFC 8305", "measured: JDK 26 waits 2750 ms, or 30 s after an Alt-Svc record"),
    check=check,
)
