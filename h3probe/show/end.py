"""Everything below the timeline: findings by origin, one verdict per origin and client, the figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from h3probe.records import OWNER_NOT_KNOWN, ExpectationRecord, FindingRecord, SummaryRecord, VerdictRecord
from h3probe.show.console import SEVERITY_ORDER
from h3probe.text import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from h3probe.records import AnyRecord, Severity
    from h3probe.show.console import Console

SHOWN = 40
"""Origins whose findings are printed, and verdicts, at the most; of more the worst. The others are summed up."""
EXAMPLES = 3
"""Then of origins about which the same rules found something, so many are printed."""
DIFFERENT = 5_000
"""Verdicts that are told apart by what they say, when there are very many."""


def render_end(console: Console, records: Iterable[AnyRecord]) -> None:
    """Print it.

    Args:
        console: Where to.
        records: All that was said, in order; gone through several times, as there may be very many.
    """
    found = _Found()
    expectations: list[ExpectationRecord] = []
    summaries: list[SummaryRecord] = []
    for record in records:
        match record:
            case FindingRecord():
                found.add(record)
            case ExpectationRecord():
                expectations.append(record)
            case SummaryRecord():
                summaries.append(record)
    for verdict in _all_verdicts(records):
        found.weigh(verdict)
    if found.by_origin:
        _findings(console, records, found)
    _verdicts(console, records, found)
    _expectations(console, expectations)
    for summary in summaries:
        console.blank()
        console.summary(summary, found.grades)


@dataclass(slots=True)
class _Found:
    """What there are findings of, and how bad.

    Attributes:
        grades: How many findings there are of each severity.
        by_origin: The worst severity of each origin that has any, in the order of the first one.
        rules: Which rules found it.
        by_rule: The worst severity of what a rule found about an origin.
        answers: Origins, and the rule that a verdict names first, where nothing worse than an info is behind it.
        judged: How many verdicts there are on connections that are nobody else's, as far as is known.
        strangers: How many on others.
        of_strangers: What is behind those.
    """

    grades: Counter[Severity] = field(default_factory=Counter)
    by_origin: dict[str | None, Severity] = field(default_factory=dict)
    rules: dict[str | None, frozenset[str]] = field(default_factory=dict)
    by_rule: dict[tuple[str | None, str], Severity] = field(default_factory=dict)
    answers: set[tuple[str | None, str]] = field(default_factory=set)
    judged: int = 0
    strangers: int = 0
    of_strangers: Counter[str] = field(default_factory=Counter)

    def add(self, finding: FindingRecord) -> None:
        """Take note of one."""
        self.grades[finding.severity] += 1
        origin, key, severity = finding.origin, (finding.origin, finding.rule), finding.severity
        self.by_origin[origin] = _worse(self.by_origin.get(origin), severity)
        self.by_rule[key] = _worse(self.by_rule.get(key), severity)
        self.rules[origin] = self.rules.get(origin, frozenset()) | {finding.rule}

    def origins(self) -> list[str | None]:
        """Those whose findings are printed: all, or of very many some of each kind, the worst first."""
        if len(self.by_origin) <= SHOWN:
            return list(self.by_origin)
        chosen: list[str | None] = []
        like: Counter[frozenset[str]] = Counter()
        for origin in sorted(self.by_origin, key=lambda origin: SEVERITY_ORDER.index(self.by_origin[origin])):
            like[self.rules[origin]] += 1
            if like[self.rules[origin]] <= EXAMPLES or origin is None:
                chosen.append(origin)
        return chosen[:SHOWN]

    def weigh(self, verdict: VerdictRecord) -> None:
        """Take note of whose it is, and of the finding that answers why, though it accuses nobody."""
        if self.behind(verdict) == "info":
            self.answers.add((verdict.origin, verdict.rules[0]))
        if _of_strangers(verdict):
            self.strangers += 1
            self.of_strangers.update(_causes(verdict))
        else:
            self.judged += 1

    def behind(self, verdict: VerdictRecord) -> Severity | None:
        """The worst severity among the findings behind a verdict."""
        worst: Severity | None = None
        for rule in verdict.rules:
            severity = self.by_rule.get((verdict.origin, rule))
            worst = worst if severity is None else _worse(worst, severity)
        return worst


def _worse(one: Severity | None, other: Severity) -> Severity:
    return other if one is None else min(one, other, key=SEVERITY_ORDER.index)


def _findings(console: Console, records: Iterable[AnyRecord], found: _Found) -> None:
    by_origin: dict[str | None, list[FindingRecord]] = {origin: [] for origin in found.origins()}
    left_out: Counter[str] = Counter()
    for record in records:
        if isinstance(record, FindingRecord):
            if record.origin in by_origin:
                by_origin[record.origin].append(record)
            else:
                left_out[record.rule] += 1
    console.heading("Findings")
    for number, (origin, findings) in enumerate(by_origin.items()):
        if number:
            console.blank()
        console.text(origin or "the capture as a whole", style="bold")
        findings.sort(key=lambda finding: SEVERITY_ORDER.index(finding.severity))
        for finding in _without_repetition(findings):
            console.finding(finding, advise=(origin, finding.rule) in found.answers)
    if left_out:
        console.blank()
        more = count(len(found.by_origin) - len(by_origin), "origin")
        console.note(f"and findings about {more} more: {_by_number(left_out)}; --json has them all")


def _without_repetition(findings: Sequence[FindingRecord]) -> Iterator[FindingRecord]:
    """Findings of one origin, each packet and each piece of advice in the first one that has it."""
    packets: set[tuple[int | None, float]] = set()
    advice: set[str] = set()
    for finding in findings:
        fresh = [e for e in finding.evidence if (e.frame, e.at) not in packets]
        packets.update((e.frame, e.at) for e in fresh)
        yield replace(finding, evidence=fresh, advice="" if finding.advice in advice else finding.advice)
        advice.add(finding.advice)


def _verdicts(console: Console, records: Iterable[AnyRecord], found: _Found) -> None:
    # What may be strangers' is told where there is nothing else.
    number = found.judged or found.strangers
    verdicts = (v for v in _all_verdicts(records) if not (found.judged and _of_strangers(v)))
    console.heading("Verdict" if number == 1 else "Verdicts")
    if number > SHOWN:
        _very_many(console, verdicts, found)
    else:
        for verdict in verdicts:
            console.verdict(verdict, found.behind(verdict))
    if found.judged and found.strangers:
        strangers = f"{count(found.strangers, 'verdict')} on connections whose owner is not known"
        console.note(f"and {strangers}: {_by_number(found.of_strangers)}; --json has them all")
    if not number:
        console.text("Nothing to judge: no request that is asked about was seen.")


def _very_many(console: Console, verdicts: Iterable[VerdictRecord], found: _Found) -> None:
    """Verdicts that say the same are one; in a capture of a day those about which nothing was found come last."""
    alike: dict[tuple[str, ...], tuple[VerdictRecord, int]] = {}
    causes: Counter[str] = Counter()
    for verdict in verdicts:
        causes.update(_causes(verdict))
        said = (verdict.sentence, *verdict.rules, str(found.behind(verdict)))
        if said in alike or len(alike) < DIFFERENT:
            first, number = alike.get(said, (verdict, 0))
            alike[said] = first, number + 1
    shown = sorted(alike.values(), key=lambda each: (found.behind(each[0]) is None, -each[1]))[:SHOWN]
    for verdict, number in shown:
        console.verdict(verdict, found.behind(verdict), number - 1)
        for cause in _causes(verdict):
            causes[cause] -= number
    if causes := +causes:
        console.note(f"and more, by cause: {_by_number(causes)}; --json has them all, --origin picks one")


def _all_verdicts(records: Iterable[AnyRecord]) -> Iterator[VerdictRecord]:
    return (record for record in records if isinstance(record, VerdictRecord))


def _causes(verdict: VerdictRecord) -> list[str]:
    """The rules behind a verdict, or that there are none."""
    return verdict.rules or ["no finding"]


def _of_strangers(verdict: VerdictRecord) -> bool:
    """Whether a verdict is on what may have nothing to do with the command that is watched."""
    return verdict.client.endswith(OWNER_NOT_KNOWN)


def _by_number(causes: Counter[str]) -> str:
    """`stale-alt-svc 12, udp-blocked 3`."""
    return ", ".join(f"{cause} {number:,}" for cause, number in causes.most_common())


def _expectations(console: Console, expectations: Sequence[ExpectationRecord]) -> None:
    if not expectations:
        return
    met = sum(expectation.met for expectation in expectations)
    console.heading(f"Expected {expectations[0].expected}: met by {met} of {count(len(expectations), 'origin')}")
    for expectation in sorted(expectations, key=lambda expectation: expectation.met):
        console.expectation(expectation)
