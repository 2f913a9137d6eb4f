from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.lab import runs
from h3probe.lab.clients import BuiltinClient, CurlClient
from h3probe.lab.judge import NotPlayed, Played
from h3probe.lab.runs import Setting, play_all, play_one
from h3probe.lab.scenario import load_scenarios, parse_scenario

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority
    from h3probe.lab.scenario import Scenario

SCENARIOS = {scenario.name: scenario for scenario in load_scenarios()}


def made_up(name: str, *, patient: bool) -> Scenario:
    """A scenario that is never really played."""
    text = f'title="a"\nabout="b"\npatient={str(patient).lower()}\nserver.kind="h3"\nexpect.versions=["any"]'
    return parse_scenario(name, text)


def test_a_relay_plays_what_it_can(authority: Authority) -> None:
    """Without networks of their own, a scenario of dropped datagrams is played behind a relay."""
    setting = Setting(authority, BuiltinClient(), "no pasta here")
    result = asyncio.run(play_one(SCENARIOS["connect-tunnel"], setting))
    assert isinstance(result, Played)
    assert result.misses == []


@pytest.mark.parametrize(
    ("name", "what"),
    [("packet-loss", "losing 3 % of all packets"), ("alt-svc-other-port", "HTTP/3 on another port")],
)
def test_what_a_relay_cannot_do_is_not_played(name: str, what: str, authority: Authority) -> None:
    """The reason names what it is, and why there is no network."""
    setting = Setting(authority, BuiltinClient(), "no pasta here")
    result = asyncio.run(play_one(SCENARIOS[name], setting))
    assert isinstance(result, NotPlayed)
    assert result.reason == f"{what} takes a network of its own: no pasta here"
    assert not result.failed


def test_what_a_client_cannot_do_is_not_played(authority: Authority) -> None:
    """The client's own reason comes first."""
    result = asyncio.run(play_one(SCENARIOS["stale-alt-svc"], Setting(authority, CurlClient("curl"), "no pasta here")))
    assert isinstance(result, NotPlayed)
    assert result.reason == "it is not for curl"


def test_a_failure_is_a_result(authority: Authority) -> None:
    """A client that cannot be started ends its scenario and no other."""
    setting = Setting(authority, CurlClient("/nonexistent/curl"), "no pasta here")
    result = asyncio.run(play_one(SCENARIOS["udp-refused"], setting))
    assert isinstance(result, NotPlayed)
    assert result.failed
    assert "/nonexistent/curl cannot be run" in result.reason


def test_the_patient_run_side_by_side(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait overlap with others; the others never overlap with each other; results keep their order."""
    running: set[str] = set()
    beside: dict[str, set[str]] = {}

    async def play(scenario: Scenario, setting: Setting) -> NotPlayed:
        assert setting.authority is authority
        running.add(scenario.name)
        for name in running:
            beside.setdefault(name, set()).update(running)
        await asyncio.sleep(0.3 if scenario.patient else 0.02)
        running.discard(scenario.name)
        return NotPlayed(scenario, "made up")

    monkeypatch.setattr(runs, "play_one", play)
    monkeypatch.setattr(runs, "APART_S", 0.01)
    scenarios = [made_up(name, patient=name.startswith("patient")) for name in ("a", "patient-1", "b", "patient-2")]
    told: list[str] = []
    setting = Setting(authority, BuiltinClient(), "")
    results = asyncio.run(play_all(scenarios, setting, lambda result: told.append(result.scenario.name)))
    assert [result.scenario.name for result in results] == ["a", "patient-1", "b", "patient-2"]
    assert sorted(told) == ["a", "b", "patient-1", "patient-2"]
    assert "patient-2" in beside["patient-1"]
    assert "b" not in beside["a"]


def test_an_unknown_network_is_an_error_of_the_relay(authority: Authority) -> None:
    """Who plays behind a relay what a relay cannot do is told so."""
    from h3probe.lab.demo import play  # noqa: PLC0415 - loads the engine

    with pytest.raises(UserError, match="a relay cannot do"):
        asyncio.run(play(SCENARIOS["packet-loss"], authority, lambda _: None))
