from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from h3probe.errors import UserError
from h3probe.run import batch
from h3probe.run.batch import Outcome, captures_in, explain_each
from h3probe.run.explaining import Asked
from tests.run.mixes import FOLDER

NAMES = ("jdk26-uri-only.pcap", "curl-http3.pcap", "jdk26-udp-dropped-uri-only.pcap", "curl-http3-only-refused.pcap")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of captures, one of them deeper, and other things."""
    (tmp_path / "deeper").mkdir()
    for name in NAMES[:3]:
        shutil.copy(FOLDER / name, tmp_path)
    shutil.copy(FOLDER / NAMES[3], tmp_path / "deeper")
    (tmp_path / "notes.txt").write_text("no capture")
    return tmp_path


def outcomes(folder: Path, jobs: int) -> tuple[list[Outcome], list[str]]:
    """Explain a folder, with the records."""
    files, _ = captures_in([str(folder)])
    found, texts = [], []
    for outcome in explain_each(Asked(tuple(files)), jobs, as_json=True):
        assert outcome.text is not None
        texts.append(outcome.text.read_text())
        outcome.text = None
        found.append(outcome)
    return found, texts


def test_a_folder_stands_for_the_captures_in_it(folder: Path) -> None:
    """At any depth, by name; what is no capture is counted. A folder without any is an error, and so is a pipe."""
    files, others = captures_in([str(folder)])
    assert files == sorted(files)
    assert sorted(Path(name).name for name in files) == sorted(NAMES)
    assert others == 1
    (folder / "none").mkdir()
    with pytest.raises(UserError, match="no capture in"):
        captures_in([str(folder / "none")])
    with pytest.raises(UserError, match="- is one capture"):
        captures_in(["-", str(folder)])


@pytest.mark.parametrize(
    ("name", "is_one"), [("a.pcap", True), ("b.PCAPNG12", True), ("c.pcap.gz", True), ("d.cap", False)]
)
def test_what_is_named_like_a_capture_is_told_of(tmp_path: Path, name: str, *, is_one: bool) -> None:
    """An empty file among rotated ones is an error, and not passed over."""
    (tmp_path / name).touch()
    shutil.copy(FOLDER / NAMES[0], tmp_path / "z.pcap")
    files, others = captures_in([str(tmp_path)])
    assert (str(tmp_path / name) in files, others) == (is_one, int(not is_one))
    found = list(explain_each(Asked(tuple(files)), 1))
    assert [outcome.error is not None for outcome in found] == [True, False][not is_one :]


def test_the_number_of_workers_changes_nothing(folder: Path) -> None:
    """The same outcomes and the same records in the same order, by one process and by three."""
    assert outcomes(folder, 1) == outcomes(folder, 3)


def test_each_capture_is_a_story_of_its_own(folder: Path) -> None:
    """Its records are those of `explain` of it alone, and so is its status."""
    found, texts = outcomes(folder, 1)
    assert [outcome.exit_status for outcome in found] == [0, 1, 1, 0]
    assert all(text.startswith('{"type":"capture"') and '"type":"summary"' in text for text in texts)
    assert [outcome.counts["summary"] for outcome in found] == [1] * 4
    assert "repeated-timeout" in found[2].findings


def test_what_cannot_be_read_does_not_keep_the_rest(folder: Path) -> None:
    """A file that is named, and is no capture, is an outcome with an error."""
    files = (str(folder / "notes.txt"), str(folder / NAMES[0]), str(folder / "missing"))
    found = list(explain_each(Asked(files), 2))
    assert [outcome.exit_status for outcome in found] == [2, 0, 2]
    assert found[0].error is not None
    assert "is text" in found[0].error


def _killed(task: batch.Task) -> Outcome:
    """Stands in for a capture that makes the system kill whoever reads it."""
    if task.name == "deadly":
        os._exit(9)
    return Outcome(task.name)


def test_a_killed_worker_takes_nobody_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The capture that it read is told of; all others are explained."""
    monkeypatch.setattr(batch, "run_task", _killed)
    found = list(explain_each(Asked(("a", "deadly", "b", "c")), 2))
    assert [outcome.exit_status for outcome in found] == [0, 2, 0, 0]
    assert found[1].error == "the process that read it was killed"
