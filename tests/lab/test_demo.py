from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING

import pytest

from h3probe.lab.article import load_experiments
from h3probe.lab.clients import JavaClient
from h3probe.lab.demo import play
from h3probe.lab.java import find_java
from h3probe.lab.scenario import demo_scenarios
from h3probe.records import CaptureRecord, SummaryRecord
from tests.real.parts import NOT_ROOT, SET_UP, RealParts

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority
    from h3probe.lab.java import JavaRuntime
    from h3probe.lab.scenario import Scenario
    from h3probe.records import Moment


@pytest.mark.parametrize("scenario", demo_scenarios(), ids=lambda scenario: scenario.name)
def test_scenario(authority: Authority, scenario: Scenario) -> None:
    """The client meets the network that the scenario describes, and h3probe says what it should say."""
    moments: list[Moment] = []
    played = asyncio.run(play(scenario, authority, moments.append))
    assert played.misses == []
    assert moments
    assert isinstance(played.records[0], CaptureRecord)
    assert isinstance(played.records[-1], SummaryRecord)


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaRuntime:
    """A real JDK 26, in the root that `scripts/real-parts` sets up."""
    parts = RealParts.find()
    if parts is None:
        pytest.skip(SET_UP)
    if os.geteuid() != 0:
        pytest.skip(NOT_ROOT)
    launcher = tmp_path_factory.mktemp("java") / "java"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(parts.command(["java"]))} "$@"\n')
    launcher.chmod(0o755)
    return find_java(str(launcher))


@pytest.mark.real
@pytest.mark.parametrize("scenario", demo_scenarios(), ids=lambda scenario: scenario.name)
def test_scenario_with_java(authority: Authority, java: JavaRuntime, scenario: Scenario) -> None:
    """A real JDK 26 behaves as the built-in client does in its place, and h3probe is right about it too."""
    played = asyncio.run(play(scenario, authority, lambda _: None, JavaClient(java)))
    assert played.misses == []


@pytest.mark.real
def test_the_clients_log_beside_a_relay(authority: Authority, java: JavaRuntime) -> None:
    """What only the client's log tells is found behind a relay too: request 2 failed with an earlier one's attempt."""
    (blocked,) = [each for each in load_experiments() if each.name == "20-advertised-and-blocked"]
    outage = blocked.runs[1].scenario
    played = asyncio.run(play(outage, authority, lambda _: None, JavaClient(java), with_log=True))
    assert played.misses == []
    assert {"joined-failing-attempt", "stuck-on-quic"} <= {finding.rule for finding in played.findings}
