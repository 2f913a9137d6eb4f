"""alt-svc-unusable: an alternative is advertised in a way that nobody, or not this client, can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean
from h3probe.track.mark import Mark
from h3probe.wire.altsvc import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h3probe.diagnose.story import Story
    from h3probe.wire.altsvc import AltSvc

SLUG = "alt-svc-unusable"
ADVICE = 'Send one line such as `alt-svc: h3=":443"; ma=86400`.'


def faults(lines: Sequence[str], family: str | None) -> list[str]:
    """What keeps the lines from being used, in words; empty when nothing does, or when h3 is not meant at all."""
    parsed = parse(lines)
    if parsed.clear:
        return ["`clear` takes all alternatives back"]
    h3 = [a for a in parsed.alternatives if a.protocol == "h3"]
    if any(a.max_age > 0 for a in h3):
        return _second_line(lines, parsed) if family == "jdk" and len(lines) > 1 else []
    found = [f"a part is not valid: {clean(part, 120)}" for part in parsed.invalid if "h3" in part]
    drafts = [a.protocol for a in parsed.alternatives if a.protocol.startswith("h3-")]
    if h3:
        found.append("ma=0: it is stale at once")
    elif drafts:
        found.append(f"only drafts of HTTP/3 are named ({clean(', '.join(drafts), 80)})")
    return found


def _second_line(lines: Sequence[str], parsed: AltSvc) -> list[str]:
    first = parse(lines[:1])
    if any(a.protocol == "h3" for a in first.alternatives) or not parsed.alternatives:
        return []
    return ["h3 stands in a second header line, and this client reads the first line only"]


def check(story: Story) -> Iterator[Finding]:
    """Fire for lines that mean HTTP/3 and cannot be used."""
    told: set[tuple[str, ...]] = set()
    family = story.software.family if story.software is not None else None
    for seen in story.alt_svc:
        if seen.lines in told:
            continue
        told.add(seen.lines)
        reasons = faults(seen.lines, family)
        if not reasons:
            continue
        value = clean(" | ".join(seen.lines), 200)
        summary = f"{story.label} sent “alt-svc: {value}”, which cannot be used: {'; '.join(reasons)}."
        evidence = [(Mark(None, seen.time_ns), "the response that held it")]
        yield Finding(SLUG, "notice", summary, evidence, ADVICE, list(story.connections[:1]))


RULE = Rule(
    slug=SLUG,
    severity="notice",
    title="Alt-Svc that cannot be used",
    looks_for=(
        "Alt-Svc lines without a usable h3: not valid by the grammar, drafts of HTTP/3 only, ma=0, `clear`, or h3 in a "
        "second header line where the client is known to read one."
    ),
    advice=ADVICE,
    sources=("RFC 7838, 3", "measured: JDK 26 reads the first header line only, and only exact `h3`"),
    check=check,
)
