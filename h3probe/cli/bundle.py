"""`h3probe bundle`: one file to attach to a bug report."""

from __future__ import annotations

import os
from pathlib import Path

import click

EPILOG = """\b
Examples:
  h3probe bundle capture.pcapng -o report.h3probe.zip
  h3probe bundle capture.pcapng --client-log java.log -o report.h3probe.zip
  h3probe bundle report.h3probe            what a run that was cut off left
  h3probe explain report.h3probe.zip       reads it back

\b
Exit status: 0 the bundle is written; 2 wrong usage or unreadable input.
"""


@click.command(epilog=EPILOG)
@click.argument("sources", nargs=-1, required=True, metavar="CAPTURE...|FOLDER")
@click.option("-o", "--output", "output", metavar="FILE", help="The bundle; by default beside the first source.")
@click.option("--client-log", "logs", metavar="FILE", multiple=True, help="A log of the client's own (repeatable).")
@click.option("--keylog", metavar="FILE", help="Read what TLS secrets open; with --full they are kept in the bundle.")
@click.option("--full", is_flag=True, help="Keep payload too, not handshakes and headers alone.")
@click.option("--force", is_flag=True, help="Replace a bundle that is there.")
def bundle(  # noqa: PLR0913 - one parameter per option
    *, sources: tuple[str, ...], output: str | None, logs: tuple[str, ...], keylog: str | None, full: bool, force: bool
) -> None:
    """Make one file of captures, to attach to a bug report: packets with comments, conclusions, and a report.

    The sources are what `explain` reads, or the folder that `watch -w NAME.h3probe.zip` left when it was cut off.
    Handshakes and headers are kept, payload and credentials are not; see docs/bundle.md for what stays in it.
    """
    folder = Path(sources[0])
    is_folder = os.path.isdir(folder)  # noqa: PTH112 - pathlib's raises where a name is too long
    if is_folder and (len(sources) > 1 or logs or keylog or full):
        raise click.UsageError("a folder is made into a bundle by itself, as the run wrote it")
    if "-" in sources and output is None:
        raise click.UsageError("standard input has no name: say where to with -o")
    if output == "-":
        raise click.UsageError("a bundle is no stream: name a file with -o")
    if output is not None and not output.endswith(".zip"):
        raise click.UsageError(f"a bundle is a ZIP file, and -o {output!r} is no name for one: NAME.h3probe.zip is")
    from h3probe.run.bundling import bundle_captures, bundle_folder  # noqa: PLC0415 - the decoders load here
    from h3probe.run.explaining import Asked  # noqa: PLC0415
    from h3probe.run.folder import bundle_of  # noqa: PLC0415
    from h3probe.show.progress import shown_progress  # noqa: PLC0415
    from h3probe.text import LONGEST_PATH, clean  # noqa: PLC0415

    target = Path(output) if output is not None else bundle_of(folder)
    with shown_progress() as progress:
        if is_folder:
            found = bundle_folder(folder, target, force=force, progress=progress)
        else:
            asked = Asked(sources, key_log=keylog, client_logs=logs)
            found = bundle_captures(asked, target, full=full, force=force, progress=progress)
    click.echo(f"{clean(str(target), LONGEST_PATH)} written: {found.in_words}", err=True)
