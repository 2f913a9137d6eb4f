"""no-quic-attempt: HTTP/3 was offered, and the client went on over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean, count
from h3probe.track.mark import Mark
from h3probe.wire.altsvc import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story

SLUG = "no-quic-attempt"
ADVICE = (
    "Tell the client to use HTTP/3: JDK 26 needs version(HTTP_3) on the client or the request, curl --http3 or "
    "--alt-svc FILE. Browsers do not use it with a CA that was installed by hand."
)


def offer(story: Story) -> tuple[Mark, str] | None:
    """Return when and how HTTP/3 was offered to the client, None where that was not seen."""
    for seen in story.alt_svc:
        got = parse(seen.passed_on)
        if any(a.protocol == "h3" and a.max_age > 0 for a in got.alternatives):
            return Mark(None, seen.time_ns), f"alt-svc: {clean(', '.join(seen.passed_on), 200)}"
    if story.binding is not None and "h3" in story.binding.binding.alpn:
        return story.binding.mark, f"DNS HTTPS record of {clean(story.binding.binding.name, 200)}: alpn h3"
    return None


def check(story: Story) -> Iterator[Finding]:
    """Fire when an offer was seen, exchanges or connections over TCP began after it, and no Initial was sent."""
    offered = offer(story)
    if offered is None or story.quic or story.other_ports or story.tunnels:
        return
    mark, what = offered
    later = [e for e in story.exchanges if e.time_ns > mark.time_ns and e.version != "HTTP/3"]
    opened = [t for t in story.tcp if t.first.time_ns > mark.time_ns]
    if not later and not opened:
        return
    went_on = count(len(later), "exchange") if later else count(len(opened), "TCP connection")
    summary = f"{story.label} offers HTTP/3 ({what}); after that came {went_on} over TCP and not one QUIC packet."
    evidence = [(mark, what)]
    if opened:
        evidence.append((opened[0].first, "TCP begins after the offer"))
    elif later:
        evidence.append((Mark(None, later[0].time_ns), f"{later[0].version} after the offer"))
    yield Finding(SLUG, "notice", summary, evidence, ADVICE, list(story.tcp[:4]))


RULE = Rule(
    slug=SLUG,
    severity="notice",
    title="HTTP/3 was offered and not tried",
    looks_for=(
        "An Alt-Svc with h3 that reached the client, or a DNS HTTPS record with h3, then further exchanges or new "
        "connections over TCP, and no Initial to the origin or its name. Through a CONNECT proxy the reason is "
        "another one, `proxy-downgrade`."
    ),
    advice=ADVICE,
    sources=("RFC 7838", "RFC 9460", "JEP 517: HTTP/3 is an opt-in"),
    check=check,
)
