"""`h3probe report`: what captures show, as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from h3probe.cli.options import filter_options, make_filters, witness_options

TITLE = 3
"""Files that the title names."""


@click.command(
    epilog="""\b
Examples:
  h3probe report capture.pcapng -o report.html --open
  h3probe report capture.pcapng --client-log java.log
"""
)
@click.argument("files", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("-o", "--output", metavar="FILE", default="report.html", show_default=True, help="Where to.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--open", "show", is_flag=True, help="Open it in a browser.")
@witness_options
@filter_options
def report(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    output: str,
    force: bool,
    show: bool,
    logs: tuple[str, ...],
    keylog: str | None,
    origins: tuple[str, ...],
    ports: tuple[int, ...],
) -> None:
    """Write what captures show as one HTML file, for anybody to read.

    The file loads nothing from anywhere. It holds addresses, host names and process names as the capture does, and no
    payload and no secrets. Several captures are read as one, as `explain` does.
    """
    from h3probe.errors import UserError  # noqa: PLC0415 - only where it is used
    from h3probe.run.explaining import Asked, Gist, explained, frames  # noqa: PLC0415 - the decoders load here
    from h3probe.run.whole_file import STDOUT, refuse_existing, write_whole  # noqa: PLC0415
    from h3probe.show.report import render, wanted_packets  # noqa: PLC0415 - imports Jinja
    from h3probe.text import LONGEST_PATH, clean  # noqa: PLC0415
    from h3probe.vantage.files import STDIN  # noqa: PLC0415
    from h3probe.vantage.remote import shown  # noqa: PLC0415

    if STDIN in files:
        raise UserError("a report reads its capture twice: write it to a file first")
    if show and output == STDOUT:
        raise click.UsageError("--open is for a file")
    refuse_existing(output, force=force, sources=(*files, *logs, keylog or ""))
    asked = Asked(files, make_filters(origins, ports), key_log=keylog, client_logs=logs)
    found = explained(asked, Gist())
    names = [Path(shown(name)).name for name in files]
    title = ", ".join(names[:TITLE]) + (f" and {len(names) - TITLE} more" if len(names) > TITLE else "")
    write_whole(output, [render(found, frames(asked, wanted_packets(found)), title=title)], force=force)
    if output != STDOUT:
        click.echo(f"{clean(output, LONGEST_PATH)} written")
    if show:
        import webbrowser  # noqa: PLC0415 - only where it is used

        if not webbrowser.open(Path(output).absolute().as_uri()):
            raise UserError(f"no browser could be started; open {output} in one")
