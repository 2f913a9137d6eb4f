from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from h3probe.cli import main
from h3probe.lab import isolated

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _behind_a_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here nothing has a network of its own, whatever this machine can."""
    monkeypatch.setattr(isolated, "obstacle", lambda: "no pasta here")


def test_plays_scenarios_and_tells(capsys: pytest.CaptureFixture[str]) -> None:
    """Expected, got and the verdict come for each, what cannot be played says why, and the status is 0."""
    assert main(["lab", "run", "alt-svc", "packet-loss"]) == 0
    said = capsys.readouterr()
    assert "expected  HTTP/2, HTTP/3, HTTP/3" in said.out
    assert "first, then HTTP/3" in said.out
    assert "not played: losing 3 % of all packets" in said.out
    assert "1 of 2 as expected, 1 not played" in said.out
    assert "2 of 2 after" in said.err


def test_json_is_one_object_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json there is nothing else on standard output."""
    assert main(["lab", "run", "alt-svc", "packet-loss", "--json"]) == 0
    played, skipped = map(json.loads, capsys.readouterr().out.splitlines())
    assert (played["scenario"], played["as_expected"], played["client"]) == ("alt-svc", True, "builtin")
    assert {record["type"] for record in played["records"]} >= {"capture", "quic", "tcp", "verdict", "summary"}
    assert skipped["as_expected"] is None


def test_what_goes_otherwise_is_status_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A client that fails is not as expected."""
    curl = tmp_path / "curl"
    version = "[ $1 = --version ] && printf 'curl 8\\nHTTP3' && exit"
    curl.write_text(f"#!/bin/sh\n{version}\necho broken >&2\nexit 3\n")
    curl.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
        assert main(["lab", "run", "udp-refused", "--client", "curl"]) == 1
    assert "ended with status 3: broken" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["alt-svv"], "no scenario 'alt-svv'; did you mean alt-svc"),
        (["nothing-like-it"], "no scenario 'nothing-like-it'; `h3probe lab list` lists them"),
        (["alt-svc", "--client", "no-such-client"], "--client 'no-such-client': builtin, java, curl, or a command"),
        (["articles", "--client", "curl"], "the articles' experiments are about Java's client"),
        (["06-proxy", "--java", "/nonexistent"], "no Java at /nonexistent"),
        (["alt-svc", "--client-log"], "--client-log is for --client java"),
        ([], "Missing argument 'NAME...'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be run is said in one line, with exit status 2."""
    assert main(["lab", "run", *arguments]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
