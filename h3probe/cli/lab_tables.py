"""What `h3probe lab run` prints at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.lab.judge import NotPlayed, Played
from h3probe.lab.report import expected_words, explanation, first_packet, got_words
from h3probe.show.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.lab.article import Experiment
    from h3probe.lab.clients import LabClient
    from h3probe.show.console import Console, Part


def draw_scenarios(console: Console, results: Sequence[Played | NotPlayed], client: LabClient) -> None:
    """A few lines for each scenario: expected, got, and h3probe's verdict."""
    for result in results:
        mark, style = _mark(console, result)
        console.row([(f"{mark} ", style), (f"{result.scenario.name}  ", "bold")], result.scenario.title)
        expect = client.expects(result.scenario)
        _labelled(console, "expected", ["not known for this client" if expect is None else expected_words(expect)])
        _labelled(console, "got", [got_words(result), *_misses(result)])
        _labelled(console, "h3probe", explanation(result))


def draw_articles(console: Console, experiments: Sequence[Experiment], results: Sequence[Played | NotPlayed]) -> None:
    """One table: the experiment, what the articles report, what this machine gives, and h3probe's explanation."""
    waiting = iter(results)
    groups = []
    for experiment in experiments:
        rows = []
        for run in experiment.runs:
            result = next(waiting)
            here = [got_words(result), *_misses(result)]
            said = [*explanation(result), *filter(None, [first_packet(result)])]
            cells = [[run.scenario.title], [run.reports], here, said]
            rows.append(Row(_mark(console, result), cells))
        groups.append((f"{experiment.name}  {experiment.title} ({experiment.source})", rows))
    Table(("experiment", "the article", "this machine", "h3probe"), (3, 4, 4, 8), groups).draw(console)


def _labelled(console: Console, label: str, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        console.row([(f"    {label if number == 0 else '':<10}", "dim")], text)


def _misses(result: Played | NotPlayed) -> list[str]:
    return [f"not as expected: {miss}" for miss in result.misses] if isinstance(result, Played) else []


def _mark(console: Console, result: Played | NotPlayed) -> Part:
    if isinstance(result, NotPlayed):
        return (console.symbols.bad, "red") if result.failed else (console.symbols.info, "dim")
    if not result.judged:
        return console.symbols.info, "dim"
    return (console.symbols.bad, "red") if result.misses else (console.symbols.good, "green")
