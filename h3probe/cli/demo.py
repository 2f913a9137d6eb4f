"""`h3probe demo`: scenarios on loopback, watched and explained."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from h3probe.run.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from h3probe.lab.java import JavaRuntime
    from h3probe.lab.judge import Played
    from h3probe.lab.scenario import Scenario
    from h3probe.show.console import Console, Part


@click.command(
    epilog="""\b
Examples:
  h3probe demo                       the built-in client
  h3probe demo --java                a JDK 26: $H3PROBE_JAVA, or of PATH
  h3probe demo --java /opt/jdk-26
"""
)
@click.option(
    "--java",
    "java_path",
    is_flag=False,
    flag_value="",
    metavar="[PATH]",
    help="Use a real Java (a JDK 26) instead of the built-in client.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the records as NDJSON: one output after the other.")
def demo(*, java_path: str | None, as_json: bool) -> int:
    """See h3probe work: servers, a client and a network with something wrong in it, all on loopback.

    It needs no privileges. Each scenario is shown as it happens, then what h3probe makes of it, then what the
    client itself says. The exit status is 0 when h3probe was right each time, else 1.
    """
    from h3probe.lab.java import find_java  # noqa: PLC0415 - loaded when asked for
    from h3probe.lab.scenario import demo_scenarios  # noqa: PLC0415 - the same

    scenarios = demo_scenarios()
    java = None if java_path is None else find_java(java_path or None)
    # The relay's sockets are watched with `add_reader`, which Windows' own kind of loop does not have.
    factory = asyncio.SelectorEventLoop if sys.platform == "win32" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(until_stopped(_play_all(scenarios, java, as_json=as_json)))


async def until_stopped(play: Coroutine[Any, Any, int]) -> int:
    """Its exit status, or a shell's for the signal that ended it."""
    with Stop() as stop:
        playing = asyncio.create_task(play)
        signalled = asyncio.create_task(asyncio.get_running_loop().sock_recv(stop.wake, 1))
        await asyncio.wait({playing, signalled}, return_when=asyncio.FIRST_COMPLETED)
        for task in (playing, signalled):
            task.cancel()
        try:
            return await playing
        except asyncio.CancelledError:
            return 128 + (stop.requested or 0)


async def _play_all(scenarios: list[Scenario], java: JavaRuntime | None, *, as_json: bool) -> int:
    from h3probe.lab.clients import JavaClient  # noqa: PLC0415 - the same
    from h3probe.lab.demo import play  # noqa: PLC0415 - loads the engine, the servers and the client
    from h3probe.lab.servers import temporary_authority  # noqa: PLC0415 - the same
    from h3probe.show.console import Console  # noqa: PLC0415 - loaded when asked for
    from h3probe.show.ndjson import NdjsonWriter  # noqa: PLC0415 - the same

    other = None if java is None else JavaClient(java)
    console = None if as_json else Console(sys.stdout)
    writer = NdjsonWriter(sys.stdout)
    played: list[Played] = []
    started = time.monotonic()
    with temporary_authority() as authority:
        if console is not None and java is not None:
            console.note(f"{java.program}: {java.version}")
        for number, scenario in enumerate(scenarios, 1):
            if console is None:
                result = await play(scenario, authority, lambda _: None, other)
                for record in result.records:
                    writer.write(record)
            else:
                console.heading(f"{number}  {scenario.title}")
                console.note(scenario.about)
                result = await play(scenario, authority, console.moment, other)
                _show(console, result)
            played.append(result)
    if console is not None:
        _show_table(console, played, time.monotonic() - started)
    return 1 if any(result.misses for result in played) else 0


def _show(console: Console, played: Played) -> None:
    """What h3probe says, then what the client says."""
    from h3probe.show.end import render_end  # noqa: PLC0415 - loaded when asked for

    render_end(console, played.records)
    console.blank()
    console.text("The client itself", style="bold")
    for outcome in played.outcomes:
        style = "green" if outcome.version else "red"
        before: list[Part] = [(f"  request {outcome.number}  ", ""), (f"{outcome.version or 'error':<8}  ", style)]
        said = f"{outcome.status}" if outcome.status is not None else outcome.error or ""
        console.row([*before, (f"{outcome.seconds * 1000:>6.0f} ms  ", "dim")], said)
    for miss in played.misses:
        console.row([(f"{console.symbols.bad} ", "red")], f"not as expected: {miss}")


def _show_table(console: Console, played: list[Played], took: float) -> None:
    """A line for each scenario."""
    console.heading("Summary")
    width = max(len(result.scenario.name) for result in played)
    for result in played:
        mark, style = (console.symbols.bad, "red") if result.misses else (console.symbols.good, "green")
        console.row([(f"{mark} ", style), (f"{result.scenario.name:<{width}}  ", "bold")], result.verdict)
    right = sum(not result.misses for result in played)
    console.blank()
    console.note(f"{right} of {len(played)} as expected, in {took:.1f} s")
