"""One scenario played: servers, a relay in front, a client, the engine, and what should have come of it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.engine import Engine
from h3probe.events import Unreadable
from h3probe.lab.client import Client, Policy, Timeouts
from h3probe.lab.connect_proxy import connect_proxy
from h3probe.lab.java import run_probe
from h3probe.lab.servers import running
from h3probe.records import FindingRecord, QuicRecord, TcpRecord, VerdictRecord
from h3probe.vantage.relay import Relay, RelaySpec
from h3probe.vantage.relay_udp import Impairment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from h3probe.events import Frame
    from h3probe.lab.authority import Authority
    from h3probe.lab.java import JavaRuntime
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.scenario import Expectation, Scenario
    from h3probe.lab.servers import Server
    from h3probe.records import AnyRecord, Moment

_SETTLE_SECONDS = 0.05
"""For the last FIN and CONNECTION_CLOSE to pass the relay."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a scenario.

    Attributes:
        scenario: Which.
        outcomes: What the client itself says.
        records: What h3probe says.
        misses: What was expected otherwise, a sentence each.
    """

    scenario: Scenario
    outcomes: list[Outcome]
    records: list[AnyRecord]
    misses: list[str]

    @property
    def verdict(self) -> str:
        """The verdict's sentence, or that there is none."""
        return next((record.sentence for record in self.records if isinstance(record, VerdictRecord)), "no verdict")


async def play(
    scenario: Scenario, authority: Authority, on_moment: Callable[[Moment], None], java: JavaRuntime | None = None
) -> Played:
    """Play a scenario and compare what came of it with what should have.

    Args:
        scenario: Which.
        authority: Whose certificate the server shows and the client trusts.
        on_moment: Called with what happens, while it happens.
        java: A real client instead of the built-in one.

    Raises:
        UserError: The servers or the client cannot be started.
    """
    # The client is ours, and nothing of it goes past the relay: what is not seen here was not sent.
    engine = Engine(source=f"demo {scenario.name}", format="relay", vantage="wire")
    records: list[AnyRecord] = []

    def on_frame(frame: Frame) -> None:
        records.extend(engine.feed(frame))
        for moment in engine.take_moments():
            on_moment(moment)

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(scenario.server, authority))
        target = await stack.enter_async_context(connect_proxy()) if scenario.proxy else server.port
        relay = await stack.enter_async_context(
            Relay(RelaySpec(None, 0, "localhost", target), on_frame, impair=_impairment(scenario))
        )
        # Before a proxy the relay is the proxy to the client; before the server it is the origin, and is advertised.
        if not scenario.proxy:
            server.advertise(relay.port)
        outcomes = await _run_client(scenario, authority, server, relay.port, java)
        await asyncio.sleep(_SETTLE_SECONDS)
    if relay.blind is not None:
        records.extend(engine.feed(Unreadable(relay.blind)))
    records.extend(engine.finish())
    for moment in engine.take_moments():
        on_moment(moment)
    expect = scenario.java.expect if java is not None else scenario.expect
    return Played(scenario, outcomes, records, judge(expect, outcomes, records))


def _impairment(scenario: Scenario) -> Impairment:
    return Impairment(drop_udp=scenario.network == "dropped", refuse_udp=scenario.network == "refused")


async def _run_client(
    scenario: Scenario, authority: Authority, server: Server, relay_port: int, java: JavaRuntime | None
) -> list[Outcome]:
    url = server.url if scenario.proxy else f"https://localhost:{relay_port}/"
    if java is not None:

        def told(outcome: Outcome) -> None:
            server.site.swallows_udp = 0 < scenario.dropped_after <= outcome.number

        proxy_port = relay_port if scenario.proxy else 0
        return await run_probe(java, scenario, authority, url, proxy_port=proxy_port, told=told)
    outcomes = []
    proxy = ("127.0.0.1", relay_port) if scenario.proxy else None
    timeouts = Timeouts(advertised=scenario.timeout) if scenario.timeout is not None else Timeouts()
    async with Client(Policy(scenario.policy), authority.ca_file, proxy=proxy, timeouts=timeouts) as client:
        for number in range(1, scenario.requests + 1):
            outcomes.append(await client.get(url))
            if number == scenario.dropped_after:
                await client.disconnect()
                server.site.swallows_udp = True
    return outcomes


def judge(expect: Expectation, outcomes: Sequence[Outcome], records: Sequence[AnyRecord]) -> list[str]:
    """What came otherwise than expected, a sentence each."""
    misses = []
    seen = [outcome.version or "error" for outcome in outcomes]
    if len(seen) != len(expect.versions) or any(
        want not in {"any", got} for want, got in zip(expect.versions, seen, strict=True)
    ):
        misses.append(f"the client saw {', '.join(seen)}; expected {', '.join(expect.versions)}")
    for name, kind, wanted in (("QUIC", QuicRecord, expect.quic), ("TCP", TcpRecord, expect.tcp)):
        outcomes_seen = tuple(str(record.outcome) for record in records if isinstance(record, kind))
        if wanted is not None and outcomes_seen != wanted:
            misses.append(f"{name}: {', '.join(outcomes_seen) or 'nothing'}; expected {', '.join(wanted) or 'nothing'}")
    fired = {record.rule for record in records if isinstance(record, FindingRecord)}
    misses += [f"no finding {rule}" for rule in expect.findings if rule not in fired]
    misses += [f"finding {rule}, which is wrong here" for rule in expect.absent if rule in fired]
    said = " ".join(record.sentence for record in records if isinstance(record, VerdictRecord)).lower()
    misses += [f"the verdict does not say {words!r}" for words in expect.verdict if words.lower() not in said]
    return misses
