"""`h3probe report`: what captures show, as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  h3probe report capture.pcapng -o report.html --open
  h3probe report capture.pcapng --client-log java.log
"""
TITLE = 3
"""Files that the title names."""


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o", "--output", "path", metavar="FILE", default="report.html", show_default=True, help="Where to write."
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--open", "show", is_flag=True, help="Open it in a browser.")
@click.option("--origin", "origins", metavar="HOST[:PORT]", multiple=True, help="Only this origin (repeatable).")
@click.option(
    "--port", "ports", type=click.IntRange(0, 65535), multiple=True, help="Only this server port (repeatable)."
)
@click.option(
    "--client-log",
    "logs",
    metavar="FILE",
    multiple=True,
    help="A log of the client's own: the JDK's HttpClient, curl -v, Chromium's NetLog (repeatable).",
)
@click.option("--keylog", metavar="FILE", help="Decrypt with the TLS secrets in FILE; none of them is in the report.")
def report(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    path: str,
    force: bool,
    show: bool,
    origins: tuple[str, ...],
    ports: tuple[int, ...],
    logs: tuple[str, ...],
    keylog: str | None,
) -> None:
    """Write what capture files show as one HTML file, to be read by anybody and attached to a bug report.

    The file loads nothing from anywhere. It holds addresses, host names and process names as the capture does, and no
    payload.
    """
    from h3probe.errors import UserError  # noqa: PLC0415 - only where it is used
    from h3probe.filters import Filters, parse_origin  # noqa: PLC0415 - the decoders load here
    from h3probe.run.explaining import Asked, explained, frames  # noqa: PLC0415
    from h3probe.run.whole_file import check_free, write_whole  # noqa: PLC0415
    from h3probe.show.report import render, wanted_packets  # noqa: PLC0415 - imports Jinja
    from h3probe.vantage.files import STDIN  # noqa: PLC0415

    if STDIN in files:
        raise UserError("a report reads its capture twice: write it to a file first")
    check_free(path, force=force)
    filters = Filters(origins=frozenset(map(parse_origin, origins)) or None, ports=frozenset(ports) or None)
    asked = Asked(files, filters, key_log=keylog, client_logs=logs)
    found = explained(asked)
    names = [Path(name).name for name in files]
    title = ", ".join(names[:TITLE]) + (f" and {len(names) - TITLE} more" if len(names) > TITLE else "")
    page = render(found, frames(asked, wanted_packets(found)), title=title)
    write_whole(path, page.encode(), force=force)
    click.echo(f"{path} written")
    if show:
        import webbrowser  # noqa: PLC0415 - only where it is used

        if not webbrowser.open(Path(path).absolute().as_uri()):
            raise UserError(f"no browser could be started; open {path} in one")
