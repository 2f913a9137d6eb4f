"""The experiments of two articles about HTTP/3 in Java's HttpClient, as TOML: what they reported, and how to repeat it.

A file is an experiment: a row of an article, with one run or several. A run is a scenario with what the article reports
of it beside; what should come of it is what the article reports, as ranges where it gives seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.lab.scenario import read_scenario, read_toml
from h3probe.lab.toml_table import Table

if TYPE_CHECKING:
    from h3probe.lab.scenario import Scenario

_FOLDER = Path(__file__).with_name("articles")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an experiment.

    Attributes:
        reports: What the article says came of it.
        scenario: How it is repeated; its title says what is special about it.
    """

    reports: str
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Attributes:
        name: Its file's name.
        title: A few words.
        source: The article, and its file or section.
        runs: At least one.
    """

    name: str
    title: str
    source: str
    runs: tuple[Run, ...]


def load_experiments() -> list[Experiment]:
    """The experiments of the package, in the order of their files' names.

    Raises:
        UserError: One of them is not valid.
    """
    return [parse_experiment(path.stem, path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*.toml"))]


def parse_experiment(name: str, text: str) -> Experiment:
    """Read one experiment.

    Args:
        name: What to call it.
        text: TOML.

    Raises:
        UserError: It is no TOML, or says what an experiment cannot say.
    """
    file = f"experiment {name}"
    top = Table(read_toml(file, text), file)
    title, source = top.text("title"), top.text("source")
    runs = tuple(_run(f"{name}/{place}", table, title) for place, table in enumerate(top.tables("run"), 1))
    top.finish()
    return Experiment(name, title, source, runs)


def _run(name: str, table: Table, experiment: str) -> Run:
    title, reports = table.text("title"), table.text("reports")
    run = Run(reports, read_scenario(name, table, title=title, about=experiment))
    table.finish()
    return run
