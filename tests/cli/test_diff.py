from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from h3probe.cli import main
from h3probe.show.schema import json_schema

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[2] / "captures"
GOLDEN = Path(__file__).parent / "golden"
PAIRS = {
    "home-office": ("jdk26-request-any.pcap", "jdk26-udp-dropped-request-any.pcap"),
    "proxy": ("curl-http3.pcap", "curl-http3-tinyproxy.pcap"),
    "unexplained": ("jdk26-request-any.pcap", "jdk26-http2-default.pcap"),
    "other-origins": ("curl-http3.pcap", "jdk26-udp-closed-client-any.pcap"),
    "same": ("curl-http3.pcap", "curl-http3-only.pcap"),
}


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns without colour, in the folder of the recordings, so that no path is in the output."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize("name", PAIRS)
def test_console(name: str, capsys: pytest.CaptureFixture[str], golden: Callable[[Path, str], None]) -> None:
    """`diff` prints exactly the text held beside the tests, within 80 columns; the status says whether they differ."""
    status = main(["diff", *PAIRS[name]])
    captured = capsys.readouterr()
    assert captured.err == ""
    assert all(len(line) <= 80 and line.isprintable() for line in captured.out.splitlines())
    assert status == (0 if name == "same" else 1)
    golden(GOLDEN / f"diff.{name}.txt", captured.out)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints what was compared and a record for each difference, as the schema describes them."""
    assert main(["diff", "--json", *PAIRS["other-origins"]]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    validator = jsonschema.Draft202012Validator(json_schema())
    for line in lines:
        validator.validate(line)
    assert [line["id"] for line in lines] == ["capture-1", "capture-2", "difference-1", "difference-2"]
    assert [line["source"] for line in lines[:2]] == list(PAIRS["other-origins"])


def test_only_one_origin(capsys: pytest.CaptureFixture[str]) -> None:
    """`--origin` leaves the others out."""
    assert main(["diff", "--json", "--origin", "localhost:4436", *PAIRS["other-origins"]]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["origin"] for line in lines if line["type"] == "difference"} == {"localhost:4436"}


def test_an_origin_that_neither_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a mistyped origin no difference is no answer: which ones there are, is told of both."""
    assert main(["diff", "--json", "--origin", "nosuch", *PAIRS["other-origins"]]) == 0
    (difference,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()[2:]]
    assert difference["sentence"].count("to this origin") == difference["sentence"].count("Seen here: localhost:") == 2


@pytest.mark.parametrize("arguments", [["absent.pcap", "curl-http3.pcap"], ["curl-http3.pcap"], ["-", "-"]])
def test_wrong_usage_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there, one file, and standard input twice: one line, and no answer."""
    assert main(["diff", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
