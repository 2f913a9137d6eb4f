"""`h3probe explain`: the engine on capture files."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from h3probe.cli.expect_options import expect_options
from h3probe.cli.explain_each import each_options, run_each
from h3probe.cli.options import make_filters, output_options, witness_options
from h3probe.vantage import places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from h3probe.cli.expect_options import ExpectOptions
    from h3probe.cli.explain_each import EachOptions
    from h3probe.show.parquet import Tables
    from h3probe.show.progress import Progress

EPILOG = """\b
Examples:
  h3probe explain capture.pcapng
  h3probe explain --keylog keys.log capture.pcapng
  h3probe explain --json office.pcap.gz home.pcap.zst
  h3probe explain capture.pcapng --client-log java.log
  h3probe explain --jobs 8 captures/
  h3probe explain --parquet tables/ captures/
  h3probe explain --engine dask --scheduler tcp://head:8786 s3://bucket/
  h3probe explain ci.pcapng --origin example.org --expect h3 --junit h3.xml
  ssh host tcpdump -U -w - | h3probe explain -

\b
Exit status: 0 no problem, 1 a problem was found or --expect is not met;
2 wrong usage or unreadable input.
"""
# A timeline longer than this hides the verdict rather than leading to it.
TIMELINE_LINES = 200
# Bytes that take some seconds.
LONG = 50_000_000
STDIN = "-"


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_options
@expect_options
@each_options
@witness_options
@click.option(
    "--timeline",
    type=click.Choice(["auto", "all", "none"]),
    default="auto",
    help=f"How much of the timeline to print; auto stops after {TIMELINE_LINES} lines.",
)
@click.option("--parquet", metavar="FOLDER", help="Write the records as Parquet too: TYPE.parquet for each type.")
@click.option("--force", is_flag=True, help="With --parquet: replace files that are there.")
@click.pass_context
def explain(  # noqa: PLR0913 - one parameter per option
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    as_json: bool,
    expect: ExpectOptions,
    many: EachOptions,
    origins: tuple[str, ...],
    ports: tuple[int, ...],
    logs: tuple[str, ...],
    timeline: str,
    keylog: str | None,
    parquet: str | None,
    force: bool,
) -> None:
    """Say what capture files show: which HTTP version was used, and why not HTTP/3.

    Reads pcap and pcapng, also compressed (gzip, zstandard), bundles (`h3probe bundle`), and events of the proxy
    (addons/h3probe_log.py); several files are read as one, in order of time. A folder stands for the captures in it,
    each a story of its own, explained in parallel; `--each` says so of files. `-` is standard input, read as it comes.
    """
    from h3probe.run.explaining import Asked  # noqa: PLC0415 - the decoders load here
    from h3probe.run.explaining import explain as run  # noqa: PLC0415
    from h3probe.run.output import make_output  # noqa: PLC0415

    filters = make_filters(origins, ports)
    is_each = many.wanted(files)
    if is_each and (logs or expect.junit is not None):
        raise click.UsageError("--client-log and --junit are for one story, not for each of many captures")
    if force and parquet is None:
        raise click.UsageError("--force is for the files of --parquet")
    asked = Asked(files, filters, expect.version, keylog, logs)
    with _tables(parquet, force=force, sources=(*files, *logs, keylog or "")) as tables:
        if is_each:
            status = run_each(asked, many, tables, as_json=as_json)
        else:
            limit = {"auto": TIMELINE_LINES, "all": None, "none": 0}[timeline]
            output = make_output(as_json=as_json, timeline_limit=limit, live=STDIN in files)
            if tables is not None:
                from h3probe.run.tables import TableOutput  # noqa: PLC0415 - an extra

                output = TableOutput(output, tables, asked.source)
            with _reading(files, shows=timeline != "all" and not (as_json and sys.stdout.isatty())) as reading:
                engine = run(asked, output, reading=reading)
            expect.report(engine)
            status = engine.exit_status
    ctx.exit(status)


@contextmanager
def _reading(files: tuple[str, ...], *, shows: bool) -> Iterator[Progress | None]:
    """Show how far reading is, where that takes long and nothing else is shown meanwhile."""
    sizes = [path.stat().st_size for path in map(Path, files) if places.is_file(path)]
    if not shows or len(sizes) < len(files) or sum(sizes) < LONG:
        yield None
        return
    from h3probe.show.progress import shown_progress  # noqa: PLC0415

    with shown_progress() as progress:
        progress.begin("reading", sum(sizes))
        yield progress


def _tables(folder: str | None, *, force: bool, sources: tuple[str, ...]) -> AbstractContextManager[Tables | None]:
    """What collects the records of a run, if they are to be collected."""
    if folder is None:
        return nullcontext()
    from h3probe.run.tables import tables_in  # noqa: PLC0415 - an extra

    return tables_in(Path(folder), force=force, sources=sources)
