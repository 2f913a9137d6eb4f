"""`h3probe export`: a capture in the formats of other tools."""

from __future__ import annotations

import click

from h3probe.cli.options import filter_options, make_filters, witness_options

KINDS = ("har", "qlog")


@click.command(
    epilog="""\b
Examples:
  h3probe export capture.pcapng --client-log java.log -o out.har
  h3probe export capture.pcapng --keylog keys.log -o out.har
  h3probe export capture.pcapng -o out.qlog
  h3probe export capture.pcapng --to har -o - | jq .log.entries

\b
HAR has the exchanges that are known, with the version that each one used.
qlog has what the wire shows of each connection; https://qvis.quictools.info
draws it. Neither has headers, cookies, bodies or keys.
Exit status: 0 written, 2 wrong usage or unreadable input.
"""
)
@click.argument("files", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("--to", "kind", type=click.Choice(KINDS), help="The format; else the ending of FILE tells.")
@click.option("-o", "--output", metavar="FILE", required=True, help="Where to; `-` is standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@witness_options
@filter_options
def export(  # noqa: PLR0913 - one parameter per option
    *,
    files: tuple[str, ...],
    kind: str | None,
    output: str,
    force: bool,
    logs: tuple[str, ...],
    keylog: str | None,
    origins: tuple[str, ...],
    ports: tuple[int, ...],
) -> None:
    """Write what captures show as HAR or as qlog.

    Several files are read as one, as `explain` does.
    """
    from h3probe.run.explaining import Asked  # noqa: PLC0415 - the decoders load here
    from h3probe.run.exporting import as_har, as_qlog  # noqa: PLC0415
    from h3probe.run.whole_file import refuse_existing, write_whole  # noqa: PLC0415

    if kind is None:
        kind = output.rpartition(".")[2].lower()
        if kind not in KINDS:
            raise click.UsageError(f"-o {output!r} does not end in .har or .qlog: say which with --to")
    if kind == "qlog" and (logs or keylog is not None):
        raise click.UsageError("--client-log and --keylog are for --to har: a qlog has what the wire shows to anyone")
    refuse_existing(output, force=force, sources=(*files, *logs, keylog or ""))
    asked = Asked(files, make_filters(origins, ports), key_log=keylog, client_logs=logs)

    texts, note = as_har(asked) if kind == "har" else as_qlog(asked)
    write_whole(output, texts, force=force)
    if note is not None:
        click.echo(f"h3probe: {note}", err=True)
