"""ca-rejected: the client does not take the certificate that it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean
from h3probe.track.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story

SLUG = "ca-rejected"
ADVICE = (
    "Where TLS is intercepted the client must trust the proxy's CA; `watch ... -- COMMAND` hands over h3probe's. "
    "Programs with a trust store of their own, or an option for one, need it there. Browsers never take such a CA over "
    "QUIC."
)


def check(story: Story) -> Iterator[Finding]:
    """Fire once for each host and transport that was refused."""
    for host in dict.fromkeys(rejected.host for rejected in story.rejected):
        events = [rejected for rejected in story.rejected if rejected.host == host]
        transports = {event.transport for event in events}
        over = "TCP and QUIC" if len(transports) > 1 else {"tcp": "TCP", "udp": "QUIC"}[transports.pop()]
        first = events[0]
        why = f"alert {clean(first.alert, 60)}" if first.alert else "it just closed the connection"
        summary = f"The client does not take the certificate shown for {clean(host, 200)}, over {over}: {why}."
        if all(event.let_alone for event in events):
            summary += " From its next connection on this host is passed through untouched."
        evidence = [(Mark(None, event.time_ns), "the client's refusal") for event in events[:4]]
        yield Finding(SLUG, "problem", summary, evidence, ADVICE, list(story.connections[:1]))


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="The client does not trust the certificate",
    looks_for=(
        "A TLS alert about the certificate, from the client, on a connection that the proxy intercepted; over QUIC "
        "only, over TCP only, or both."
    ),
    advice=ADVICE,
    sources=("RFC 8446, 6.2", "Chromium and Firefox refuse locally installed CAs over QUIC"),
    check=check,
)
