"""proxy-strips-alt-svc: the server's Alt-Svc did not reach the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean
from h3probe.track.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story

SLUG = "proxy-strips-alt-svc"
ADVICE = "Let the proxy pass Alt-Svc on, or have it name an address of its own under which it speaks HTTP/3."


def check(story: Story) -> Iterator[Finding]:
    """Fire when lines that the server sent are missing from what the client got."""
    got = any(seen.passed_on for seen in story.alt_svc)
    lost = [seen for seen in story.alt_svc if seen.lines and not seen.passed_on and not (seen.directly and got)]
    if not lost:
        return
    # What passed through here says more than a question of h3probe's own.
    first = min(lost, key=lambda seen: seen.directly)
    value = f"“alt-svc: {clean(', '.join(first.lines), 200)}”"
    if first.directly:
        summary = (
            f"Asked directly for the same path (HEAD), {story.label} sends {value}; its answer through the proxy had "
            "none. The proxy took it out, unless the server answers others differently."
        )
        evidence = [(Mark(None, first.time_ns), "the server's Alt-Svc, to h3probe's own request past the proxy")]
    else:
        summary = f"{story.label} sent {value}, and the client did not get it: the proxy took it out."
        evidence = [(Mark(None, first.time_ns), "the server's Alt-Svc, as the proxy received it")]
    yield Finding(SLUG, "notice", summary, evidence, ADVICE, list(story.connections[:1]))


RULE = Rule(
    slug=SLUG,
    severity="notice",
    title="A proxy takes Alt-Svc away",
    looks_for=(
        "Alt-Svc lines that arrived at a proxy which h3probe is or sits in, and did not go on to the client; with "
        "--look-directly, lines that a server sends when it is asked past the upstream proxy, and not through it."
    ),
    advice=ADVICE,
    sources=("RFC 7838, 2.3: an alternative must be authoritative for the origin",),
    check=check,
)
