from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.lab.chromium import FORCED, LEARNS, ChromiumClient, find_chromium
from h3probe.lab.clients import Place
from h3probe.lab.outcome import Outcome
from h3probe.lab.scenario import load_scenarios

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority

URL = "https://localhost:4433/"
SCENARIOS = {scenario.name: scenario for scenario in load_scenarios()}
CHROMIUM = ChromiumClient("chromium")


def test_it_goes_by_alt_svc_or_is_told_to_use_quic(authority: Authority) -> None:
    """QUIC is forced for the scenario's port, or for one that nobody asks for; each run has a profile of its own."""
    learns = CHROMIUM.argv(SCENARIOS["alt-svc"], Place(URL, 0, authority))
    forced = CHROMIUM.argv(SCENARIOS["retry"], Place(URL, 0, authority))
    assert "--origin-to-force-quic-on=localhost:9" in learns
    assert "--origin-to-force-quic-on=localhost:4433" in forced
    assert (learns[-2:], forced[-2:]) == (["--dump-dom", f"{URL}page/3"], ["--dump-dom", f"{URL}page/2"])
    profiles = {word for argv in (learns, forced) for word in argv if word.startswith("--user-data-dir=")}
    assert len(profiles) == 2
    assert not any(word.startswith(("--proxy-server", "--log-net-log")) for word in learns)


def test_a_proxy_and_a_log(authority: Authority) -> None:
    """Loopback goes through the proxy too, and the NetLog where it is wanted."""
    argv = CHROMIUM.argv(SCENARIOS["connect-tunnel"], Place(URL, 3128, authority, log=Path("net.json")))
    assert {
        "--proxy-server=http://127.0.0.1:3128",
        "--proxy-bypass-list=<-loopback>",
        "--log-net-log=net.json",
    } < set(argv)


def test_what_it_plays() -> None:
    """Scenarios that there are, of those in which its page can be loaded; nothing is expected of it."""
    assert {*LEARNS, *FORCED} <= SCENARIOS.keys()
    assert CHROMIUM.obstacle(SCENARIOS["alt-svc"]) == ""
    assert CHROMIUM.obstacle(SCENARIOS["http3-only-blocked"])
    assert CHROMIUM.expects(SCENARIOS["alt-svc"]) is None


def test_what_its_page_writes_is_read() -> None:
    """As Probe.java's lines are."""
    assert CHROMIUM.outcome("request 2: HTTP_3 200 alt-svc=- after 45 ms\n", 2) == Outcome(
        2, "HTTP/3", 200, None, 0.045
    )
    assert CHROMIUM.outcome('<!DOCTYPE html><html><head></head><body><pre id="told">', 1) is None


def test_without_one_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is one line."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UserError, match="no chromium on PATH"):
        find_chromium()
