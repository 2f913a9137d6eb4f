"""What a path leads to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from h3probe.vantage.places import is_file, is_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_what_is_there_is_told(tmp_path: Path) -> None:
    """A folder is no file, and a pipe is neither; nothing is where no file can be."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert is_folder(tmp_path)
    assert not is_file(tmp_path)
    assert is_file(tmp_path / "file")
    assert not is_folder(tmp_path / "file")
    for nothing in (tmp_path / "pipe", tmp_path / "none", "a\0b", tmp_path / ("x" * 300)):
        assert not is_folder(nothing)
        assert not is_file(nothing)


def test_what_may_not_be_looked_at_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on the way that may not be searched raises no error."""

    def denied(*_: object, **__: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "file").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", denied)
        found = is_file(tmp_path / "file"), is_folder(tmp_path)
    assert found == (False, False)
