from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from h3probe.cli import main

CAPTURE = str(Path(__file__).parents[2] / "captures" / "curl-http3.pcap")
DECRYPTED = Path(__file__).parents[1] / "data" / "decrypted"
LOG = Path(__file__).parents[1] / "vantage" / "clientlog" / "recordings" / "jdk26-client-any.log"
KEYED = [str(DECRYPTED / "curl-h3.pcap"), "--keylog", str(DECRYPTED / "curl-h3.keys")]


def test_har_with_a_key_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exchanges that the keys open are in the file, with the version that carried them; nothing is printed."""
    path = tmp_path / "out.har"
    assert main(["export", *KEYED, "--to", "har", "-o", str(path)]) == 0
    log = json.loads(path.read_text(encoding="utf-8"))["log"]
    assert [entry["request"]["httpVersion"] for entry in log["entries"]] == ["h3", "h3"]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_har_with_a_clients_log(capsys: pytest.CaptureFixture[str]) -> None:
    """What the client's own log tells becomes entries, those that join no connection too."""
    assert main(["export", CAPTURE, "--to", "har", "--client-log", str(LOG), "-o", "-"]) == 0
    entries = json.loads(capsys.readouterr().out)["log"]["entries"]
    assert [entry["request"]["httpVersion"] for entry in entries] == ["h2", "h3", "h3"]
    assert not any("connection" in entry for entry in entries)


def test_packets_alone_make_an_empty_har(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is guessed: the HAR has no entry but the verdict, and a remark says what would tell more."""
    assert main(["export", CAPTURE, "--to", "har", "-o", "-"]) == 0
    captured = capsys.readouterr()
    log = json.loads(captured.out)["log"]
    assert log["entries"] == []
    assert log["_h3probe"]["verdicts"][0]["sentence"].startswith("HTTP/3 from the first request")
    assert "--client-log FILE or --keylog FILE" in captured.err


def test_qlog(tmp_path: Path) -> None:
    """Each connection is a trace of the file."""
    path = tmp_path / "out.qlog"
    assert main(["export", CAPTURE, "--to", "qlog", "-o", str(path)]) == 0
    assert len(json.loads(path.read_text(encoding="utf-8"))["traces"]) == 1


def test_a_capture_on_standard_input() -> None:
    """`-` is read once, and is enough for either format."""
    for kind, key in (("har", "log"), ("qlog", "traces")):
        done = subprocess.run(
            [sys.executable, "-m", "h3probe", "export", "-", "--to", kind, "-o", "-"],
            input=Path(CAPTURE).read_bytes(),
            capture_output=True,
            check=True,
        )
        assert key in json.loads(done.stdout)


def test_an_existing_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is replaced with `--force` alone, and that is said before anything is read."""
    path = tmp_path / "out.har"
    path.write_text("old")
    assert main(["export", "absent.pcap", "--to", "har", "-o", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["export", CAPTURE, "--to", "har", "-o", str(path), "--force"]) == 0
    assert path.read_text() != "old"


@pytest.mark.parametrize(("name", "key"), [("x.har", "log"), ("x.QLOG", "qlog_format")])
def test_the_ending_tells_the_format(name: str, key: str, tmp_path: Path) -> None:
    """Without --to a file is what its name says."""
    assert main(["export", CAPTURE, "-o", str(tmp_path / name)]) == 0
    assert f'"{key}"' in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.pcap", "--to", "har", "-o", "-"], "absent.pcap"),
        ([CAPTURE, "--to", "har"], "--output"),
        ([CAPTURE, "-o", "-"], "does not end in .har or .qlog: say which with --to"),
        ([CAPTURE, "--to", "saz", "-o", "-"], "saz"),
        ([CAPTURE, "--to", "qlog", "--client-log", str(LOG), "-o", "-"], "are for --to har"),
        ([CAPTURE, "--to", "har", "--keylog", CAPTURE, "-o", "-"], "holds no TLS secrets"),
        ([CAPTURE, "--to", "har", "-o", "/absent/out.har"], "cannot be written"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, one line, and nothing on standard output."""
    assert main(["export", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1
