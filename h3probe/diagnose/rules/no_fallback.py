"""no-fallback: QUIC failed and TCP was never tried."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from h3probe.diagnose.rule import ONE_SIDED, Finding, Rule, lasted
from h3probe.diagnose.rules import repeated_timeout, stale_alt_svc, stuck_on_quic
from h3probe.diagnose.words import close_text, cut, is_h3
from h3probe.text import clean, seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection

SLUG = "no-fallback"
ADVICE_OTHER = "What speaks {} here tried nothing else: look whether it can use TCP, and make QUIC answer."
ADVICE = (
    "The request was allowed HTTP/3 only (JDK: HTTP_3_URI_ONLY; curl: --http3-only), or this client has no "
    "fallback: allow TCP as well unless the server is known to answer QUIC."
)


def check(story: Story) -> Iterator[Finding]:
    """Fire when the QUIC attempts at the end all failed, TCP was not tried any more, and the client had the time to."""
    if story.tunnels or story.proxied or story.mixed or story.crowded or story.across:
        return
    tail = list(takewhile(story.failed, reversed(story.quic)))[::-1]
    if not tail:
        return
    began_ns = tail[0].first.time_ns
    if any(t.first.time_ns >= began_ns for t in story.tcp) or story.tcp_open_at(began_ns) is not None:
        return
    # Where an Alt-Svc record led to another port, the origin's own is what the client falls back to.
    if any(t.last.time_ns >= began_ns for t in story.tcp_elsewhere):
        return
    last = max((q.last_client or q.last).time_ns for q in tail)
    alone = replace(story, quic=tail, tcp=[])
    if alone.had_time and not any(_lived_on(q, tail[0]) for q in story.quic if q not in tail):
        yield _finding(alone, (last - began_ns) / NS, _cost(story, tail))


def _lived_on(earlier: QuicConnection, attempt: QuicConnection) -> bool:
    """Whether an earlier connection was still there to carry the request."""
    return earlier.established and (earlier.last_client or earlier.last).time_ns >= attempt.first.time_ns


def _cost(story: Story, attempts: list[QuicConnection]) -> float | None:
    """Seconds during which an attempt was pending; None where another finding has them, or where they are none."""
    ids = {attempt.id for attempt in attempts}
    elsewhere = [c.id for finding in repeated_timeout.check(story) for c in finding.about]
    elsewhere += [attempt.id for run in stuck_on_quic.runs(story) for attempt in run]
    elsewhere += [c.id for finding in stale_alt_svc.check(story) if finding.cost is not None for c in finding.about]
    if not ids.isdisjoint(elsewhere):
        return None
    total, until_ns = 0, 0
    for attempt in attempts:
        end_ns = (attempt.last_client or attempt.last).time_ns
        total += max(end_ns - max(attempt.first.time_ns, until_ns), 0)
        until_ns = max(until_ns, end_ns)
    return total / NS or None


def _finding(story: Story, seen: float, cost: float | None) -> Finding:
    attempts: list[QuicConnection] = story.quic
    places = sorted({str(q.server) for q in attempts})
    count = "a QUIC attempt" if len(attempts) == 1 else f"{len(attempts)} QUIC attempts"
    summary = f"After {count} at {', '.join(places)} failed, no TCP connection to it is seen, for {seconds(seen)}."
    evidence: list[tuple[Mark, str]] = []
    for attempt in attempts:
        evidence.append(
            (attempt.first, f"QUIC attempt begins, {attempt.outcome(story.now_ns)}, {seconds(lasted(attempt))}")
        )
        if attempt.client_close is not None:
            evidence.append((attempt.client_close[0], f"the client ends it: {close_text(attempt.client_close[1])}"))
    weak = story.one_sided and all(a.client_close is None for a in attempts)
    if weak:
        summary += f" {ONE_SIDED}"
    elif story.tcp_unseen:
        summary += " The capture holds no TCP at all: where a filter left it out, this says nothing."
    unsure = weak or story.tcp_unseen
    hello = next((a.hello for a in attempts if a.hello is not None), None)
    other = hello is not None and bool(hello.alpn) and not any(is_h3(a) for a in attempts)
    advice = ADVICE_OTHER.format(clean(", ".join(hello.alpn), 40)) if hello is not None and other else ADVICE
    severity: Severity = "notice" if unsure else "problem"
    return Finding(SLUG, severity, summary, cut(evidence), advice, list(attempts), None if unsure else cost)


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="No fallback to TCP",
    looks_for=(
        "Failed QUIC attempts at an origin, and no SYN to it: for as long as this client is known to take before it "
        "goes on to TCP, or 5 s where it is not known. A TCP connection that was open already is a fallback, and so is "
        "one to the name's other port, from which an Alt-Svc record may have led here. The cost is the time in which "
        "an attempt was pending, unless `repeated-timeout`, `stuck-on-quic` or `stale-alt-svc` has it, or TCP may have "
        "been left out of the capture; then it is a notice."
    ),
    advice=ADVICE,
    sources=("RFC 9114, 3.1", "measured: JDK 26 with HTTP_3_URI_ONLY, curl with --http3-only"),
    check=check,
)
