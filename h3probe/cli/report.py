"""`h3probe report`: what captures show, as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", "path", metavar="FILE", default="report.html", show_default=True, help="Where to.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def report(files: tuple[str, ...], path: str, *, force: bool) -> None:
    """Write a report."""
    from h3probe.run.explaining import Asked, explained, frames  # noqa: PLC0415 - the decoders load here
    from h3probe.show.report import render, wanted_packets  # noqa: PLC0415 - imports Jinja

    asked = Asked(files)
    found = explained(asked)
    Path(path).write_text(
        render(found, frames(asked, wanted_packets(found)), title=", ".join(Path(f).name for f in files))
    )
