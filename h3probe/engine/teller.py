"""Says what stories come to: the records of their races, findings and verdicts, each told once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING

from h3probe.diagnose.verdict import client_text
from h3probe.diagnose.words import past_proxy
from h3probe.records import OWNER_NOT_KNOWN, VerdictRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.diagnose.conclusion import Conclusion
    from h3probe.diagnose.rule import Finding
    from h3probe.diagnose.story import Story
    from h3probe.record_builder import RecordBuilder
    from h3probe.records import AnyRecord
    from h3probe.track.clock import Clock

# Bytes: enough that no two of anything are ever taken for one.
_DIGEST = 16


@dataclass(slots=True)
class Teller:
    """Makes records of conclusions.

    Attributes:
        builder: Makes the others.
        clock: The capture's time.
        conditions: What was changed on purpose on the way, in words; verdicts and advice name it.
        problem: Whether any finding was a problem.
    """

    builder: RecordBuilder
    clock: Clock
    conditions: Sequence[str] = ()
    problem: bool = False
    _finding_ids: count[int] = field(default_factory=lambda: count(1))
    _told: set[bytes] = field(default_factory=set)

    def conclusions(self, conclusion: Conclusion) -> list[AnyRecord]:
        """The races and findings of a story that were not told yet."""
        story = conclusion.story
        races = [race for race in conclusion.races if self._first_time(("race", race.quic.id, race.tcp.id))]
        findings = [finding for finding in conclusion.findings if self._first_time(finding.key)]
        return [
            *(self.builder.race(story, race) for race in races),
            *(self.finding(finding, story) for finding in findings),
        ]

    def _first_time(self, key: tuple[str, ...]) -> bool:
        # There may be hundreds of thousands; the words themselves would take ten times as much room.
        known = blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
        if known in self._told:
            return False
        self._told.add(known)
        return True

    def finding(self, finding: Finding, story: Story | None) -> AnyRecord:
        """A finding, of a story or of the capture as a whole."""
        if story is not None and story.unowned:
            # Whether the command had anything to do with it is not known: it is no problem of the command's.
            finding = replace(finding, severity="info", summary=f"{OWNER_NOT_KNOWN.capitalize()}: {finding.summary}")
        if self.conditions:
            asked = f"{'; '.join(self.conditions)}, as asked for here."
            finding = replace(finding, advice=f"{asked[:1].upper()}{asked[1:]} Without that: {finding.advice}")
        self.problem = self.problem or finding.severity == "problem"
        return self.builder.finding(finding, story, next(self._finding_ids))

    def verdict(self, conclusion: Conclusion, sentence: str) -> VerdictRecord:
        """A story's verdict, without its number."""
        story = conclusion.story
        client = client_text(story)
        return self._verdict(
            story.label,
            f"{client}, {OWNER_NOT_KNOWN}" if story.unowned else client,
            f"{sentence}{self.in_force()}",
            None if past_proxy(story) else story.versions,
            conclusion.rules,
        )

    def silence(self, origin: str | None, client: str, sentence: str) -> VerdictRecord:
        """A verdict on an origin that nothing was sent to, or on a client that sent nothing; without its number."""
        return self._verdict(origin, client, sentence, None, [])

    def _verdict(
        self, origin: str | None, client: str, sentence: str, versions: dict[str, int] | None, rules: list[str]
    ) -> VerdictRecord:
        at, time = self.clock.at(self.clock.now_ns), self.clock.time()
        return VerdictRecord("", at, time, origin, client, versions, sentence, rules)

    def in_force(self) -> str:
        """What was changed on purpose, as the end of a verdict."""
        return f" In force: {'; '.join(self.conditions)}." if self.conditions else ""
