from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.cli import main
from tests.run.mixes import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

GOOD, BAD = FOLDER / "curl-http3.pcap", FOLDER / "jdk26-udp-dropped-uri-only.pcap"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good capture, a bad one, and something else; 120 columns without colour."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    shutil.copy(GOOD, tmp_path / "a.pcap")
    shutil.copy(BAD, tmp_path / "b.pcap")
    (tmp_path / "notes").write_text("no capture")
    return tmp_path


def test_a_folder_gives_one_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each capture with its verdict; the status is the worst of all."""
    assert main(["explain", "--jobs", "1", str(folder)]) == 1
    output = capsys.readouterr().out
    assert "2 captures" in output
    assert output.index("a.pcap  ") < output.index("HTTP/3 from the first") < output.index("b.pcap  ")
    assert "repeated-timeout" in output
    assert "1 other file left out" in output


def test_records_come_capture_by_capture(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each begins with its capture record, and ends with its summary; they are the same as alone."""
    assert main(["explain", "--json", "--jobs", "1", str(folder)]) == 1
    each = capsys.readouterr().out
    alone = ""
    for name in ("a.pcap", "b.pcap"):
        main(["explain", "--json", str(folder / name)])
        alone += capsys.readouterr().out
    assert each == alone


def test_each_makes_files_stories_of_their_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without it they are one; with it there are as many summaries as files. An unreadable one is told of."""
    files = [str(folder / name) for name in ("a.pcap", "b.pcap", "notes")]
    assert main(["explain", "--json", "--each", "--jobs", "1", *files]) == 2
    said = capsys.readouterr()
    types = [json.loads(line)["type"] for line in said.out.splitlines()]
    assert types.count("summary") == 2
    assert "is text" in said.err


@pytest.mark.parametrize(
    "args",
    [
        ["--jobs", "2", str(GOOD)],
        ["--each", "--client-log", "log", str(GOOD)],
        ["--each", "-"],
        ["--engine", "dask", "--scheduler", "tcp://127.0.0.1:1", str(GOOD)],
        ["--engine", "dask", "--each", str(GOOD)],
        ["--scheduler", "tcp://127.0.0.1:1", "--each", str(GOOD)],
        ["--engine", "dask", "--scheduler", "tcp://127.0.0.1:1", "--jobs", "2", "--each", str(GOOD)],
        ["--force", str(GOOD)],
    ],
)
def test_what_does_not_go_together_is_refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Workers without captures to share, a client's log of many captures, a pipe as one of many, half a cluster."""
    assert main(["explain", *args]) == 2
    assert capsys.readouterr().err


def test_nothing_of_the_extra_is_loaded_unasked(folder: Path) -> None:
    """A folder is explained, as records too, without Dask, fsspec and pyarrow."""
    code = "import sys; from h3probe.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    args = ["explain", "--jobs", "1", "--json", str(folder)]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "h3probe" in loaded
    assert not loaded & {"dask", "distributed", "fsspec", "pyarrow"}


def test_tables_do_not_depend_on_the_number_of_workers(folder: Path, tmp_path: Path) -> None:
    """The same files from one process and from two, of captures by name and by URL but for their names."""
    pq = pytest.importorskip("pyarrow.parquet", reason="no pyarrow: pip install 'h3probe[cluster]'")
    captures = [str(folder / "a.pcap"), str(folder / "b.pcap"), str(folder / "notes")]
    for jobs, prefix in (("1", ""), ("2", ""), ("3", "file://")):
        target = tmp_path / f"tables-{jobs}"
        args = ["--each", "--jobs", jobs, "--parquet", str(target), *(prefix + name for name in captures)]
        assert main(["explain", *args]) == 2
    names = sorted(path.name for path in (tmp_path / "tables-1").iterdir())
    for name in names:
        one, two, three = (pq.read_table(tmp_path / f"tables-{jobs}" / name) for jobs in "123")
        assert one == two
        assert one.drop_columns("capture").num_rows == three.num_rows
        assert {f"file://{capture}" for capture in one["capture"].to_pylist()} == set(three["capture"].to_pylist())
    assert pq.read_table(tmp_path / "tables-1" / "summary.parquet")["capture"].to_pylist() == captures[:2]


def test_a_folder_by_url_gives_the_same_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its title has the URL, its rows the names in it."""
    pytest.importorskip("fsspec", reason="no fsspec: pip install 'h3probe[cluster]'")
    assert main(["explain", "--jobs", "1", str(folder)]) == 1
    here = capsys.readouterr().out.replace("─", "")
    assert main(["explain", "--jobs", "1", f"file://{folder}"]) == 1
    there = capsys.readouterr().out.replace("─", "")
    assert f"2 captures in file://{folder}" in there
    assert there.replace("file://", "") == here
