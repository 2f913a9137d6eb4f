"""Everything that is said of one story: its races, its findings, its verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from h3probe.diagnose.race import find_races
from h3probe.diagnose.rules import CATALOGUE
from h3probe.diagnose.rules.stuck_on_quic import outage
from h3probe.diagnose.story import chapters
from h3probe.diagnose.verdict import deserves_verdict, sentence
from h3probe.diagnose.verdict.waits import later_wait
from h3probe.diagnose.words import is_dns

if TYPE_CHECKING:
    from h3probe.diagnose.race import Race
    from h3probe.diagnose.rule import Finding
    from h3probe.diagnose.story import Story


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a story comes to.

    Attributes:
        story: The story.
        races: Its races, in order.
        findings: What the rules found, in the catalogue's order within each chapter.
        sentence: The verdict; None where the story is not about HTTP, or not the client's own.
    """

    story: Story
    races: list[Race]
    findings: list[Finding]
    sentence: str | None

    @property
    def rules(self) -> list[str]:
        """The slugs of the findings, each once."""
        return list(dict.fromkeys(finding.rule for finding in self.findings))

    @property
    def so_far(self) -> Conclusion:
        """What of it can be said while packets may still come."""
        return replace(self, findings=[f for f in self.findings if not CATALOGUE[f.rule].rests_on_absence])


def conclude(story: Story) -> Conclusion:
    """Look at a story with everything there is."""
    parts = chapters(story)
    for part in parts:
        part.races = find_races(part)
    findings: list[Finding] = []
    if not story.relayed and not (story.quic and all(is_dns(q) for q in story.quic)):
        for part in parts:
            findings += [f for rule in CATALOGUE.values() if rule.check is not None for f in rule.check(part)]
        findings += [f for rule in CATALOGUE.values() if rule.check_whole is not None for f in rule.check_whole(story)]
    verdict = None
    if deserves_verdict(story):
        verdict = sentence(parts[0])
        later = max((wait for wait in map(later_wait, parts[1:]) if wait), default=None, key=lambda wait: wait[0])
        if later is not None:
            verdict += later[1]
        verdict += next((said for said in map(outage, parts) if said), "")
    return Conclusion(story, [race for part in parts for race in part.races], findings, verdict)
