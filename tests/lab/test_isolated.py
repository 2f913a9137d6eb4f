from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.lab import isolated
from h3probe.lab.clients import BuiltinClient
from h3probe.lab.isolated import change, obstacle, play_isolated
from h3probe.lab.outcome import Outcome
from h3probe.lab.scenario import load_scenarios
from h3probe.lab.servers import Server, find_server
from h3probe.lab.site import Site

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority

SCENARIOS = {scenario.name: scenario for scenario in load_scenarios()}
STALE = SCENARIOS["stale-alt-svc"]


def test_the_server_changes_after_its_request() -> None:
    """UDP is dropped, and Alt-Svc cleared, after the request that the scenario names and not before."""
    server = Server(find_server("h3"), 1, 1, Site(alt_svc='h3=":1"'))
    scenario = dataclasses.replace(STALE, clears_after=1)
    seen = []
    for number in (1, 2):
        change(server, scenario, Outcome(number, "HTTP/2", 200, None, 0.1))
        seen.append((server.site.swallows_udp, server.site.alt_svc))
    assert seen == [(False, "clear"), (True, "clear")]


def test_a_scenario_without_changes_changes_nothing() -> None:
    """Alt-Svc and UDP stay as they are."""
    server = Server(find_server("h3"), 1, 1, Site(alt_svc='h3=":1"'))
    change(server, SCENARIOS["alt-svc"], Outcome(3, "HTTP/3", 200, None, 0.1))
    assert (server.site.swallows_udp, server.site.alt_svc) == (False, 'h3=":1"')


@pytest.mark.skipif(not obstacle(), reason="there are networks of their own here")
def test_without_networks_of_their_own_it_says_why() -> None:
    """The obstacle is one line without the option's name and without the way around that the lab takes anyway."""
    assert "\n" not in obstacle()
    assert "--isolate" not in obstacle()
    assert "--relay" not in obstacle()


def test_a_watch_that_fails_is_its_last_word(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """What h3probe says for itself is the error; the client's noise is not."""
    words = "echo noise >&2; echo h3probe: it is not possible here >&2; exit 2"
    monkeypatch.setattr(isolated, "_H3PROBE", ("sh", "-c", words))
    with pytest.raises(UserError, match=r"^it is not possible here$"):
        asyncio.run(play_isolated(SCENARIOS["alt-svc"], authority, BuiltinClient()))


@pytest.mark.skipif(bool(obstacle()), reason=f"no networks of their own here: {obstacle()}")
@pytest.mark.parametrize("name", ["udp-one-way", "host-unreachable", "small-mtu"])
def test_networks_that_no_relay_can_be(authority: Authority, name: str) -> None:
    """In a network of its own the built-in client meets what the scenario says, and h3probe explains it."""
    played = asyncio.run(play_isolated(SCENARIOS[name], authority, BuiltinClient()))
    assert played.misses == []
