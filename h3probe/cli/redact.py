"""`h3probe redact`: a capture, or a bundle, that can be shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from h3probe.text import LONGEST_PATH, clean

if TYPE_CHECKING:
    from h3probe.run.redacting import Redacted

EPILOG = """\b
Examples:
  h3probe redact capture.pcapng -o public.pcapng
  h3probe redact capture.pcap.gz -o public.pcapng --keep-host example.org
  h3probe redact office.pcapng -o a.pcapng --map private.json
  h3probe redact home.pcapng -o b.pcapng --map private.json
  h3probe redact report.h3probe.zip -o public.h3probe.zip

\b
Exit status: 0 written, 2 wrong usage, unreadable input, or no room.
"""


@click.command(epilog=EPILOG)
@click.argument("source", metavar="FILE")
@click.option(
    "-o", "--output", "target", metavar="FILE", required=True, help="The redacted capture (pcapng), or bundle."
)
@click.option(
    "--keep-host",
    "kept",
    metavar="NAME",
    multiple=True,
    help="Leave this host name or address as it is, with the addresses that DNS in FILE gives for it (repeatable).",
)
@click.option(
    "--map",
    "map_file",
    metavar="FILE",
    help="Keep what stands for what in FILE, and go on with it if it exists. It undoes the redaction: keep it private.",
)
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
def redact(*, source: str, target: str, kept: tuple[str, ...], map_file: str | None, force: bool) -> None:
    """Replace addresses, names, connection IDs and credentials in a capture, a bundle, or a proxy's events.

    What `explain` says of the redacted file is the same, but for the names. Payload that cannot be read becomes
    noise of its length; what cannot be redacted safely is left out, and counted. `-` is standard input.
    """
    from h3probe.run.redacting import redact as run  # noqa: PLC0415 - the decoders load here
    from h3probe.show.progress import shown_progress  # noqa: PLC0415

    with shown_progress() as progress:
        done = run(source, target, kept=kept, map_file=map_file, force=force, progress=progress)
    for line in report(done, target):
        click.echo(line, err=True)


def report(done: Redacted, target: str) -> list[str]:
    """What was done, a line for each thing."""
    name = "standard output" if target == "-" else clean(target, LONGEST_PATH)
    lines = [f"{done.written} of {done.frames} packets written to {name}"]
    lines += [f"  left out: {reason}: {count}" for reason, count in done.dropped.most_common()]
    if done.bundle is not None:
        lines.append(f"  in the bundle: {done.bundle}")
    if done.comments:
        lines.append(f"  left out: comments: {done.comments}")
    if done.secrets:
        lines.append(f"  left out: blocks of TLS secrets: {done.secrets}")
    if done.unfinished:
        lines.append(f"  made noise: packets with a part of a message that was never whole: {done.unfinished}")
    if done.unreadable:
        lines.append(f"  read otherwise than written, or not at all: {done.unreadable} (`h3probe explain` says what)")
    if done.truncated:
        lines.append("  the input could not be read to its end")
    return lines
