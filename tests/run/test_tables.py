from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.run.explaining import Asked, Explained, explain
from h3probe.run.tables import TableOutput, tables_in
from h3probe.show.parquet import RECORDS
from tests.run.mixes import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

pq = pytest.importorskip("pyarrow.parquet", reason="no pyarrow: pip install 'h3probe[cluster]'")

CAPTURE = str(FOLDER / "curl-http3.pcap")
FILES = sorted(f"{name}.parquet" for name in RECORDS)


def write(folder: Path, *, force: bool = False) -> Explained:
    """Explain a capture, and write its records."""
    found = Explained()
    with tables_in(folder, force=force) as tables:
        explain(Asked((CAPTURE,)), TableOutput(found, tables, CAPTURE))
    return found


def test_records_go_both_ways(tmp_path: Path) -> None:
    """The output gets all it would get alone, and the tables have each record, and its capture."""
    folder = tmp_path / "tables"
    found = write(folder)
    assert found.all_moments
    assert sorted(path.name for path in folder.iterdir()) == FILES
    rows = [row for name in RECORDS for row in pq.read_table(folder / f"{name}.parquet").to_pylist()]
    assert sorted(row["id"] for row in rows) == sorted(record.id for record in found.all_records)
    assert {row["capture"] for row in rows} == {CAPTURE}


def test_files_are_private(tmp_path: Path) -> None:
    """Files are 0600, and a folder that is made is 0700."""
    folder = tmp_path / "tables"
    write(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    """One file that is there is enough, and is told before any work; with `force` it is replaced."""
    place = tmp_path / "quic.parquet"
    place.write_text("mine")
    with pytest.raises(UserError, match="exists already; --force replaces it"):
        write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["quic.parquet"]
    assert place.read_text() == "mine"
    write(tmp_path, force=True)
    assert pq.read_table(place).num_rows == 1


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """Whatever happens before the end: no file, and no folder that was not there."""
    for folder in (tmp_path / "new", tmp_path):
        with pytest.raises(BrokenPipeError), tables_in(folder, force=False):
            raise BrokenPipeError
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    """A file has its name."""
    (tmp_path / "tables").write_text("mine")
    with pytest.raises(UserError, match="tables cannot be made: "), tables_in(tmp_path / "tables", force=False):
        pass
