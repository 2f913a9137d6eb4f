"""`h3probe explain`: the engine on capture files."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from h3probe.cli.expect_options import expect_options
from h3probe.cli.options import output_options

if TYPE_CHECKING:
    from h3probe.capture import CaptureReader
    from h3probe.cli.expect_options import ExpectOptions
    from h3probe.engine import Engine
    from h3probe.vantage.files import ProxyEvents

EPILOG = """\b
Examples:
  h3probe explain capture.pcapng
  h3probe explain --keylog keys.log capture.pcapng
  h3probe explain --json office.pcap.gz home.pcap.zst
  h3probe explain capture.pcapng --client-log java.log
  h3probe explain ci.pcapng --origin example.org --expect h3 --junit h3.xml
  ssh host tcpdump -U -w - | h3probe explain -

\b
Exit status: 0 no problem, 1 a problem was found or --expect is not met;
2 wrong usage or unreadable input.
"""
# A timeline longer than this hides the verdict rather than leading to it.
TIMELINE_LINES = 200
STDIN = "-"


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@output_options
@expect_options
@click.option(
    "--client-log",
    "logs",
    metavar="FILE",
    multiple=True,
    help="A log of the client's own: the JDK's HttpClient, curl -v, Chromium's NetLog (repeatable).",
)
@click.option(
    "--timeline",
    type=click.Choice(["auto", "all", "none"]),
    default="auto",
    help=f"How much of the timeline to print; auto stops after {TIMELINE_LINES} lines.",
)
@click.option(
    "--keylog",
    metavar="FILE",
    help="Decrypt with the TLS secrets in FILE, which a client wrote where SSLKEYLOGFILE told it to.",
)
@click.pass_context
def explain(  # noqa: PLR0913 - one parameter per option
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    as_json: bool,
    expect: ExpectOptions,
    origins: tuple[str, ...],
    ports: tuple[int, ...],
    logs: tuple[str, ...],
    timeline: str,
    keylog: str | None,
) -> None:
    """Say what capture files show: which HTTP version was used, and why not HTTP/3.

    Reads pcap and pcapng, also compressed (gzip, zstandard), and events of the proxy (addons/h3probe_log.py); several
    files are read as one. `-` is standard input, read as it comes.
    """
    from h3probe.engine import Engine  # noqa: PLC0415 - the decoders load here
    from h3probe.events import Frame  # noqa: PLC0415
    from h3probe.filters import Filters, parse_origin  # noqa: PLC0415
    from h3probe.run.output import make_output  # noqa: PLC0415 - only where it is used
    from h3probe.vantage.clientlog.file import ClientLogFile  # noqa: PLC0415
    from h3probe.vantage.files import merge, open_source  # noqa: PLC0415

    expected = expect.version
    limit = {"auto": TIMELINE_LINES, "all": None, "none": 0}[timeline]
    with ExitStack() as stack:
        readers: list[CaptureReader | ProxyEvents] = []
        for name in files:
            readers.append(open_source(name))
            stack.push(readers[-1])
        filters = Filters(
            origins=frozenset(map(parse_origin, origins)) or None,
            ports=frozenset(ports) or None,
        )
        formats = {reader.format for reader in readers}
        engine = Engine(", ".join(files), next(iter(formats)) if len(formats) == 1 else None, filters, expects=expected)
        if formats == {"ndjson"}:  # What went past the proxy is in no event of its.
            engine.vantage = "proxy"
        if keylog is not None:
            _add_secrets(engine, keylog)
        live = STDIN in files
        output = make_output(as_json=as_json, timeline_limit=limit, live=live)
        for event in merge([*readers, *map(ClientLogFile, logs)]):
            records = engine.feed(event)
            if records:
                output.records(records)
            if live or not isinstance(event, Frame) or event.number % 256 == 0:
                output.moments(engine.take_moments())
        output.moments(engine.take_moments())
        dropped = [reader.dropped for reader in readers if reader.dropped is not None]
        output.records(
            engine.finish(
                truncated=any(reader.truncated for reader in readers), dropped=sum(dropped) if dropped else None
            )
        )
        output.close()
    expect.report(engine)
    ctx.exit(engine.exit_status)


def _add_secrets(engine: Engine, path: str) -> None:
    """Hand a key log to the engine.

    Raises:
        KeyLogError: It cannot be read, or holds no secrets.
    """
    from h3probe.errors import KeyLogError  # noqa: PLC0415
    from h3probe.vantage.files import read_key_log  # noqa: PLC0415

    for secrets in read_key_log(path):
        engine.feed(secrets)
    decrypter = engine.tracker.decrypter
    if decrypter is None or not len(decrypter.keys):
        raise KeyLogError(f"{path} holds no TLS secrets: it is not what SSLKEYLOGFILE makes a client write")
