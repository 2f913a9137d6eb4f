from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from h3probe.cli import main

FOLDER = Path(__file__).parents[2] / "captures"
HTTP3, HTTP2 = FOLDER / "curl-http3-only.pcap", FOLDER / "jdk26-http2-default.pcap"


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, without colour."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize(("capture", "status"), [(HTTP3, 0), (HTTP2, 1)])
def test_the_status_is_the_gate(capture: Path, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a problem in either, the expectation alone decides; the console says which origin met it."""
    assert main(["explain", str(capture)]) == 0
    capsys.readouterr()
    assert main(["explain", "--expect", "h3", str(capture)]) == status
    output = capsys.readouterr().out
    assert f"Expected HTTP/3: met by {1 - status} of 1 origin" in output
    assert f"localhost:4433: {'not met' if status else 'met'}." in output


def test_the_last_record_is_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` has a record for each origin, before the summary with the same status."""
    assert main(["explain", "--json", "--expect", "H3", str(HTTP2)]) == 1
    *_, expectation, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (expectation["type"], expectation["expected"], expectation["met"]) == ("expectation", "HTTP/3", False)
    assert (summary["type"], summary["exit_status"]) == ("summary", 1)
    assert summary["records"]["expectation"] == 1


def test_only_the_origins_asked_for_count(capsys: pytest.CaptureFixture[str]) -> None:
    """With `--origin` another one's exchanges do not matter, and one that is not there is not met."""
    both = [str(HTTP3), str(HTTP2)]
    assert main(["explain", "--expect", "h3", *both]) == 1
    assert main(["explain", "--expect", "h3", "--origin", "absent.example", str(HTTP3)]) == 1
    assert "absent.example: not met. No request to it was seen." in capsys.readouterr().out


def test_a_junit_report(tmp_path: Path) -> None:
    """It is written whether the expectation was met or not."""
    for capture, failures in ((HTTP3, "0"), (HTTP2, "1")):
        report = tmp_path / "h3.xml"
        main(["explain", "--expect", "h3", "--junit", str(report), str(capture)])
        suite = ET.fromstring(report.read_bytes())[0]  # noqa: S314 - h3probe wrote it
        assert suite.get("failures") == failures
        assert suite[0].get("name") == "localhost:4433"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--junit", "h3.xml"], "--junit is for --expect"),
        (["--expect", "h3", "--junit", "no/such/folder/h3.xml"], "in a folder that is there"),
        (["--expect", "h3", "--junit", "x" * 300], "File name too long"),
        (["--expect", "h3", "--junit", "."], "write the name of a file"),
        (["--expect", "http/4"], "--expect"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is one line that says what is wrong, before anything is read."""
    assert main(["explain", *arguments, str(HTTP3)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["explain", "watch"])
def test_the_help_names_them(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both commands have both options."""
    main([command, "--help"])
    output = capsys.readouterr().out
    assert "--expect [h3|h2|http/1.1]" in output
    assert "--junit FILE" in output
