"""Many scenarios played: those that mostly wait side by side, the others one after the other beside them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError
from h3probe.lab.judge import NotPlayed, Played

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from h3probe.lab.authority import Authority
    from h3probe.lab.clients import LabClient
    from h3probe.lab.scenario import Scenario

APART_S: Final = 2.0
"""From the start of one client that mostly waits to the next one's; cold JVMs would compete for the processors."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all scenarios have in common.

    Attributes:
        authority: Whose certificate the servers show.
        client: Who asks.
        no_networks: Why there are no networks of their own, one line; empty where there are.
        watch_options: Further options of `h3probe watch`, where there are.
    """

    authority: Authority
    client: LabClient
    no_networks: str
    watch_options: tuple[str, ...] = ()


async def play_all(
    scenarios: Sequence[Scenario], setting: Setting, told: Callable[[Played | NotPlayed], None]
) -> list[Played | NotPlayed]:
    """Play them.

    Args:
        scenarios: Any.
        setting: Where and with whom.
        told: Called with each result at once.

    Returns:
        A result for each, in their order.
    """
    one_by_one = asyncio.Lock()
    patient = [scenario for scenario in scenarios if scenario.patient]

    async def play(scenario: Scenario) -> Played | NotPlayed:
        if scenario.patient:
            await asyncio.sleep(APART_S * patient.index(scenario))
            result = await play_one(scenario, setting)
        else:
            async with one_by_one:
                result = await play_one(scenario, setting)
        told(result)
        return result

    async with asyncio.TaskGroup() as group:
        # The short ones begin when the last of the others has.
        begun = group.create_task(_hold(one_by_one, APART_S * len(patient)))
        await asyncio.sleep(0)
        tasks = [group.create_task(play(scenario)) for scenario in scenarios]
    begun.result()
    return [task.result() for task in tasks]


async def _hold(lock: asyncio.Lock, seconds: float) -> None:
    async with lock:
        await asyncio.sleep(seconds)


async def play_one(scenario: Scenario, setting: Setting) -> Played | NotPlayed:
    """Play one, in a network of its own where there are such, else behind a relay where that can do it."""
    from h3probe.lab.demo import play as play_behind_relay  # noqa: PLC0415 - loads the engine
    from h3probe.lab.isolated import play_isolated  # noqa: PLC0415 - loaded when used

    obstacle = setting.client.obstacle(scenario)
    beyond = scenario.beyond_relay
    if not obstacle and setting.no_networks and beyond:
        obstacle = f"{beyond} takes a network of its own: {setting.no_networks}"
    if obstacle:
        return NotPlayed(scenario, obstacle)
    try:
        if not setting.no_networks:
            return await play_isolated(scenario, setting.authority, setting.client, setting.watch_options)
        with_log = "--client-log" in setting.watch_options
        return await play_behind_relay(scenario, setting.authority, lambda _: None, setting.client, with_log=with_log)
    except UserError as error:
        return NotPlayed(scenario, str(error), failed=True)
