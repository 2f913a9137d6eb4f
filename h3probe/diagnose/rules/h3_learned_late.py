"""h3-learned-late: the first request went over TCP because HTTP/3 was learned only from its response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.diagnose.rules.no_quic_attempt import advertised
from h3probe.text import clean, seconds
from h3probe.track.clock import NS
from h3probe.track.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story

SLUG = "h3-learned-late"
ADVICE = (
    "That is how Alt-Svc works. For HTTP/3 from the first request: a DNS HTTPS record for clients that ask for one, "
    "JDK 26 with version(HTTP_3) on the request or HTTP_3_URI_ONLY, curl --http3."
)


def check(story: Story) -> Iterator[Finding]:
    """Fire when the first exchange was over TCP, its response offered h3, and QUIC began only after that."""
    offered = advertised(story)
    first = next((e for e in story.exchanges if e.version is not None), None)
    if offered is None or first is None or first.version is None or story.tunnels:
        return
    mark, what = offered
    quic = [q for q in story.quic if q.established]
    begun = [q for q in story.quic if q.first.time_ns < mark.time_ns]
    if first.version == "HTTP/3" or begun or not quic:
        return
    after = seconds((quic[0].first.time_ns - mark.time_ns) / NS)
    used = clean(first.version, 16)
    summary = (
        f"The first request to {story.label} used {used}: that there is HTTP/3 was learned from its response ({what}), "
        f"and QUIC began {after} after that."
    )
    evidence = [
        (Mark(None, first.time_ns), f"first request, {used}"),
        (mark, what),
        (quic[0].first, "QUIC begins"),
    ]
    yield Finding(SLUG, "info", summary, evidence, ADVICE, [quic[0]])


RULE = Rule(
    slug=SLUG,
    severity="info",
    title="HTTP/3 was learned from the first response",
    looks_for=(
        "A first exchange over TCP, an Alt-Svc with h3 in its response, and the first Initial only after that. A race "
        "that began before the offer is not one."
    ),
    advice=ADVICE,
    sources=("RFC 7838, 2", "measured: JDK 26 with ALT_SVC"),
    check=check,
)
