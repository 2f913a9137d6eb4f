"""What came of scenarios, in a few words: cells of a table, and JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from h3probe.lab.judge import NotPlayed, Played
from h3probe.records import QuicRecord, TcpRecord, VerdictRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.lab.article import Experiment, Run
    from h3probe.lab.matrix import Cell
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.scenario import Expectation

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_PACKAGE = re.compile(r"\b(?:[a-z]+\.)+(?=[A-Z])")

_FIGURE = re.compile(r"\d+(?:\.\d+)?(?: m?s| µs)?")
_TIMES_SHOWN = 5


def outcome_words(outcomes: Sequence[Outcome]) -> str:
    """What the client saw: `HTTP/2 (812 ms), HTTP/3 x3 (15, 9, 8 ms)`."""
    parts = []
    for (_, words), group in groupby(outcomes, key=lambda outcome: (outcome.version, _what(outcome))):
        alike = list(group)
        times = f" ×{len(alike)}" if len(alike) > 1 else ""  # noqa: RUF001 - a multiplication sign is meant
        parts.append(f"{words}{times} ({_times([outcome.seconds for outcome in alike])})")
    return ", ".join(parts) or "nothing"


def _what(outcome: Outcome) -> str:
    # The package of an exception says nothing that its name does not.
    return outcome.version or _PACKAGE.sub("", outcome.error or "error", count=1)


def _times(seconds: Sequence[float]) -> str:
    """All of a few, the least and the most of many; the unit once, where it is the same."""
    shown, between = (seconds, ", ") if len(seconds) <= _TIMES_SHOWN else ((min(seconds), max(seconds)), " to ")
    texts = [f"{each:.1f} s" if each >= 10 else f"{each * 1000:.0f} ms" for each in shown]
    if len({text.split()[1] for text in texts}) == 1:
        texts = [*(text.split()[0] for text in texts[:-1]), texts[-1]]
    return between.join(texts)


def got_words(result: Played | NotPlayed) -> str:
    """What this machine gave."""
    if isinstance(result, NotPlayed):
        return f"{'failed' if result.failed else 'not played'}: {result.reason}"
    words = outcome_words(result.outcomes)
    versions = {outcome.version for outcome in result.outcomes}
    if "HTTP/3" not in versions and any("h3=" in (outcome.alt_svc or "") for outcome in result.outcomes):
        words += "; Alt-Svc offered h3"
    if result.counted is not None:
        sockets, descriptors = result.counted.udp_sockets, result.counted.descriptors
        words += f"; at once {sockets} UDP socket{'' if sockets == 1 else 's'} of {descriptors} descriptors"
    return words


def expected_words(expect: Expectation) -> str:
    """What should come of a scenario."""
    parts = [", ".join(expect.versions), *expect.findings]
    parts += [f"verdict with {words!r}" for words in expect.verdict]
    return "; ".join(part for part in parts if part)


def explanation(result: Played | NotPlayed) -> list[str]:
    """h3probe's verdict, and the first sentence of each finding; of those that differ in figures alone, one."""
    if isinstance(result, NotPlayed):
        return []
    texts = [record.sentence for record in result.records if isinstance(record, VerdictRecord)]
    texts += [f"{each.rule}: {first_sentence(each.summary)}" for each in result.findings]
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(_FIGURE.sub("#", text), []).append(text)
    return [same[0] if len(same) == 1 else f"{same[0]} (And {len(same) - 1} more like it.)" for same in alike.values()]


def first_packet(result: Played | NotPlayed) -> str:
    """How request 1's time was spent, as far as the wire shows it; empty where it does not.

    A cold JVM takes some hundred milliseconds before it sends anything, which are in the client's own figures.
    """
    if isinstance(result, NotPlayed) or not result.outcomes or result.asked_ns is None or result.scenario.java.clients:
        return ""
    connections = [each for each in result.records if isinstance(each, QuicRecord | TcpRecord) and each.time]
    if not connections:
        return ""
    first = min(connections, key=lambda each: each.at)
    before = (_nanoseconds(first.time or "") - result.asked_ns) / 1e9
    words = f"request 1: first packet after {_times([max(before, 0.0)])}"
    ready: dict[str, float] = {}
    for each in connections:
        if each.ready_at is not None:
            ready.setdefault(each.type.upper(), each.ready_at)
    for name, at in sorted(ready.items(), key=lambda pair: pair[1]):
        if before + at - first.at <= result.outcomes[0].seconds:
            words += f", {name} ready {_times([at - first.at])} later"
    return f"{words}, response after {_times([result.outcomes[0].seconds])} in all"


def _nanoseconds(time: str) -> int:
    """RFC 3339 with nanoseconds, since the epoch."""
    whole, _, fraction = time.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)


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
        told["records"] = [json.loads(to_json(record)) for record in result.records]
    return told


def matrix_line(cells: Sequence[Cell]) -> str:
    """The whole matrix in one line."""
    right = [cell for cell in cells if not cell.wrong]
    return f"{len(right)} of {len(cells)} right ({sum(bool(cell.untold) for cell in right)} of them: not told)"


def cell_json(cell: Cell) -> dict[str, Any]:
    """A cell of the matrix as an object."""
    from h3probe.show.ndjson import to_json  # noqa: PLC0415 - for whoever wants JSON

    told: dict[str, Any] = {"type": "cell", "client": cell.client, "scenario": cell.scenario, "vantage": cell.vantage}
    told |= {"right": not cell.wrong, "wrong": list(cell.wrong), "untold": list(cell.untold)}
    told["outcomes"] = [asdict(outcome) for outcome in cell.outcomes]
    return told | {"records": [json.loads(to_json(record)) for record in cell.records]}


def article_json(experiment: Experiment, run: Run, result: Played | NotPlayed, client: str) -> dict[str, Any]:
    """One run of an experiment as an object."""
    about = {"experiment": experiment.name, "source": experiment.source, "reports": run.reports}
    return as_json(result, client) | about
