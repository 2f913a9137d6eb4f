"""One scenario played: servers, a relay in front, a client, the engine, and what should have come of it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from h3probe.engine import Engine
from h3probe.errors import UserError
from h3probe.events import Unreadable
from h3probe.lab.client import Client, Policy, Timeouts
from h3probe.lab.clients import Place, run_client
from h3probe.lab.connect_proxy import connect_proxy
from h3probe.lab.isolated import change
from h3probe.lab.judge import Played, judge
from h3probe.lab.servers import running
from h3probe.vantage.relay import Relay, RelaySpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.diagnose.story import Vantage
    from h3probe.events import Event
    from h3probe.lab.authority import Authority
    from h3probe.lab.clients import LabClient
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.scenario import Scenario
    from h3probe.lab.servers import Server
    from h3probe.records import AnyRecord, Moment

_SETTLE_SECONDS = 0.05
"""For the last FIN and CONNECTION_CLOSE to pass the relay."""


async def play(  # noqa: PLR0913 - all of it is chosen by whoever plays
    scenario: Scenario,
    authority: Authority,
    on_moment: Callable[[Moment], None],
    other: LabClient | None = None,
    *,
    with_log: bool = False,
    vantage: Vantage = "wire",
) -> Played:
    """Play a scenario and compare what came of it with what should have.

    Args:
        scenario: Which.
        authority: Whose certificate the server shows and the client trusts.
        on_moment: Called with what happens, while it happens.
        other: Another client instead of the built-in one.
        with_log: Whether its own log is read too.
        vantage: What h3probe takes the relay for. The client is the lab's, and nothing of it goes past the relay: what
            is not seen there was not sent. That is more than who stands at any relay knows.

    Raises:
        UserError: The servers or the client cannot be started, or no relay can do what the network does.
    """
    impairment = scenario.network.impairment
    if impairment is None or scenario.beyond_relay:
        raise UserError(f"a relay cannot do {scenario.beyond_relay}")
    alone = other.name if other is not None and with_log else None
    engine = Engine(source=f"demo {scenario.name}", format="relay", vantage=vantage, alone=alone)
    records: list[AnyRecord] = []

    def on_event(event: Event) -> None:
        records.extend(engine.feed(event))
        for moment in engine.take_moments():
            on_moment(moment)

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(scenario.server, authority))
        target = await stack.enter_async_context(connect_proxy()) if scenario.proxy else server.port
        relay = await stack.enter_async_context(
            Relay(RelaySpec(None, 0, "localhost", target), on_event, impair=impairment)
        )
        # Before a proxy the relay is the proxy to the client; before the server it is the origin, and is advertised.
        if not scenario.proxy:
            server.advertise(relay.port)
        url = server.url if scenario.proxy else f"https://localhost:{relay.port}/"
        place = Place(url, relay.port if scenario.proxy else 0, authority)
        if other is None:
            outcomes = await _run_builtin(scenario, place, server)
        else:
            argv, folder = other.argv(scenario, place), authority.ca_file.parent
            on_log = on_event if with_log else None
            outcomes = await run_client(other, argv, folder, lambda each: change(server, scenario, each), on_log)
        await asyncio.sleep(_SETTLE_SECONDS)
    if relay.blind is not None:
        records.extend(engine.feed(Unreadable(relay.blind)))
    records.extend(engine.finish())
    for moment in engine.take_moments():
        on_moment(moment)
    expect = scenario.expect if other is None else other.expects(scenario)
    misses = [] if expect is None else judge(expect, outcomes, records, with_log=with_log)
    return Played(scenario, outcomes, records, misses, judged=expect is not None)


async def _run_builtin(scenario: Scenario, place: Place, server: Server) -> list[Outcome]:
    outcomes = []
    proxy = ("127.0.0.1", place.proxy_port) if place.proxy_port else None
    timeouts = Timeouts(advertised=scenario.timeout) if scenario.timeout is not None else Timeouts()
    async with Client(Policy(scenario.policy), place.authority.ca_file, proxy=proxy, timeouts=timeouts) as client:
        for number in range(1, scenario.requests + 1):
            outcomes.append(await client.get(place.url))
            if number == scenario.network.dropped_after:
                await client.disconnect()
            change(server, scenario, outcomes[-1])
    return outcomes
