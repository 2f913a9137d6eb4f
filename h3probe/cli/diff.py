"""`h3probe diff`: what differs between two captures, and which finding explains it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from h3probe.cli.options import make_filters, output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.records import AnyRecord, DifferenceRecord


@click.command(
    epilog="""\b
Examples:
  h3probe diff home.pcapng office.pcapng
  h3probe diff --origin example.org jdk-26.0.1.pcapng jdk-26.0.2.pcapng
  h3probe diff --json home.pcapng office.pcapng

\b
Exit status, as diff(1) has it: 0 no difference, 1 a difference, 2 wrong
usage or unreadable input. Problems that both have are no difference.
"""
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@output_options
@click.pass_context
def diff(  # noqa: PLR0913 - one parameter per option
    ctx: click.Context, *, a: str, b: str, as_json: bool, origins: tuple[str, ...], ports: tuple[int, ...]
) -> None:
    """Say what differs between the captures A and B, for each origin, and which finding explains it.

    At home and in the office, before an update and after it: HTTP/3 used or not, how attempts ended, findings that
    came or went, and times that differ by more than noise. No cause is named that no finding states.
    """
    from h3probe.diagnose.difference import compare  # noqa: PLC0415 - the decoders load here
    from h3probe.run.explaining import Asked, explained  # noqa: PLC0415
    from h3probe.vantage.files import STDIN  # noqa: PLC0415

    if a == b == STDIN:
        raise click.UsageError("A and B cannot both be standard input")
    outputs = [explained(Asked((name,), make_filters(origins, ports))).all_records for name in (a, b)]
    differences = compare(*outputs)
    if as_json:
        _print_json(outputs, differences)
    else:
        from h3probe.show.console import Console  # noqa: PLC0415 - imports rich
        from h3probe.show.difference import show  # noqa: PLC0415
        from h3probe.vantage.remote import shown  # noqa: PLC0415

        show(Console(sys.stdout), (shown(a), shown(b)), differences)
    ctx.exit(int(not all(difference.same for difference in differences)))


def _print_json(outputs: Sequence[Sequence[AnyRecord]], differences: Sequence[DifferenceRecord]) -> None:
    """The capture records of both, so that it is known what was compared, and the differences."""
    from h3probe.show.ndjson import NdjsonWriter  # noqa: PLC0415 - only where it is used

    writer = NdjsonWriter(sys.stdout)
    for number, records in enumerate(outputs, 1):
        for record in records:
            if record.type == "capture":
                writer.write(replace(record, id=f"capture-{number}"))
    for difference in differences:
        writer.write(difference)
