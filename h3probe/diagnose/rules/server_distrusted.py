"""server-distrusted: the proxy that terminates TLS does not believe the server's certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean, count
from h3probe.track.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story

SLUG = "server-distrusted"
ADVICE = (
    "If the certificate is to be believed, name the authority that signed it with --server-ca FILE (mitmproxy: "
    "ssl_verify_upstream_trusted_ca); else leave the host out of --intercept."
)


def check(story: Story) -> Iterator[Finding]:
    """Fire once for a story with requests that the proxy did not pass on because of the certificate."""
    failed = [exchange for exchange in story.exchanges if exchange.distrusted]
    if not failed:
        return
    why = clean(failed[0].error or "no reason known", 160)
    summary = (
        f"The proxy does not believe the certificate of {story.label} ({why}): it answered "
        f"{count(len(failed), 'request')} with an error of its own."
    )
    evidence = [(Mark(None, exchange.ended_ns), "the proxy's own error") for exchange in failed[:4]]
    yield Finding(SLUG, "problem", summary, evidence, ADVICE, list(story.connections[:1]))


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="The proxy does not believe the server",
    looks_for=(
        "A request on a connection that the proxy intercepted, and for which it got no connection to the server since "
        "it does not believe the server's certificate. Without interception nobody but the client looks at that."
    ),
    advice=ADVICE,
    sources=("RFC 5280, 6: path validation", "the proxy's own report"),
    check=check,
)
