from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from h3probe.cli import main

FOLDER = Path(__file__).parents[2] / "captures"
GOOD, BAD = FOLDER / "curl-http3.pcap", FOLDER / "jdk26-udp-dropped-uri-only.pcap"


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, without colour."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def records(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, list[dict[str, Any]]]:
    """Run `explain --json`; return its status and its records."""
    status = main(["explain", "--json", *map(str, args)])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("capture", "status"), [(GOOD, 0), (BAD, 1)])
def test_the_status_tells_whether_there_was_a_problem(
    capture: Path, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 without a problem, 1 with one; the last record says the same."""
    code, lines = records(capsys, capture)
    assert code == status
    assert lines[-1]["exit_status"] == status
    assert lines[0]["type"] == "capture"
    assert (lines[0]["format"], lines[0]["source"]) == ("pcap", str(capture))


def test_the_console_leads_to_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """The timeline, then the findings, then the verdict."""
    assert main(["explain", str(BAD)]) == 1
    output = capsys.readouterr().out
    assert output.index("Initial v1") < output.index("repeated-timeout") < output.index("No connection")


@pytest.mark.parametrize(("timeline", "shown"), [("all", True), ("auto", True), ("none", False)])
def test_the_timeline_can_be_left_out(timeline: str, capsys: pytest.CaptureFixture[str], *, shown: bool) -> None:
    """`--timeline none` prints findings and verdicts alone."""
    main(["explain", "--timeline", timeline, str(BAD)])
    output = capsys.readouterr().out
    assert ("Initial v1" in output) is shown
    assert "No connection" in output


def test_a_long_timeline_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Of very many lines the first are printed, and how many are not; `all` prints them."""
    many = [str(path) for path in sorted(FOLDER.glob("*.pcap"))]
    main(["explain", *many])
    output = capsys.readouterr().out
    assert "lines more; --timeline all" in output
    main(["explain", "--timeline", "all", *many])
    assert len(capsys.readouterr().out.splitlines()) > len(output.splitlines())


def test_several_files_are_one_story(capsys: pytest.CaptureFixture[str]) -> None:
    """Frames of all files are merged by time and numbered through."""
    _, one = records(capsys, GOOD)
    _, other = records(capsys, BAD)
    code, both = records(capsys, BAD, GOOD)
    assert code == 1
    assert both[-1]["packets"] == one[-1]["packets"] + other[-1]["packets"]
    assert both[0]["source"] == f"{BAD}, {GOOD}"
    assert len({line["id"] for line in both}) == len(both)


def test_compressed_files_are_read_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gzipped capture gives the same records."""
    packed = tmp_path / "capture.pcap.gz"
    packed.write_bytes(gzip.compress(GOOD.read_bytes()))
    _, plain = records(capsys, GOOD)
    _, unpacked = records(capsys, packed)
    assert unpacked[1:] == plain[1:]


def test_filters_reach_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """`--port` and `--origin`, in any case, leave out what is not asked for."""
    _, lines = records(capsys, "--port", "1", GOOD)
    assert {line["type"] for line in lines} == {"capture", "summary"}
    _, lines = records(capsys, "--origin", "LocalHost", GOOD)
    assert [line["origin"] for line in lines if line["type"] == "verdict"] == ["localhost:4433"]
    _, lines = records(capsys, "--origin", "absent.example", GOOD)
    (verdict,) = [line for line in lines if line["type"] == "verdict"]
    assert verdict["sentence"].startswith("Nothing was sent")


def test_standard_input_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """`explain -` gives the same records as the file."""
    _, expected = records(capsys, GOOD)
    done = subprocess.run(
        [sys.executable, "-m", "h3probe", "explain", "--json", "-"],
        input=GOOD.read_bytes(),
        capture_output=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["source"] == "-"
    assert lines[1:] == expected[1:]


@pytest.mark.skipif(sys.platform == "win32", reason="waits on a pipe with select")
def test_standard_input_is_shown_as_it_comes() -> None:
    """With a capture that goes on, what happened is printed before the end."""
    program = [sys.executable, "-m", "h3probe", "explain", "-"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(BAD.read_bytes())
        process.stdin.flush()
        first = os.read(process.stdout.fileno(), 4096)
        assert b"Initial" in first
        assert process.poll() is None
        process.stdin.close()
        rest = process.stdout.read()
    assert b"No connection" in rest
    assert process.returncode == 1


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a capture", b"{}\n"])
def test_a_file_that_is_no_capture_is_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and one line that names the file; nothing on standard output."""
    path = tmp_path / "capture.pcap"
    path.write_bytes(content)
    assert main(["explain", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "capture.pcap" in captured.err


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for a file that is not there."""
    assert main(["explain", str(tmp_path / "absent.pcap")]) == 2
    captured = capsys.readouterr()
    assert "absent.pcap" in captured.err
    assert captured.err.count("\n") == 1


def test_no_file_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file there is nothing to explain."""
    assert main(["explain"]) == 2
    assert "FILE" in capsys.readouterr().err


def test_a_file_cut_short_is_explained_as_far_as_it_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What could be read is reported, and that it is not all."""
    path = tmp_path / "cut.pcap"
    path.write_bytes(GOOD.read_bytes()[:-7])
    _, lines = records(capsys, path)
    assert lines[-1]["truncated"] is True
    assert [line["rule"] for line in lines if line["type"] == "finding"] == ["incomplete-capture"]
    assert [line for line in lines if line["type"] == "verdict"]


def test_a_damaged_file_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file with rubbish after its first packet it is said how much was read: the answer may stand in the rest."""
    path, whole = tmp_path / "damaged.pcap", GOOD.read_bytes()
    second = 24 + 16 + int.from_bytes(whole[32:36], "little")
    path.write_bytes(whole[:second] + b"\xff" * 300 + whole[second + 300 :])
    _, lines = records(capsys, path)
    (finding,) = (line for line in lines if line.get("rule") == "incomplete-capture")
    assert finding["severity"] == "notice"
    assert f"{second:,} of {len(whole):,} bytes were read" in finding["summary"]
    assert finding["advice"].startswith("Copy the file anew")


LOGS = Path(__file__).parents[1] / "vantage" / "clientlog" / "recordings"


def test_a_log_of_another_run_is_told_and_joined_to_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Its requests are there, without connections, and the verdict does not rest on them."""
    code, lines = records(capsys, GOOD, "--client-log", LOGS / "jdk26-client-any.log")
    exchanges = [line for line in lines if line["type"] == "exchange"]
    assert [(e["version"], e["connection"], e["known_from"]) for e in exchanges] == [
        ("HTTP/2", None, "client-log"),
        ("HTTP/3", None, "client-log"),
        ("HTTP/3", None, "client-log"),
    ]
    assert code == 0
    assert [line["versions"] for line in lines if line["type"] == "verdict"] == [None]
    assert lines[0]["format"] == "pcap"


def test_what_is_no_log_of_a_client(capsys: pytest.CaptureFixture[str]) -> None:
    """It is wrong usage, and said in one line."""
    assert main(["explain", str(GOOD), "--client-log", str(GOOD)]) == 2
    assert "is no log of the JDK's HttpClient" in capsys.readouterr().err


def test_a_key_log_that_holds_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is no key log is refused in one line, with status 2, before anything is explained."""
    assert main(["explain", "--keylog", str(GOOD), str(GOOD)]) == 2
    assert "holds no TLS secrets" in capsys.readouterr().err
    assert main(["explain", "--keylog", "/does/not/exist", str(GOOD)]) == 2
    captured = capsys.readouterr()
    assert "cannot be read" in captured.err
    assert not captured.out


def test_a_key_log_is_never_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """With a key log the answer has the same packets, and not one secret, cookie or credential in it."""
    folder = Path(__file__).parents[1] / "data" / "decrypted"
    keys = (folder / "curl-h3.keys").read_text()
    status, lines = records(capsys, "--keylog", folder / "curl-h3.keys", folder / "curl-h3.pcap")
    assert (status, lines[-1]["packets"]) == (0, 18)
    text = json.dumps(lines)
    assert not any(secret in text for line in keys.splitlines() for secret in line.split()[2:])
    assert "token=secret" not in text


def test_a_key_log_of_another_run(capsys: pytest.CaptureFixture[str]) -> None:
    """That it opens nothing is said, on standard error beside records; the one that fits goes without a word."""
    folder = Path(__file__).parents[1] / "data" / "decrypted"
    main(["explain", "--json", "--keylog", str(folder / "curl-h2.keys"), str(folder / "curl-h3.pcap")])
    assert "curl-h2.keys opens 0 of 1 connection here" in capsys.readouterr().err
    main(["explain", "--json", "--keylog", str(folder / "curl-h3.keys"), str(folder / "curl-h3.pcap")])
    assert not capsys.readouterr().err


def test_a_log_of_another_run_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, or above the findings; the log that fits goes without a word."""
    log = str(LOGS / "jdk26-client-any.log")
    main(["explain", "--json", str(GOOD), "--client-log", log])
    assert "3 answered requests in" in (said := capsys.readouterr().err)
    assert "about no connection that is found here: it is the log of another run, likely" in said
