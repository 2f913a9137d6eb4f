"""quic-version-mismatch: the server answered with other versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule, hellos, severity_of_failure
from h3probe.diagnose.words import cut
from h3probe.errors import DecodeError
from h3probe.wire.quic.transport_parameters import parse
from h3probe.wire.quic.versions import is_reserved, version_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.quic import QuicConnection

SLUG = "quic-version-mismatch"
ADVICE = "Update the side that lacks QUIC version 1, or enable a version that both have."
ADVICE_NEGOTIATED = "Nothing need be done; a client that begins with the server's version saves the round trip."


def check(story: Story) -> Iterator[Finding]:
    """Fire for each attempt that Version Negotiation ended."""
    for attempt in story.quic:
        if attempt.version_negotiation is not None and attempt.outcome(story.now_ns) == "version-negotiation":
            yield _finding(story, attempt)


def _spoken(attempt: QuicConnection) -> list[str]:
    """The versions that the client speaks, as far as it says so."""
    versions = [attempt.version]
    if attempt.hello is not None and attempt.hello.transport_parameters is not None:
        try:
            information = parse(attempt.hello.transport_parameters).version_information
        except DecodeError:
            information = None
        if information is not None:
            versions += [v for v in information.available if v not in versions]
    return [version_name(v) for v in versions if not is_reserved(v)] or [version_name(attempt.version)]


def _finding(story: Story, attempt: QuicConnection) -> Finding:
    mark, offered = attempt.version_negotiation  # type: ignore[misc]
    server = ", ".join(version_name(v) for v in offered if not is_reserved(v)) or "none that is known"
    client = ", ".join(_spoken(attempt))
    later = [q for q in story.quic if q is not attempt and q.established and q.first.time_ns >= mark.time_ns]
    summary = (
        f"{attempt.server} does not speak {version_name(attempt.version)}: it offers {server}, the client {client}."
    )
    severity, advice = severity_of_failure(story, attempt), ADVICE
    if later:
        summary = (
            f"{attempt.server} does not speak {version_name(attempt.version)}, it offers {server}: the client went on "
            f"with {later[0].version_name}, at the cost of one round trip."
        )
        severity, advice = "info", ADVICE_NEGOTIATED
    if is_reserved(attempt.version):
        summary = (
            f"The client asked {attempt.server} for its versions, with one that nobody speaks "
            f"({version_name(attempt.version)}); the server speaks {server}."
        )
        severity, advice = "info", ADVICE_NEGOTIATED
    evidence = [*hellos(attempt, limit=1), (mark, f"Version Negotiation: {server}")]
    return Finding(SLUG, severity, summary, cut(evidence), advice, [attempt])


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="A QUIC version that the server does not speak",
    looks_for=(
        "A Version Negotiation packet that echoes the client's connection IDs, comes before any other answer and "
        "does not list the version that it answers; others are forged or stray, and ignored, as clients do."
    ),
    advice=ADVICE,
    sources=("RFC 9000, 6 and 17.2.1", "RFC 9368"),
    check=check,
)
