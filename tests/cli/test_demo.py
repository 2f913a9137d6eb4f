from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import jsonschema
import pytest

from h3probe.cli import main
from h3probe.lab import scenario as scenario_module
from h3probe.lab.scenario import Expectation, load_scenarios
from h3probe.show.schema import json_schema

if TYPE_CHECKING:
    from h3probe.lab.scenario import Scenario


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[Scenario]:
    """The demonstration cut down to the scenarios in which nobody waits."""
    kept = [each for each in load_scenarios() if each.name in {"alt-svc", "connect-tunnel"}]
    monkeypatch.setattr(scenario_module, "load_scenarios", lambda: kept)
    return kept


def test_shows_each_scenario(quick: list[Scenario], capsys: pytest.CaptureFixture[str]) -> None:
    """Title, timeline, verdict and the client's own words come for each, and a table at the end."""
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    positions = [printed.index(each.title) for each in quick]
    assert positions == sorted(positions)
    assert printed.count("The client itself") == len(quick)
    assert "request 1  HTTP/2" in printed
    assert f"{len(quick)} of {len(quick)} as expected" in printed


def test_miss_is_shown_and_counted(
    quick: list[Scenario], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When something comes otherwise the demonstration says what, and exits with 1."""
    wrong = dataclasses.replace(quick[0], expect=Expectation(versions=("HTTP/3", "HTTP/3", "HTTP/3")))
    monkeypatch.setattr(scenario_module, "load_scenarios", lambda: [wrong])
    assert main(["demo"]) == 1
    printed = capsys.readouterr().out
    assert "not as expected: the client saw HTTP/2, HTTP/3, HTTP/3" in " ".join(printed.split())
    assert "0 of 1 as expected" in printed


def test_json_is_nothing_but_records(quick: list[Scenario], capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints records of the schema, one output after the other."""
    assert main(["demo", "--json"]) == 0
    captured = capsys.readouterr()
    records = [json.loads(line) for line in captured.out.splitlines()]
    validator = jsonschema.Draft202012Validator(json_schema())
    for record in records:
        validator.validate(record)
    types = [record["type"] for record in records]
    assert types.count("capture") == types.count("summary") == len(quick)
    assert captured.err == ""


def test_unfit_java_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A Java that cannot be used is said before anything starts."""
    assert main(["demo", "--java", "/nowhere"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "h3probe: no Java at /nowhere: name a JDK 26 with --java PATH or $H3PROBE_JAVA\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(number: signal.Signals) -> None:
    """A signal in the middle ends it with a shell's status for that signal, and nothing is printed about it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "h3probe", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(number)
        _, said = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, said) == (128 + number, "")
