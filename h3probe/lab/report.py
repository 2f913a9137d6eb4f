"""What came of scenarios, in a few words: cells of a table, and JSON."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from h3probe.lab.judge import NotPlayed, Played
from h3probe.records import VerdictRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.lab.article import Experiment, Run
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.scenario import Expectation

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_PACKAGE = re.compile(r"\b(?:[a-z]+\.)+(?=[A-Z])")


def outcome_words(outcomes: Sequence[Outcome]) -> str:
    """What the client saw: `HTTP/2 (812 ms), HTTP/3 x3 (8-15 ms)`."""
    parts = []
    for (_, words), group in groupby(outcomes, key=lambda outcome: (outcome.version, _what(outcome))):
        alike = list(group)
        times = f" ×{len(alike)}" if len(alike) > 1 else ""  # noqa: RUF001 - a multiplication sign is meant
        parts.append(f"{words}{times} ({_span([outcome.seconds for outcome in alike])})")
    return ", ".join(parts) or "nothing"


def _what(outcome: Outcome) -> str:
    # The package of an exception says nothing that its name does not.
    return outcome.version or _PACKAGE.sub("", outcome.error or "error", count=1)


def _span(seconds: Sequence[float]) -> str:
    least, most = _time(min(seconds)), _time(max(seconds))
    if least == most:
        return least
    number, unit = least.split()
    return f"{number}-{most}" if most.endswith(f" {unit}") else f"{least} to {most}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 10 else f"{seconds * 1000:.0f} ms"


def got_words(result: Played | NotPlayed) -> str:
    """What this machine gave."""
    if isinstance(result, NotPlayed):
        return f"{'failed' if result.failed else 'not played'}: {result.reason}"
    words = outcome_words(result.outcomes)
    if result.counted is not None:
        words += f"; {result.counted.udp_sockets} UDP sockets, {result.counted.descriptors} descriptors at once"
    return words


def expected_words(expect: Expectation) -> str:
    """What should come of a scenario."""
    parts = [", ".join(expect.versions), *expect.findings]
    parts += [f"verdict with {words!r}" for words in expect.verdict]
    return "; ".join(part for part in parts if part)


def explanation(result: Played | NotPlayed) -> list[str]:
    """h3probe's verdict, and the first sentence of each finding."""
    if isinstance(result, NotPlayed):
        return []
    verdicts = [record.sentence for record in result.records if isinstance(record, VerdictRecord)]
    found = {f"{each.rule}: {first_sentence(each.summary)}": None for each in result.findings}
    return [*dict.fromkeys(verdicts), *found]


def first_sentence(text: str) -> str:
    """The first sentence of a text."""
    return _SENTENCE.split(text, maxsplit=1)[0]


def as_json(result: Played | NotPlayed, client: str, *, records: bool = True) -> dict[str, Any]:
    """One scenario as an object: what was expected, what came, and what h3probe says.

    Args:
        result: What came of it.
        client: Who asked.
        records: Whether h3probe's records are in it, all of them.
    """
    from h3probe.show.ndjson import to_json  # noqa: PLC0415 - for whoever wants JSON

    told: dict[str, Any] = {"type": "scenario", "scenario": result.scenario.name, "client": client}
    told["title"] = result.scenario.title
    if isinstance(result, NotPlayed):
        return told | {"as_expected": False if result.failed else None, "reason": result.reason}
    told["as_expected"] = not result.misses if result.judged else None
    told["misses"] = result.misses
    told["outcomes"] = [asdict(outcome) for outcome in result.outcomes]
    told["counted"] = None if result.counted is None else asdict(result.counted)
    told["verdict"] = result.verdict
    told["findings"] = [each.rule for each in result.findings]
    if records:
        import json  # noqa: PLC0415 - the same

        told["records"] = [json.loads(to_json(record)) for record in result.records]
    return told


def article_json(experiment: Experiment, run: Run, result: Played | NotPlayed, client: str) -> dict[str, Any]:
    """One run of an experiment as an object."""
    about = {"experiment": experiment.name, "source": experiment.source, "reports": run.reports}
    return as_json(result, client) | about
