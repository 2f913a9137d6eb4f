from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from h3probe.cli import main
from tests.cli.test_watch import complaint, relayed

CAPTURE = Path(__file__).parents[2] / "captures" / "jdk26-udp-dropped-uri-only.pcap"


def test_a_capture_becomes_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line on standard error says what is in it; `explain` reads it back, and ends with the capture's status."""
    path = tmp_path / "x.h3probe.zip"
    assert main(["bundle", str(CAPTURE), "-o", str(path)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{path} written: 12 packets, 1 verdict, ")
    assert main(["explain", str(path)]) == 1
    assert "repeated-timeout" in capsys.readouterr().out


def test_by_default_it_stands_beside_the_capture(tmp_path: Path) -> None:
    """Under the capture's name; it is not replaced without --force."""
    copy = tmp_path / "office.pcap"
    copy.write_bytes(CAPTURE.read_bytes())
    assert main(["bundle", str(copy)]) == 0
    assert (tmp_path / "office.h3probe.zip").exists()
    assert main(["bundle", str(copy)]) == 2
    assert main(["bundle", str(copy), "--force"]) == 0


def test_a_bundle_is_named_as_a_zip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any .zip is a name, for its redaction too; another ending would hide what it is."""
    whole, shared = tmp_path / "whole.zip", tmp_path / "shared.zip"
    assert main(["bundle", str(CAPTURE), "-o", str(whole)]) == 0
    assert main(["redact", str(whole), "-o", str(shared)]) == 0
    assert zipfile.is_zipfile(shared)
    assert main(["bundle", str(CAPTURE), "-o", str(tmp_path / "x.pcapng")]) == 2
    assert "a bundle is a ZIP file" in capsys.readouterr().err


def test_a_pipe(tmp_path: Path) -> None:
    """What comes on standard input has no name, and needs one."""
    for options, status in (([], 2), (["-o", "-"], 2), (["-o", str(tmp_path / "x.h3probe.zip")], 0)):
        done = subprocess.run(
            [sys.executable, "-m", "h3probe", "bundle", "-", *options], input=CAPTURE.read_bytes(), check=False
        )
        assert done.returncode == status


@pytest.mark.parametrize("options", [["--full"], ["--client-log", "x"], ["other.pcap"]])
def test_a_folder_stands_alone(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It is what a run left, and nothing can be added to it."""
    assert main(["bundle", str(tmp_path), *options]) == 2
    assert "a folder is made into a bundle by itself" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--redact"], "--redact is for the file of --write"),
        (["-w", "x.pcapng", "--redact", "--full"], "--redact and --full exclude each other"),
        (["--rotate", "1M"], "--rotate is for the file of --write"),
        (["-w", "x.pcapng", "--keep", "2"], "--keep is for the files of --rotate"),
        (["-w", "x.h3probe.zip", "--rotate", "1M"], "--rotate makes captures"),
        (["-w", "x.pcapng", "--rotate", "many"], "write a size from 100k on"),
        (["-w", "x.pcapng", "--rotate", "99k"], "write a size from 100k on"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str) -> None:
    """One line, before anything begins."""
    done = relayed(*options)
    assert done.returncode == 2
    assert message in complaint(done)


def test_a_run_becomes_a_bundle(tmp_path: Path) -> None:
    """With -w NAME.h3probe.zip a run leaves one file, in which its records are; a second one does not replace it."""
    path = tmp_path / "x.h3probe.zip"
    done = relayed("-w", str(path), "--json", "--", sys.executable, "-c", "")
    assert done.returncode == 0
    assert f"{path} written: 0 packets" in done.stderr
    with zipfile.ZipFile(path) as archive:
        assert archive.read("events.ndjson").decode() == done.stdout
        environment = json.loads(archive.read("environment.json"))
    assert environment["client"]["program"] == Path(sys.executable).name
    assert list(tmp_path.iterdir()) == [path]
    again = relayed("-w", str(path), "--", sys.executable, "-c", "")
    assert again.returncode == 2
    assert "exists already" in complaint(again)


def test_a_bundle_that_cannot_be_made(tmp_path: Path) -> None:
    """The run ends as it would have; what was written stays, and is named."""
    path = tmp_path / "x.h3probe.zip"
    meanwhile = f"import pathlib; pathlib.Path({str(path)!r}).write_text('mine')"
    done = relayed("-w", str(path), "--json", "--", sys.executable, "-c", meanwhile)
    assert done.returncode == 0
    assert f"h3probe bundle {tmp_path / 'x.h3probe'}" in done.stderr
    assert path.read_text() == "mine"
    assert (tmp_path / "x.h3probe" / "capture.pcapng").exists()


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="names of files are text there")
def test_a_name_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that are not UTF-8, a line's end and an escape sequence end up in no text as they are."""
    source = os.fsdecode(bytes(tmp_path) + b"/a\n\xff\x1b[31m.pcap")
    Path(source).write_bytes(CAPTURE.read_bytes())
    assert main(["bundle", source]) == 0
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert "\x1b" not in written
    (made,) = tmp_path.glob("*.h3probe.zip")
    with zipfile.ZipFile(made) as archive:
        assert archive.read("README.txt").startswith(b"a\\x0a\\udcff\\x1b[31m.h3probe.zip\n====")
        assert json.loads(archive.read("environment.json"))


def test_a_name_that_is_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    """It is one line."""
    assert main(["bundle", "x" * 300]) == 2
    assert "File name too long" in capsys.readouterr().err
