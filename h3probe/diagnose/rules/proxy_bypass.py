"""proxy-bypass: a proxy is in use, and QUIC left past it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule, hellos
from h3probe.diagnose.words import cut
from h3probe.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.mark import Mark

SLUG = "proxy-bypass"
ADVICE = (
    "Where everything has to go through the proxy, block UDP to port 443 from clients: they fall back to TCP, which "
    "they send to the proxy."
)


def check(story: Story) -> Iterator[Finding]:
    """Fire for a story of tunnels beside which the same client, or command, sent QUIC to the same name directly."""
    opened = [(carrier, tunnel) for carrier, tunnel in story.tunnels if tunnel.open]
    if not opened or story.origin is None:
        return
    name = story.origin.rpartition(":")[0]
    carrier, tunnel = opened[0]
    past = story.host_quic.to_name(name)
    if story.of_command:  # QUIC of nobody who is known may be anybody's
        past = [q for q in past if q.process is not None]
    # Several programs may share an address: without processes packets tell no more than that it left there.
    by = "" if carrier.process is not None else ", from this program or another at the same address"
    if not past and story.of_command:
        past = story.others_quic.to_name(name)
        by = f" from {clean(str(past[0].process), 64)}" if past else ""
    if not past:
        return
    summary = (
        f"{story.label} is reached through the proxy {carrier.server}, and QUIC to the same name left directly{by}, "
        f"past it, to {past[0].server}."
    )
    evidence: list[tuple[Mark, str]] = [(tunnel.asked, f"CONNECT {tunnel.target}"), *hellos(past[0], limit=2)]
    yield Finding(SLUG, "notice", summary, cut(evidence), ADVICE, [carrier, past[0]])


RULE = Rule(
    slug=SLUG,
    severity="notice",
    title="QUIC went past the proxy",
    looks_for=(
        "A tunnel to a name through a proxy, and QUIC to the same name from the same host that did not go through it; "
        "where processes are known, from the same one, or from another one of the command that is watched."
    ),
    advice=ADVICE,
    sources=("RFC 9298 is the way for QUIC through a proxy", "JEP 517"),
    check=check,
)
