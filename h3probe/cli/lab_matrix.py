"""`h3probe lab matrix`: h3probe's answer against what each client itself printed, from every vantage point."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import click

from h3probe.cli import nearest
from h3probe.cli.progress import Progress
from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.lab.clients import LabClient
    from h3probe.lab.matrix import Cell
    from h3probe.lab.scenario import Scenario


@click.command(
    epilog="""\b
Examples:
  h3probe lab matrix
  h3probe lab matrix --client java --client curl --details
  h3probe lab matrix udp-blocked --client './client {url} {ca}' --details

\b
Exit status: 0 when no cell is wrong, else 1; 2 wrong usage.
"""
)
@click.argument("names", nargs=-1, metavar="[SCENARIO...]")
@click.option("--client", "client_names", multiple=True, metavar="builtin|java|java25|curl|chromium|CMD",
              help="Who asks (repeatable).  [default: all that are there]")  # fmt: skip
@click.option("--java", "java_path", metavar="PATH", help="A JDK 26.  [default: $H3PROBE_JAVA, or of PATH]")
@click.option("--java25", "java25_path", metavar="PATH",
              help="A Java from before HTTP/3.  [default: $JAVA25_HOME, or where Debian has it]")  # fmt: skip
@click.option("--details", is_flag=True, help="Print every cell, not only those that are wrong.")
@click.option("--json", "as_json", is_flag=True, help="Print an object for each cell, with h3probe's records in it.")
def matrix(  # noqa: PLR0913 - one parameter per option
    *,
    names: tuple[str, ...],
    client_names: tuple[str, ...],
    java_path: str | None,
    java25_path: str | None,
    details: bool,
    as_json: bool,
) -> int:
    """Count how often h3probe is right: clients, scenarios and vantage points.

    Each client plays the scenarios (or those named), watched in a network of its own, through a relay and through a
    proxy; what is recorded is explained as well, alone, with the client's log, and with its TLS secrets. In every such
    cell, h3probe's answer is compared with what the client itself printed: the version of every request, which
    transport carried it, and the seconds lost. What h3probe does not tell is right; what it tells must be so.

    It takes networks of one's own (Linux with pasta or slirp4netns, no root). A command prints a line for each request,
    as h3probe/lab/Probe.java does.
    """
    from h3probe.cli.demo import until_stopped  # noqa: PLC0415 - loaded when asked for
    from h3probe.lab.isolated import obstacle  # noqa: PLC0415 - the same
    from h3probe.lab.matrix import find_clients  # noqa: PLC0415 - the same

    no_networks = obstacle()
    if no_networks:
        raise UserError(f"the matrix takes networks of its own: {no_networks}")
    clients = find_clients(client_names, java_path, java25_path)
    return asyncio.run(until_stopped(_fill(clients, _scenarios(names), details=details, as_json=as_json)))


def _scenarios(names: Sequence[str]) -> list[Scenario]:
    """Those with these names, or all.

    Raises:
        UserError: There is none with one of them.
    """
    from h3probe.lab.matrix import load_scenarios  # noqa: PLC0415 - loaded already

    known = {scenario.name: scenario for scenario in load_scenarios()}
    for name in names:
        if name not in known:
            raise UserError(f"no scenario '{name}'{nearest(name, list(known)) or '; `h3probe lab list` lists them'}")
    return [known[name] for name in names or known]


async def _fill(clients: list[LabClient], scenarios: list[Scenario], *, details: bool, as_json: bool) -> int:
    from h3probe.lab.matrix import fill, plan  # noqa: PLC0415 - loaded already
    from h3probe.lab.report import matrix_line  # noqa: PLC0415 - the same
    from h3probe.lab.servers import temporary_authority  # noqa: PLC0415 - the same

    plays = plan(clients, scenarios)
    progress = Progress(len(plays))
    with temporary_authority() as authority:
        cells = await fill(plays, authority, lambda play: progress.done(play.name))
    progress.close()
    if as_json:
        _print_json(cells)
    else:
        _print(cells, details=details)
    line = matrix_line(cells)
    click.echo(line, err=as_json)
    return int(any(cell.wrong for cell in cells))


def _print(cells: Sequence[Cell], *, details: bool) -> None:
    from h3probe.lab.report import outcome_words  # noqa: PLC0415 - loaded already
    from h3probe.show.console import Console  # noqa: PLC0415 - the same

    console = Console(sys.stdout)
    for cell in cells:
        if not details and not cell.wrong:
            continue
        mark, style = (console.symbols.bad, "red") if cell.wrong else (console.symbols.good, "green")
        name = f"{cell.client}, {cell.scenario}, {cell.vantage}"
        untold = f"; not told: {', '.join(cell.untold)}" if cell.untold else ""
        console.row([(f"{mark} ", style), (f"{name}  ", "bold")], outcome_words(cell.outcomes) + untold)
        for text in cell.wrong:
            console.row([("    wrong  ", "red")], text)
    sys.stdout.flush()


def _print_json(cells: Sequence[Cell]) -> None:
    from h3probe.lab.report import cell_json  # noqa: PLC0415 - loaded already

    for cell in cells:
        click.echo(json.dumps(cell_json(cell)))
