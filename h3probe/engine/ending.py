"""What is said once all is settled: of each story, of the capture as a whole, and of what did not come."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from h3probe.diagnose.conclusion import conclude
from h3probe.diagnose.expectation import Weighing, judge
from h3probe.diagnose.missing import Missing
from h3probe.diagnose.rules import CATALOGUE
from h3probe.engine.silence import Seen
from h3probe.filters import Filters
from h3probe.packing import Shelf
from h3probe.records import ExpectationRecord, StoryOutline

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Sequence

    from h3probe.diagnose.expectation import Account
    from h3probe.diagnose.rule import CaptureFacts
    from h3probe.diagnose.story import Story
    from h3probe.engine.silence import Silence
    from h3probe.engine.teller import Teller
    from h3probe.records import AnyRecord, HttpVersion, VerdictRecord
    from h3probe.track.tracker import Connection


@dataclass(slots=True)
class Ending:
    """Takes stories, some at a time, and keeps of each only what it comes to.

    Attributes:
        teller: Makes the records.
        filters: What was asked about.
        expects: The version that every exchange is expected to be of; None for no expectation.
        outlines: Where the outlines of the stories go; None for nowhere.
        missing: What connections show to be missing from the capture.
        seen: What there was, as far as silence is to be told from it.
    """

    teller: Teller
    filters: Filters
    expects: HttpVersion | None
    outlines: list[StoryOutline] | None = None
    missing: Missing = field(default_factory=Missing)
    seen: Seen = field(default_factory=Seen)
    _records: Shelf[AnyRecord] = field(default_factory=Shelf)
    _verdicts: Shelf[VerdictRecord | None] = field(default_factory=Shelf)
    # When the story of each of these began.
    _records_ns: array[int] = field(default_factory=lambda: array("q"))
    _verdicts_ns: array[int] = field(default_factory=lambda: array("q"))
    _weighing: Weighing = field(default_factory=Weighing)

    def add(self, connections: Iterable[Connection], stories: Sequence[Story], elsewhere: Sequence[Story]) -> None:
        """Take connections, and the stories that they make, of origins that were asked for and of others."""
        self.seen.add(connections, stories, self.filters)
        self.seen.add_elsewhere(elsewhere, self.filters.origins or ())
        asked = [c for c in connections if self.filters.connection(c)]
        self.missing.add(asked)
        if undecided := [c for c in asked if self.filters.origin(c) is None]:
            told = {c.id for story in stories for c in story.connections}
            self._put(0, (r for c in undecided if c.id in told for r in self.teller.builder.connection(c)))
        for story in stories:
            self._conclude(story)

    def _conclude(self, story: Story) -> None:
        conclusion = conclude(story)
        if self.outlines is not None:
            ids = dict.fromkeys(c.id for c in story.connections)
            self.outlines.append(StoryOutline(story.label, story.relayed, tuple(ids)))
        self._put(story.begins_ns, self.teller.conclusions(conclusion))
        sentence = conclusion.sentence
        self._verdicts.append(None if sentence is None else self.teller.verdict(conclusion, sentence))
        self._verdicts_ns.append(story.begins_ns)
        if self.expects is not None:
            self._weighing.add(conclusion)

    def _put(self, begun_ns: int, records: Iterable[AnyRecord]) -> None:
        for record in records:
            self._records.append(record)
            self._records_ns.append(begun_ns)

    def records(self) -> Iterator[AnyRecord]:
        """Connections that were undecided, then races and findings in the order of their stories."""
        return _in_order(self._records, self._records_ns)

    def of_capture(self, facts: CaptureFacts) -> list[AnyRecord]:
        """What is found of the capture as a whole."""
        rules = (rule.check_capture for rule in CATALOGUE.values())
        return [self.teller.finding(f, None) for check in rules if check is not None for f in check(facts)]

    def verdicts(self, silence: Silence) -> Iterator[VerdictRecord]:
        """The verdicts in the order of their stories, then those on what did not come."""
        numbered = chain(_in_order(self._verdicts, self._verdicts_ns), silence.verdicts(self.seen))
        return (replace(v, id=f"verdict-{number}") for number, v in enumerate(numbered, 1) if v is not None)

    def expectations(
        self, expected: HttpVersion, accounts: Counter[Account], *, complete: bool
    ) -> list[ExpectationRecord]:
        """Whether every exchange was of one version, an origin each.

        Args:
            expected: The version.
            accounts: The exchanges that a vantage point saw.
            complete: Whether the capture is not known to miss anything.
        """
        clock = self.teller.clock
        named = [account.origin or "" for account in accounts]
        absent = [
            origin
            for origin in sorted(set(self.filters.origins or ()) - self.seen.told)
            if not any(map(Filters(frozenset({origin})).named, named))
        ]
        return [
            ExpectationRecord(
                id=f"expectation-{number}",
                at=clock.at(clock.now_ns),
                time=clock.time(),
                origin=judged.origin,
                expected=expected,
                met=judged.met,
                versions=judged.versions,
                reason=judged.reason,
            )
            for number, judged in enumerate(judge(self._weighing, accounts, expected, absent, complete=complete), 1)
        ]


def _in_order[Each](shelf: Shelf[Each], by: array[int]) -> Iterator[Each]:
    """What is on a shelf, in the order of a number of each."""
    return map(shelf.__getitem__, sorted(range(len(shelf)), key=by.__getitem__))
