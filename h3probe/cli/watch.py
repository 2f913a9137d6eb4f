"""`h3probe watch`: the engine on live traffic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from h3probe.cli.expect_options import expect_options
from h3probe.cli.isolate_options import begin, isolate_options
from h3probe.cli.options import NumberRange, make_filters, output_options
from h3probe.cli.proxy_options import proxy_options
from h3probe.cli.write_options import write_options

if TYPE_CHECKING:
    from h3probe.cli.expect_options import ExpectOptions
    from h3probe.cli.isolate_options import IsolateOptions
    from h3probe.cli.proxy_options import ProxyOptions
    from h3probe.cli.write_options import WriteOptions
    from h3probe.run.recorder import Recorder

EPILOG = """\b
Examples:
  h3probe watch --isolate -- java -jar app.jar
  h3probe watch --isolate --block-udp -- curl --http3 https://example.org/
  sudo h3probe watch -- java -jar app.jar
  sudo h3probe watch -i eth0 --for 60 --origin example.org
  sudo h3probe watch -w trace.pcapng -- curl --http3 https://example.org/
  h3probe watch --isolate -w report.h3probe.zip -- java -jar app.jar
  sudo h3probe watch --client-log -- java -jar app.jar
  sudo h3probe watch --keylog k.log -w t.pcapng -- curl https://example.org/
  sudo h3probe watch --proxy 8899 -- java -jar app.jar
  sudo h3probe watch --client-log --expect h3 -- java -jar app.jar
  h3probe watch --relay 8443=example.org:443 -- ./client localhost:8443

\b
Exit status: the command's own (with --exit-code findings, and without a
command: 0 no problem, 1 a problem was found); 1 when --expect is not met and
the command ended well; 2 wrong usage.

\b
With --json, standard output has the records alone: what the command prints
there goes to standard error.
"""


@click.command(epilog=EPILOG, context_settings={"ignore_unknown_options": False})
@click.option("-i", "--interface", "interfaces", metavar="IFACE", multiple=True,
              help="Watch this interface (repeatable); all of them by default.")  # fmt: skip
@click.option("--relay", "relays", metavar="[HOST:]PORT=HOST:PORT", multiple=True,
              help="Forward TCP and UDP from a local port instead of sniffing; needs no privileges.")  # fmt: skip
@proxy_options
@isolate_options
@click.option("--for", "seconds", metavar="SECONDS", type=NumberRange(min=0.0, min_open=True),
              help="End after this time, the command too.")  # fmt: skip
@click.option("--pid", type=click.IntRange(min=1), help="Only a process that already runs, and its children.")
@click.option("--client-log", is_flag=True, help="Have the command's own HTTP client log, and read that as well.")
@click.option("--show-log", is_flag=True, help="With --client-log: let the log through to standard error.")
@click.option("--keylog", metavar="FILE",
              help="Have the command write its TLS secrets to FILE (mode 0600), and decrypt with them.")  # fmt: skip
@write_options
@output_options
@expect_options
@click.option("--exit-code", type=click.Choice(["command", "findings"]), default="command",
              help="What the exit status tells when a command was run.")  # fmt: skip
@click.argument("command", nargs=-1, metavar="[-- COMMAND ARGS...]", type=click.UNPROCESSED)
@click.pass_context
def watch(  # noqa: PLR0913 - one parameter per option
    ctx: click.Context,
    *,
    interfaces: tuple[str, ...],
    relays: tuple[str, ...],
    proxy: ProxyOptions,
    isolate: IsolateOptions,
    seconds: float | None,
    pid: int | None,
    client_log: bool,
    show_log: bool,
    keylog: str | None,
    write: WriteOptions,
    as_json: bool,
    expect: ExpectOptions,
    origins: tuple[str, ...],
    ports: tuple[int, ...],
    exit_code: str,
    command: tuple[str, ...],
) -> None:
    """Watch live traffic and say which HTTP version is used, and why not HTTP/3.

    Without a command it watches everything until Ctrl-C. With one it runs it, watches while it lives, and reports its
    traffic alone. Sniffing needs root or CAP_NET_RAW; --isolate and --relay need nothing.
    """
    isolation = isolate.spec()
    isolated = isolation is not None
    wrong = {
        "--isolate is for a command: h3probe watch --isolate -- COMMAND": isolated and not command,
        "--isolate excludes --relay, --interface and --pid: the command has a network of its own": isolated
        and bool(relays or interfaces or pid is not None),
        "--relay and --interface exclude each other: a relay sees what passes through it": relays and interfaces,
        "--relay and a proxy exclude each other": relays and proxy.given,
        "--pid and a command exclude each other": pid is not None and command,
        "--keylog is for a command that is sniffed: it is what writes its secrets there": keylog is not None
        and bool(relays or not command),
        "--client-log is for a command that is sniffed: its standard error is what is read": client_log
        and bool(relays or not command),
        "--show-log is for --client-log": show_log and not client_log,
    }
    for message, holds in wrong.items():
        if holds:
            raise click.UsageError(message)
    expected = expect.version
    write.check(keyed=keylog is not None)
    _check_pid(pid)
    proxy_spec = proxy.spec(isolated=isolated)
    # It takes as long as what is imported next, and goes on beside it.
    begun = None if isolation is None else begin(isolation, intercept=proxy.intercept is not None)
    from h3probe.engine import Engine  # noqa: PLC0415 - the decoders load here
    from h3probe.run.end import Plan  # noqa: PLC0415
    from h3probe.run.output import make_output  # noqa: PLC0415

    filters = make_filters(origins, ports)
    output = make_output(as_json=as_json)
    # Records that others read have standard output to themselves.
    stdout = sys.stderr.fileno() if as_json else None
    plan = Plan(
        interfaces,
        seconds,
        command,
        pid,
        stdout=stdout,
        client_log=client_log,
        show_log=show_log,
        keylog=keylog,
        force=write.force,
    )

    def make_recorder() -> Recorder | None:
        return write.recorder(output, command=command, interfaces=interfaces, keyed=keylog is not None)

    if relays:
        from h3probe.run.relaying import relay  # noqa: PLC0415
        from h3probe.vantage.relay import parse_relay  # noqa: PLC0415

        specs = [parse_relay(text) for text in relays]
        engine = Engine(", ".join(relays), "relay", filters, expects=expected)
        ended = relay(plan, specs, engine, output, make_recorder)
    elif begun is not None:
        from h3probe.run.isolating import Asked, run_isolated  # noqa: PLC0415 - Linux only

        engine = Engine("a network of its own", "live", filters, expects=expected)
        asked = Asked(begun, proxy.hosts, proxy.ca_file)
        ended = run_isolated(plan, asked, engine, output, make_recorder)
    else:
        from h3probe.run.sniffing import sniff  # noqa: PLC0415

        names = ", ".join(interfaces) or "all interfaces"
        engine = Engine(names, "live", filters, expects=expected)
        ended = sniff(plan, engine, output, make_recorder, proxy_spec)
    expect.report(engine)
    write.finish(output)
    if ended.command is not None and exit_code == "command":
        ctx.exit(ended.command if engine.as_expected else ended.command or engine.exit_status)
    ctx.exit(engine.exit_status)


def _check_pid(pid: int | None) -> None:
    if pid is None:
        return
    import psutil  # noqa: PLC0415 - only where it is used

    from h3probe.errors import UserError  # noqa: PLC0415

    if not psutil.pid_exists(pid):
        raise UserError(f"there is no process {pid}")
