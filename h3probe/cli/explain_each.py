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
from h3probe.vantage import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from h3probe.run.batch import Outcome
    from h3probe.run.explaining import Asked
    from h3probe.show.console import Console, Part
    from h3probe.show.parquet import Tables

SHOWN_VERDICTS = 3
"""Verdicts of one capture in the table."""


@dataclass(frozen=True, slots=True)
class EachOptions:
    """What was given.

    Attributes:
        each: Whether each file is a story of its own.
        jobs: How many processes; None for as many as there are cores.
        engine: Whose processes: those of this machine (`local`), or of a cluster (`dask`).
        scheduler: The cluster's address.
    """

    each: bool
    jobs: int | None
    engine: str
    scheduler: str | None

    def wanted(self, files: tuple[str, ...]) -> bool:
        """Whether the files are to be explained one by one: a folder always is.

        Raises:
            UsageError: What was given does not go together.
            UserError: A URL cannot be looked up.
        """
        is_each = self.each or self._has_folder(files)
        on_cluster = self.engine == "dask"
        wrong = {
            "--jobs is for --each, or for a folder: several files are read as one otherwise": self.jobs is not None
            and not is_each,
            "--engine dask is for --each, or for a folder: one story is told by one process": on_cluster
            and not is_each,
            "--engine dask needs the address of the cluster: --scheduler tcp://HOST:8786": on_cluster
            and self.scheduler is None,
            "--scheduler is for --engine dask": self.scheduler is not None and not on_cluster,
            "--jobs is for this machine: a cluster has the workers that it has": self.jobs is not None and on_cluster,
        }
        for message, holds in wrong.items():
            if holds:
                raise click.UsageError(message)
        return is_each

    def _has_folder(self, files: tuple[str, ...]) -> bool:
        if not any("://" in name or places.is_folder(name) for name in files):
            return False
        from h3probe.run.batch import is_folder  # noqa: PLC0415 - the decoders load here

        return any(map(is_folder, files))


_OPTIONS = (
    click.option("--each", is_flag=True, help="Explain each file by itself; a folder's files always are."),
    click.option("--jobs", type=click.IntRange(1), metavar="N",
                 help="So many of them at the same time (default: as many as there are cores)."),
    click.option("--engine", type=click.Choice(["local", "dask"]), default="local",
                 help="Whose processes explain them: this machine's, or those of a Dask cluster."),
    click.option("--scheduler", metavar="ADDRESS", help="With --engine dask: the cluster's (tcp://HOST:8786)."),
)  # fmt: skip

each_options = gathered(EachOptions, "many", _OPTIONS)
"""Adds them all; the function gets them as one argument, `many`."""


def run_each(asked: Asked, options: EachOptions, tables: Tables | None, *, as_json: bool) -> int:
    """Explain, print, and return the exit status: the worst of all.

    Args:
        asked: The captures, and what is asked of each.
        options: Who explains them.
        tables: Get the records, too.
        as_json: Whether records are printed, and no table.

    Raises:
        UserError: There is no capture, or no cluster.
    """
    from h3probe.run.batch import captures_in, cores, explain_each  # noqa: PLC0415 - the decoders load here

    files, others = captures_in(asked.files)
    status = 0
    outcomes: list[Outcome] = []
    with _progress(files) as done:
        asked = replace(asked, files=tuple(files))
        jobs, scheduler = options.jobs or cores(), options.scheduler
        as_text = as_json or tables is not None
        for outcome in explain_each(asked, jobs, scheduler=scheduler, as_json=as_text, done=done):
            status = max(status, outcome.exit_status)
            if tables is not None:
                _collect(outcome, tables)
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
        return
    for line in outcome.lines():
        sys.stdout.write(line)
    sys.stdout.flush()


def _collect(outcome: Outcome, tables: Tables) -> None:
    if outcome.error is None:
        for line in outcome.lines():
            tables.add(outcome.name, line)


def _draw(console: Console, outcomes: Sequence[Outcome], others: int) -> None:
    """One table, a row for each capture."""
    from h3probe.show.table import Row, Table  # noqa: PLC0415 - imports rich

    folder = _folder_of([outcome.name for outcome in outcomes])
    rows = []
    for outcome in outcomes:
        name = outcome.name.removeprefix(f"{folder}/") if "://" in folder else os.path.relpath(outcome.name, folder)
        rows.append(Row(_mark(console, outcome), [[name], _seen(outcome), _found(outcome)]))
    title = f"{count(len(rows), 'capture')}{f' in {folder}' if folder else ''}"
    Table(("capture", "seen", "verdict"), (3, 2, 6), [(title, rows)]).draw(console)
    if others:
        console.note(f"{count(others, 'other file')} left out: no capture that h3probe reads")


def _folder_of(names: Sequence[str]) -> str:
    """The folder that all are in, as far as they have one in common; empty where they have not."""
    folders = {os.path.dirname(name) for name in names}  # noqa: PTH120 - a Path makes one slash of a URL's two
    if len(folders) == 1:
        return folders.pop()
    same_kind = len({Path(name).is_absolute() for name in folders}) == 1 and not any("://" in name for name in folders)
    return os.path.commonpath(folders) if same_kind else ""


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
    if not all(sizes.values()):  # somewhere else
        sizes = dict.fromkeys(files, 1)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{len(files)} captures", total=sum(sizes.values()))
        yield lambda name: bar.advance(task, sizes[name])


def _size(name: str) -> int:
    try:
        return Path(name).stat().st_size
    except OSError:
        return 0
