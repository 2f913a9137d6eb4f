"""proxy-died: h3probe's own proxy ended by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.rule import CaptureFacts

SLUG = "proxy-died"
ADVICE = "Requests through it failed for no reason of theirs. Run it again; report it with what the proxy said last."


def check_capture(facts: CaptureFacts) -> Iterator[Finding]:
    """Fire when the proxy's process ended and nobody had asked for it."""
    died = facts.proxy_died
    if died is None:
        return
    words = f": {clean(died.last_words[-1], 200)}" if died.last_words else "; it said nothing"
    summary = f"h3probe's proxy ended by itself, with exit status {died.exit_status}{words}."
    yield Finding(SLUG, "problem", summary, [], ADVICE, [])


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="The proxy ended by itself",
    looks_for="The process of `watch --proxy` or `--reverse` ended before it was told to: the rest was not served.",
    advice=ADVICE,
    sources=("the proxy's exit status and its last words",),
    check_capture=check_capture,
)
