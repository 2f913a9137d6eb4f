"""alt-svc-unusable: an alternative is advertised in a way that nobody, or not this client, can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.alternative import SILENT
from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean, count
from h3probe.track.mark import Mark
from h3probe.wire.altsvc import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h3probe.diagnose.story import Story
    from h3probe.events import AltSvcSeen
    from h3probe.wire.altsvc import AltSvc

SLUG = "alt-svc-unusable"
# A server may send other lines each time, as with an ma that counts down: of how many it is asked where they lead.
FOLLOWED = 16
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


def dead_ends(story: Story, seen: AltSvcSeen) -> list[str]:
    """Where the lines lead, at other ports than the origin's own; empty when QUIC may work at one of the places."""
    name, _, own = (story.origin or "").rpartition(":")
    h3 = [a for a in parse(seen.lines).alternatives if a.protocol == "h3" and a.max_age > 0]
    found: list[str] = []
    for place in dict.fromkeys((a.host, a.port) for a in h3):
        host, port = place
        tried = [q for q in story.host_quic.to_name(name) if q.server.port == port]
        tried = [q for q in tried if q.first.time_ns > seen.time_ns]
        if str(port) == own or not tried or not all(q.outcome(story.now_ns) in SILENT for q in tried):
            return []  # The origin's own port is another rule's.
        what = "refuses QUIC" if all(q.refusals for q in tried) else "does not answer QUIC"
        at = f"{clean(host, 200)}:{port}" if host else f"port {port}"
        found.append(f"it leads to {at}, which {what} ({count(len(tried), 'attempt')})")
    return found


def _second_line(lines: Sequence[str], parsed: AltSvc) -> list[str]:
    first = parse(lines[:1])
    if any(a.protocol == "h3" for a in first.alternatives) or not parsed.alternatives:
        return []
    return ["h3 stands in a second header line, and the JDK's HttpClient reads the first line only"]


def check(story: Story) -> Iterator[Finding]:
    """Fire for lines that mean HTTP/3 and cannot be used."""
    told: set[tuple[str, ...]] = set()
    family = story.software.family if story.software is not None else None
    for seen in story.alt_svc:
        if seen.lines in told:
            continue
        told.add(seen.lines)
        reasons = faults(seen.lines, family)
        if not reasons and len(told) <= FOLLOWED:
            reasons = dead_ends(story, seen)
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
        "second header line where the client is known to read one. Or only such as lead to another port, or to another "
        "host there, where nothing answered the QUIC attempts of the client's host that name the origin."
    ),
    advice=ADVICE,
    sources=("RFC 7838, 3", "measured: JDK 26 reads the first header line only, and only exact `h3`"),
    check=check,
)
