"""`h3probe lab`: test servers on loopback, for any client."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click

from h3probe.cli import nearest
from h3probe.cli.lab_matrix import matrix
from h3probe.cli.lab_run import run
from h3probe.errors import UserError
from h3probe.run.stop import Stop

if TYPE_CHECKING:
    from pathlib import Path

    from h3probe.lab.authority import Authority
    from h3probe.lab.servers import Server, ServerSpec

FIRST_PORTS = range(4433, 10_000, 1000)
"""Where the servers go when nobody says: the first block that is free."""


@click.group(
    epilog="""\b
Examples:
  h3probe lab list
  h3probe lab up h2-advertises-silent-h3
  h3probe lab run all
  h3probe lab matrix
"""
)
def lab() -> None:
    """Test servers on loopback, to try any client against, and scenarios around them."""


lab.add_command(run)
lab.add_command(matrix)


@lab.command("list")
def list_all() -> None:
    """List the servers, the scenarios and the articles' experiments."""
    from h3probe.lab.article import load_experiments  # noqa: PLC0415 - loaded when asked for
    from h3probe.lab.scenario import load_scenarios  # noqa: PLC0415 - the same
    from h3probe.lab.servers import SERVERS  # noqa: PLC0415 - the same
    from h3probe.show.console import Console  # noqa: PLC0415 - the same

    console = Console(sys.stdout)
    lists = {
        "Servers": {name: spec.summary for name, spec in SERVERS.items()},
        "Scenarios": {each.name: each.title for each in load_scenarios()},
        "The articles' experiments": {each.name: f"{each.title} ({each.source})" for each in load_experiments()},
    }
    width = max(len(name) for named in lists.values() for name in named)
    for heading, named in lists.items():
        console.heading(heading)
        for name, text in named.items():
            console.row([(f"{name:<{width}}  ", "bold")], text)
    console.blank()
    console.note(
        "h3probe lab up [NAME] starts a server, or all; h3probe lab run NAME plays a scenario or an experiment."
    )


@lab.command(
    epilog="""\b
Examples:
  h3probe lab up                                all servers, on consecutive ports
  h3probe lab up h3-slow --delay 500 --port 8443
"""
)
@click.argument("name", required=False)
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the first server.  [default: 4433, or a free one]")
@click.option("--delay", type=click.IntRange(0, 60_000), metavar="MS", help="How long h3-slow holds its answer back.")
def up(name: str | None, port: int | None, delay: int | None) -> None:
    """Start the servers (or the one named NAME) and serve until Ctrl-C.

    They listen on 127.0.0.1 and ::1 with a certificate for localhost, signed by an authority that is made now
    and forgotten at the end.
    """
    from h3probe.lab.servers import SERVERS, find_server, temporary_authority  # noqa: PLC0415 - loaded when asked for

    if name is not None and name not in SERVERS:
        raise UserError(f"no server '{name}'{nearest(name, list(SERVERS)) or '; `h3probe lab list` lists them'}")
    specs = {each: find_server(each) for each in ([name] if name else SERVERS)}
    if delay is not None:
        if name not in {None, "h3-slow"}:
            raise UserError(f"--delay is for h3-slow, not for {name}")
        specs["h3-slow"] = specs["h3-slow"].delayed(delay / 1000)
    with temporary_authority() as authority:
        asyncio.run(_serve(specs, authority, port))


async def _serve(specs: dict[str, ServerSpec], authority: Authority, port: int | None) -> None:
    with Stop() as stop:
        async with AsyncExitStack() as stack:
            servers = await _start(stack, specs, authority, port)
            _tell(servers, authority)
            await asyncio.get_running_loop().sock_recv(stop.wake, 1)


async def _start(
    stack: AsyncExitStack, specs: dict[str, ServerSpec], authority: Authority, port: int | None
) -> dict[str, Server]:
    """Start the servers on consecutive ports.

    Raises:
        UserError: The ports that were asked for are in use, or none are free.
    """
    first_ports = FIRST_PORTS if port is None else (port,)
    for first in first_ports:
        async with AsyncExitStack() as attempt:
            try:
                servers = await _start_from(attempt, specs, authority, first)
            except UserError:
                if first == first_ports[-1]:
                    raise
                continue
            stack.push_async_exit(attempt.pop_all())
            return servers
    raise AssertionError  # the last port returns or raises


async def _start_from(
    stack: AsyncExitStack, specs: dict[str, ServerSpec], authority: Authority, port: int
) -> dict[str, Server]:
    from h3probe.lab.servers import running  # noqa: PLC0415 - loads what the servers need

    servers: dict[str, Server] = {}
    for name, spec in specs.items():
        servers[name] = await stack.enter_async_context(running(spec, authority, port=port, quic_port=port + 1))
        port += 2 if spec.other_port else 1
    return servers


def _tell(servers: dict[str, Server], authority: Authority) -> None:
    """Say what runs where, and what to try."""
    from h3probe.show.console import Console  # noqa: PLC0415 - loaded when asked for

    console = Console(sys.stdout)
    width = max(len(name) for name in servers)
    for name, server in servers.items():
        url = f"{server.url:<24}"
        delay = f", {server.spec.delay * 1000:.0f} ms" if server.spec.delay else ""
        elsewhere = f" ({server.quic_port})" if server.spec.other_port else ""
        console.row([(f"{name:<{width}}  ", "bold"), (f"{url}  ", "cyan")], server.spec.summary + delay + elsewhere)
    server = servers.get("h3") or next(iter(servers.values()))
    console.blank()
    console.row([("CA file  ", "bold")], str(authority.ca_file))
    for title, command in (("curl", _curl(server, authority.ca_file)), ("Java 26", _java(server, authority))):
        console.blank()
        console.text(title, style="bold")
        # Not wrapped: it is there to be copied.
        click.echo(command)
    console.blank()
    console.note("Ctrl-C ends the servers and removes the files.")
    sys.stdout.flush()


def _curl(server: Server, ca_file: Path) -> str:
    option = "--http3 " if server.spec.udp == "answers" or server.spec.advertises else ""
    return f"curl {option}--cacert {ca_file} {server.url}"


def _java(server: Server, authority: Authority) -> str:
    from h3probe.lab.authority import TRUST_STORE_PASSWORD  # noqa: PLC0415 - loads cryptography
    from h3probe.lab.java import PROBE  # noqa: PLC0415 - the same

    return (
        f"java -Djavax.net.ssl.trustStore={authority.trust_store}"
        f" -Djavax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD} {PROBE} {server.url} client ANY 4"
    )
