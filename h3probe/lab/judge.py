"""What came of a scenario, and what of it was expected otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.records import ExchangeRecord, FindingRecord, QuicRecord, TcpRecord, VerdictRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h3probe.lab.outcome import Outcome
    from h3probe.lab.scenario import Expectation, Scenario
    from h3probe.lab.sockets import Counted
    from h3probe.records import AnyRecord


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a scenario.

    Attributes:
        scenario: Which.
        outcomes: What the client itself says.
        records: What h3probe says.
        misses: What was expected otherwise, a sentence each.
        counted: The most sockets and descriptors that the client had at once; None where nobody counted.
        judged: Whether anything was expected.
        asked_ns: When the client made its first request, since the epoch, by its own account; None where unknown.
        said: What the client and h3probe wrote for people, line by line; empty where nobody kept it.
    """

    scenario: Scenario
    outcomes: list[Outcome]
    records: list[AnyRecord]
    misses: list[str] = field(default_factory=list)
    counted: Counted | None = None
    judged: bool = True
    asked_ns: int | None = None
    said: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The verdict's sentence, or that there is none."""
        return next((record.sentence for record in self.records if isinstance(record, VerdictRecord)), "no verdict")

    @property
    def findings(self) -> list[FindingRecord]:
        """What was found, in order."""
        return [record for record in self.records if isinstance(record, FindingRecord)]


@dataclass(frozen=True, slots=True)
class NotPlayed:
    """A scenario that was not played.

    Attributes:
        scenario: Which.
        reason: Why not.
        failed: Whether it was tried.
    """

    scenario: Scenario
    reason: str
    failed: bool = False


def judge(
    expect: Expectation,
    outcomes: Sequence[Outcome],
    records: Sequence[AnyRecord],
    counted: Counted | None = None,
    *,
    with_log: bool = False,
) -> list[str]:
    """What came otherwise than expected, a sentence each.

    Args:
        expect: What should have come.
        outcomes: What the client says.
        records: What h3probe says.
        counted: What the client had open at once.
        with_log: Whether h3probe read the client's log.
    """
    misses = [*_versions(expect, outcomes), *_seconds(expect, outcomes), *_exchanges(outcomes, records)]
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    misses += [f"no error says {words!r}" for words in expect.errors if not any(words in error for error in errors)]
    for name, kind, wanted in (("QUIC", QuicRecord, expect.quic), ("TCP", TcpRecord, expect.tcp)):
        seen = tuple(str(record.outcome) for record in records if isinstance(record, kind))
        if wanted is not None and seen != wanted:
            misses.append(f"{name}: {', '.join(seen) or 'nothing'}; expected {', '.join(wanted) or 'nothing'}")
    if expect.udp_sockets is not None and counted is not None:
        least, most = expect.udp_sockets
        if not least <= counted.udp_sockets <= most:
            misses.append(f"{counted.udp_sockets} UDP sockets at once; expected {least:g} to {most:g}")
    wanted_rules = (*expect.findings, *(expect.log_findings if with_log else ()))
    fired = {record.rule for record in records if isinstance(record, FindingRecord)}
    misses += [f"no finding {rule}" for rule in wanted_rules if rule not in fired]
    misses += [f"finding {rule}, which is wrong here" for rule in expect.absent if rule in fired]
    said = " ".join(record.sentence for record in records if isinstance(record, VerdictRecord)).lower()
    misses += [f"the verdict does not say {words!r}" for words in expect.verdict if words.lower() not in said]
    return misses


def _versions(expect: Expectation, outcomes: Sequence[Outcome]) -> Iterator[str]:
    seen = [outcome.version or "error" for outcome in outcomes]
    wanted = expect.versions * len(seen) if len(expect.versions) == 1 else expect.versions
    if (
        not seen
        or len(seen) != len(wanted)
        or any(want not in {"any", got} for want, got in zip(wanted, seen, strict=True))
    ):
        yield f"the client saw {', '.join(seen) or 'nothing'}; expected {', '.join(expect.versions)}"


def _seconds(expect: Expectation, outcomes: Sequence[Outcome]) -> Iterator[str]:
    ranges = expect.seconds * len(outcomes) if len(expect.seconds) == 1 else expect.seconds
    for outcome, (least, most) in zip(outcomes, ranges, strict=False):
        if not least <= outcome.seconds <= most:
            yield f"request {outcome.number} took {outcome.seconds:.3f} s; expected {least:g} to {most:g} s"


def _exchanges(outcomes: Sequence[Outcome], records: Sequence[AnyRecord]) -> Iterator[str]:
    """Where h3probe knows the version of every answer, it must be what the client says."""
    known = sorted(each.version for each in records if isinstance(each, ExchangeRecord) and each.version is not None)
    seen = sorted(outcome.version for outcome in outcomes if outcome.version is not None)
    if known and len(known) == len(seen) and known != seen:
        yield f"h3probe says {', '.join(known)}, and the client {', '.join(seen)}"
