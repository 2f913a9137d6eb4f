from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.lab.accuracy import compare
from h3probe.lab.clients import BuiltinClient, CurlClient, JavaClient, Place
from h3probe.lab.java import JavaRuntime
from h3probe.lab.matrix import SCENARIOS, Cell, JavaBeforeHttp3, Play, fill, find_clients, load_scenarios, plan
from h3probe.records import VerdictRecord

if TYPE_CHECKING:
    from pathlib import Path

    from h3probe.lab.authority import Authority

KNOWN = {scenario.name: scenario for scenario in load_scenarios()}
JAVA = JavaRuntime("java26", "openjdk 26")
OLD = JavaRuntime("java25", "openjdk 25")


def cells_of(plays: list[Play], authority: Authority) -> list[Cell]:
    """Fill the matrix."""
    return asyncio.run(fill(plays, authority, lambda _: None))


def test_what_is_planned() -> None:
    """Every scenario in a network of its own, some in other ways; a log only with who has one that is read live."""
    plays = plan([BuiltinClient(), JavaClient(JAVA, OLD), JavaBeforeHttp3(JAVA, OLD)], list(KNOWN.values()))
    names = [play.name for play in plays]
    assert len(set(names)) == len(names)
    builtin = {play.scenario.name for play in plays if play.client.name == "builtin" and play.way == "isolate"}
    assert builtin == {scenario.name for scenario in KNOWN.values() if not scenario.patient}
    assert {play.client.name for play in plays if play.way == "client-log"} == {"java", "java25"}
    assert {play.way for play in plays} == {"isolate", *SCENARIOS}
    assert all(name in KNOWN for named in SCENARIOS.values() for name in named)
    assert [play.client.name for play in plays if play.scenario.patient] == ["java"]


def test_what_a_client_cannot_play_is_left_out() -> None:
    """curl has no options for some; a Java without HTTP/3 plays what is not about it, and nothing where it is not."""
    assert not plan([CurlClient("curl")], [KNOWN["stale-alt-svc"]])
    assert not plan([JavaBeforeHttp3(JAVA, OLD)], [KNOWN["retry"]])
    assert not plan([JavaBeforeHttp3(JAVA, "no Java 25")], [KNOWN["alt-svc"]])


def test_an_old_java_runs_the_old_program(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the scenario has for Java."""
    monkeypatch.setattr("h3probe.lab.clients.compile_programs", lambda *_: None)
    argv = JavaBeforeHttp3(JAVA, OLD).argv(KNOWN["alt-svc"], Place("https://localhost:1/", 0, authority))
    assert (argv[0], argv[-3:]) == ("java25", ["Plain", "https://localhost:1/", "3"])


def test_a_cell_is_right_and_a_wrong_answer_makes_it_wrong(authority: Authority) -> None:
    """Behind a relay the built-in client's requests are as it says; the same records with one word changed are not."""
    (cell,) = cells_of([Play(BuiltinClient(), KNOWN["udp-blocked"], "relay")], authority)
    assert (cell.client, cell.scenario, cell.vantage) == ("builtin", "udp-blocked", "relay")
    assert [outcome.version for outcome in cell.outcomes] == ["HTTP/2"] * 3
    assert all(outcome.local_port for outcome in cell.outcomes)
    assert cell.wrong == ()
    assert "version" in cell.untold
    lie = [
        replace(record, sentence="HTTP/3 from the first request.") if isinstance(record, VerdictRecord) else record
        for record in cell.records
    ]
    assert compare(lie, cell.outcomes).wrong


def test_a_client_that_says_nothing_is_a_wrong_cell(authority: Authority, tmp_path: Path) -> None:
    """No answer is no right one: what could not be played does not make the matrix smaller."""
    curl = tmp_path / "curl"
    curl.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    curl.chmod(0o755)
    (cell,) = cells_of([Play(CurlClient(str(curl)), KNOWN["udp-refused"], "relay")], authority)
    assert "ended with status 3: broken" in cell.wrong[0]


def test_clients_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without names those that are there; with names, those, or an error."""
    monkeypatch.setattr("h3probe.lab.matrix.find_curl", lambda: CurlClient("curl"))
    assert {"builtin", "curl"} <= {client.name for client in find_clients((), "/nonexistent", None)}
    assert [client.name for client in find_clients(("sh -c true",), None, None)] == ["sh"]
    with pytest.raises(UserError, match="no Java at /nonexistent"):
        find_clients(("java",), "/nonexistent", None)
