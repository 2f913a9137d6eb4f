"""`h3probe explain` of many captures, each a story of its own: a folder, or files with `--each`."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from h3probe.cli.options import gathered
from h3probe.text import clean, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from h3probe.run.batch import Outcome
    from h3probe.run.explaining import Asked
    from h3probe.show.console import Console, Part

SHOWN_VERDICTS = 3
"""Verdicts of one capture in the table."""


@dataclass(frozen=True, slots=True)
class EachOptions:
    """What was given.

    Attributes:
        each: Whether each file is a story of its own.
        jobs: How many processes; None for as many as there are cores.
    """

    each: bool
    jobs: int | None

    def wanted(self, files: tuple[str, ...]) -> bool:
        """Whether the files are to be explained one by one: a folder always is."""
        if self.each or not any(Path(name).is_dir() for name in files):
            return self.each
        from h3probe.run.batch import is_folder  # noqa: PLC0415 - the decoders load here

        return any(map(is_folder, files))


_OPTIONS = (
    click.option("--each", is_flag=True, help="Explain each file by itself; a folder's files always are."),
    click.option("--jobs", type=click.IntRange(1), metavar="N",
                 help="So many of them at the same time (default: as many as there are cores)."),
)  # fmt: skip

each_options = gathered(EachOptions, "many", _OPTIONS)
"""Adds them all; the function gets them as one argument, `many`."""


def run_each(asked: Asked, options: EachOptions, *, as_json: bool) -> int:
    """Explain, print, and return the exit status: the worst of all.

    Raises:
        UserError: There is no capture.
    """
    from h3probe.run.batch import captures_in, cores, explain_each  # noqa: PLC0415 - the decoders load here

    files, others = captures_in(asked.files)
    status = 0
    outcomes: list[Outcome] = []
    with _progress(files) as done:
        asked = replace(asked, files=tuple(files))
        for outcome in explain_each(asked, options.jobs or cores(), as_json=as_json, done=done):
            status = max(status, outcome.exit_status)
            if as_json:
                _print_records(outcome)
            else:
                outcomes.append(outcome)
    if not as_json:
        from h3probe.show.console import Console  # noqa: PLC0415 - imports rich

        _draw(Console(sys.stdout), outcomes, others)
    return status


def _print_records(outcome: Outcome) -> None:
    if outcome.error is not None:
        click.echo(f"h3probe: {clean(outcome.error)}", err=True)
    elif outcome.text is not None:
        with outcome.text.open(encoding=sys.stdout.encoding or "utf-8") as lines:
            for line in lines:
                sys.stdout.write(line)
        sys.stdout.flush()


def _draw(console: Console, outcomes: Sequence[Outcome], others: int) -> None:
    """One table, a row for each capture."""
    from h3probe.show.table import Row, Table  # noqa: PLC0415 - imports rich

    folders = {str(Path(outcome.name).parent) for outcome in outcomes}
    folder = os.path.commonpath(folders) if len({Path(name).is_absolute() for name in folders}) == 1 else ""
    rows = []
    for outcome in outcomes:
        name = os.path.relpath(outcome.name, folder) if folder else outcome.name
        rows.append(Row(_mark(console, outcome), [[name], _seen(outcome), _found(outcome)]))
    title = f"{count(len(rows), 'capture')}{f' in {folder}' if folder else ''}"
    Table(("capture", "seen", "verdict"), (3, 2, 6), [(title, rows)]).draw(console)
    if others:
        console.note(f"{count(others, 'other file')} left out: no capture that h3probe reads")


def _mark(console: Console, outcome: Outcome) -> Part:
    symbols = console.symbols
    if outcome.error is not None or outcome.severity == "problem" or outcome.exit_status:
        return symbols.bad, "bold red"
    if outcome.severity == "notice":
        return symbols.notice, "bold yellow"
    return (symbols.good, "bold green") if outcome.verdicts else (symbols.info, "dim")


def _seen(outcome: Outcome) -> list[str]:
    if outcome.error is not None:
        return [""]
    counts = outcome.counts
    return [f"{count(outcome.packets, 'packet')}, {counts['quic']:,} QUIC, {counts['tcp']:,} TCP"]


def _found(outcome: Outcome) -> list[str]:
    if outcome.error is not None:
        return [outcome.error]
    told = [f"{origin}: {sentence}" if origin else sentence for origin, sentence in outcome.verdicts[:SHOWN_VERDICTS]]
    more = outcome.counts["verdict"] - len(told)
    if more > 0:
        told.append(f"and {more:,} more")
    if outcome.findings:
        told.append(", ".join(f"{number} x {rule}" for rule, number in sorted(outcome.findings.items())))
    return told or ["nothing to tell"]


@contextmanager
def _progress(files: list[str]) -> Iterator[Callable[[str], None]]:
    """A bar on standard error, if that is a terminal; what it gives is called with each file that is ready."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal gets one
    from rich.progress import Progress  # noqa: PLC0415

    sizes = {name: _size(name) for name in files}
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{len(files)} captures", total=sum(sizes.values()))
        yield lambda name: bar.advance(task, sizes[name])


def _size(name: str) -> int:
    try:
        return Path(name).stat().st_size
    except OSError:
        return 0
