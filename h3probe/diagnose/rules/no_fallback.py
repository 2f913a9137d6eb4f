"""no-fallback: QUIC failed and TCP was never tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.clients import TIMER_EARLY, recognise
from h3probe.diagnose.rule import ONE_SIDED, Finding, Rule, lasted
from h3probe.diagnose.words import close_text, cut
from h3probe.text import seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection

SLUG = "no-fallback"
ADVICE = (
    "The request was allowed HTTP/3 only (JDK: HTTP_3_URI_ONLY; curl: --http3-only), or this client has no "
    "fallback: allow TCP as well unless the server is known to answer QUIC."
)
# A client that nobody has measured may still be about to try TCP before this.
UNKNOWN_WITHIN_S = 5.0


def check(story: Story) -> Iterator[Finding]:
    """Fire when all QUIC attempts failed, TCP was not tried, and the client had the time to."""
    if not story.quic or story.tcp or story.tunnels or story.proxied:
        return
    if not all(story.failed(q) for q in story.quic):
        return
    # The client's own packets are the measure: time that passes after it is gone proves nothing.
    last = max((q.last_client or q.last).time_ns for q in story.quic)
    seen = (last - story.quic[0].first.time_ns) / NS
    needed = _needed(story)
    if needed is None or seen < needed:
        return
    yield _finding(story, seen)


def _needed(story: Story) -> float | None:
    """Seconds after which the client would have gone on to TCP if it were going to."""
    client = next((c for c in map(recognise, story.quic) if c is not None), None)
    if client is None:
        return UNKNOWN_WITHIN_S
    if client.timers:
        # A second attempt at the same place, after a whole first timer, is the client's own answer: no TCP.
        places = [q.server for q in story.quic]
        if len(set(places)) < len(places):
            return 0.0
        return max(timer.seconds for timer in client.timers if timer.leads_to_tcp) * TIMER_EARLY
    return client.fallback_within if client.fallback_within is not None else UNKNOWN_WITHIN_S


def _finding(story: Story, seen: float) -> Finding:
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
    return Finding(SLUG, "notice" if weak else "problem", summary, cut(evidence), ADVICE, list(attempts))


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="No fallback to TCP",
    looks_for=(
        "Failed QUIC attempts at an origin, and no SYN to it: for as long as this client is known to take before it "
        "goes on to TCP, or 5 s where it is not known. A TCP connection that was open already is a fallback."
    ),
    advice=ADVICE,
    sources=("RFC 9114, 3.1", "measured: JDK 26 with HTTP_3_URI_ONLY, curl with --http3-only"),
    check=check,
)
