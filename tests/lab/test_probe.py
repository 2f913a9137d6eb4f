from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from h3probe.lab.clients import BuiltinClient, Place, run_client
from h3probe.lab.scenario import load_scenarios
from h3probe.lab.servers import find_server, running

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority
    from h3probe.lab.outcome import Outcome


def test_it_is_the_built_in_client(authority: Authority) -> None:
    """As a program of its own the client does what it does inside, and prints a line for each request."""
    scenario = next(each for each in load_scenarios() if each.name == "alt-svc")

    async def play() -> list[Outcome]:
        async with running(find_server("h3"), authority) as server:
            client = BuiltinClient()
            argv = client.argv(scenario, Place(server.url, 0, authority))
            return await run_client(client, argv, authority.ca_file.parent, lambda _: None)

    assert [outcome.version for outcome in asyncio.run(play())] == ["HTTP/2", "HTTP/3", "HTTP/3"]
