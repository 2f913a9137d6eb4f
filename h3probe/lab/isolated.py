"""A scenario played in a network of its own: `h3probe watch --isolate` around the client, the servers outside of it.

h3probe runs as anyone would run it, in a process of its own, so that what it has to do takes nothing from the servers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError
from h3probe.lab.clients import RUN_SECONDS, LabClient, Place, read_all
from h3probe.lab.connect_proxy import connect_proxy
from h3probe.lab.judge import Played, judge
from h3probe.lab.servers import running
from h3probe.lab.sockets import Counter
from h3probe.records import SummaryRecord
from h3probe.show.ndjson_read import from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from h3probe.lab.authority import Authority
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.scenario import Scenario
    from h3probe.lab.servers import Server
    from h3probe.records import AnyRecord

_H3PROBE: Final = (sys.executable, "-P", "-m", "h3probe")
_PREFIX: Final = "h3probe: "
_GRACE_S: Final = 5.0


def obstacle() -> str:
    """Why there are no networks of one's own here, in one line; empty where there are."""
    from h3probe.vantage.isolate.obstacles import check_platform  # noqa: PLC0415 - loaded when asked for

    try:
        check_platform()
        from h3probe.vantage.isolate.isolation import Isolation  # noqa: PLC0415 - Linux only
        from h3probe.vantage.isolate.spec import IsolateSpec  # noqa: PLC0415 - the same

        with Isolation(IsolateSpec()):
            return ""
    except UserError as error:
        # The way around that such an error names is what the lab does anyway.
        return str(error).removeprefix("--isolate: ").partition(", or take ")[0]


async def play_isolated(
    scenario: Scenario, authority: Authority, client: LabClient, options: Sequence[str] = ()
) -> Played:
    """Play a scenario and compare what came of it with what should have.

    Args:
        scenario: Which.
        authority: Whose certificate the server shows and the client trusts.
        client: Who asks.
        options: Further ones of `h3probe watch`.

    Raises:
        UserError: The servers or the client cannot be started, or there is no such network.
    """
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(scenario.server, authority))
        proxy_port = await stack.enter_async_context(connect_proxy()) if scenario.proxy else 0
        place = Place(server.url, proxy_port, authority)
        played = await play_watched(scenario, server, client, place, ("--isolate", *scenario.network.options, *options))
    expect = client.expects(scenario)
    if expect is None:
        return played
    misses = judge(expect, played.outcomes, played.records, played.counted, with_log="--client-log" in options)
    return replace(played, misses=misses, judged=True)


async def play_watched(  # noqa: PLR0913, PLR0917 - what there is to say of it
    scenario: Scenario,
    server: Server,
    client: LabClient,
    place: Place,
    options: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> Played:
    """Run a client under `h3probe watch`, and do to its server what the scenario has happen.

    Args:
        scenario: Which.
        server: It runs already.
        client: Who asks.
        place: Where it finds the server.
        options: Of `h3probe watch`.
        environment: What to add to this process's own.

    Returns:
        What came of it, not judged.

    Raises:
        UserError: h3probe or the client cannot be started, or does not end.
    """
    command = client.argv(scenario, place)
    async with AsyncExitStack() as stack:
        process = await asyncio.create_subprocess_exec(
            *(*_H3PROBE, "watch", "--json", *options, "--", *command),
            cwd=place.authority.ca_file.parent,
            env=None if environment is None else os.environ | environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stack.push_async_callback(_end, process)
        counter = Counter(process.pid, Path(command[0]).name)
        if scenario.java.clients:
            counting = asyncio.create_task(counter.count())
            stack.callback(counting.cancel)
        said: list[str] = []
        outcomes: list[Outcome] = []
        asked_ns: list[int] = []

        def line(text: str) -> None:
            outcome = client.outcome(text, len(outcomes) + 1)
            said.append(text)
            if outcome is not None:
                outcomes.append(outcome)
                asked_ns.append(time.time_ns() - round(outcome.seconds * 1e9))
                change(server, scenario, outcome)

        records = await _finish(process, line)
    if not any(isinstance(record, SummaryRecord) for record in records):
        raise UserError(_complaint(said) or f"h3probe watch ended with status {process.returncode}")
    asked = asked_ns[0] if asked_ns else None
    return Played(scenario, outcomes, records, counted=counter.most, judged=False, asked_ns=asked, said=said)


def change(server: Server, scenario: Scenario, outcome: Outcome) -> None:
    """Do to the server what the scenario has happen after a request."""
    server.site.swallows_udp = 0 < scenario.network.dropped_after <= outcome.number
    if 0 < scenario.clears_after <= outcome.number:
        server.site.alt_svc = "clear"


async def _finish(process: asyncio.subprocess.Process, line: Callable[[str], None]) -> list[AnyRecord]:
    """Read all it says until its end."""

    async def listen() -> None:
        while process.stderr is not None and (text := await process.stderr.readline()):
            line(text.decode("utf-8", "replace").rstrip())

    try:
        async with asyncio.timeout(RUN_SECONDS):
            printed, _ = await asyncio.gather(read_all(process.stdout), listen())
            await process.wait()
    except TimeoutError:
        raise UserError(f"the client did not finish within {RUN_SECONDS:g} s") from None
    return [from_json(each) for each in printed.splitlines()]


async def _end(process: asyncio.subprocess.Process) -> None:
    """End it, and with it the client; `watch` passes the signal on."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await process.wait()


def _complaint(said: list[str]) -> str:
    mine = [text.removeprefix(_PREFIX) for text in said if text.startswith(_PREFIX)]
    return mine[-1] if mine else (said[-1] if said else "")
