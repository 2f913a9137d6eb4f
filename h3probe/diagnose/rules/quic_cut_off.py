"""quic-cut-off: QUIC worked, and then nothing of the server's came any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.diagnose.words import cut_off
from h3probe.text import seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.mark import Mark
    from h3probe.track.tracker import Connection

SLUG = "quic-cut-off"
ADVICE = (
    "Find out what changed at that moment: the client's network, a NAT or firewall that forgets UDP early (keep-alives "
    "more often than that help), the server. Clients that move their connection or fall back soon lose less."
)


def check(story: Story) -> Iterator[Finding]:
    """Fire for each connection whose client asked on and on and heard nothing."""
    for quic in story.quic:
        since = cut_off(story, quic)
        if since is None or quic.tried is None or quic.last_client is None:
            continue
        anew = _anew(story, quic.tried)
        summary = f"QUIC to {quic.server} had worked, and then nothing came back any more: {since}."
        evidence: list[tuple[Mark, str]] = [
            (quic.tried, "the client sends, and gets no answer"),
            (quic.last_client, f"its latest packet, {quic.tries} tries later"),
        ]
        if quic.last_server is not None:
            evidence.insert(0, (quic.last_server, "the server's latest packet"))
        about: list[Connection] = [quic]
        if anew is not None:
            after = seconds((anew.first.time_ns - quic.tried.time_ns) / NS)
            kind = "QUIC" if anew.transport == "quic" else "TCP"
            summary += f" It began anew over {kind} {after} after the first packet that was not answered."
            evidence.append((anew.first, f"a new {kind} connection to {anew.server}"))
            about.append(anew)
        # What nobody went on with may have been keep-alives alone.
        yield Finding(SLUG, "notice" if anew is None else "problem", summary, evidence, ADVICE, about)


def _anew(story: Story, tried: Mark) -> Connection | None:
    every: list[Connection] = [*story.quic, *story.tcp]
    later = [c for c in every if c.first.time_ns > tried.time_ns]
    return min(later, key=lambda c: c.first.time_ns, default=None)


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="QUIC was cut off",
    looks_for=(
        "An established connection whose client goes on sending, at least three times after a pause of half a second, "
        "and for two seconds, while no datagram of the server's comes and no ICMP error. It is a problem where the "
        "client then begins anew. A capture that lost packets proves nothing here."
    ),
    advice=ADVICE,
    sources=("RFC 9000, 13.2: what is sent is acknowledged", "RFC 9002, 6.2: and else sent again, ever later"),
    check=check,
)
