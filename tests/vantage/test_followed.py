from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from h3probe.vantage.followed import FollowedFile

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    """A file is waited for, read once, and read on as it grows, as many bytes at a time as are wanted."""
    path = tmp_path / "log"
    with FollowedFile(path) as followed:
        assert (followed.read(), followed.left) == (b"", 0)
        path.write_bytes(b"one")
        assert followed.read() == b"one"
        assert followed.read() == b""
        with path.open("ab") as stream:
            stream.write(b"two, three")
        assert followed.left == 10
        assert followed.read(3) == b"two"
        assert followed.left == 7


def test_another_runs_file_is_not_read(tmp_path: Path) -> None:
    """What was written before is looked at only after somebody has written again."""
    path = tmp_path / "log"
    path.write_bytes(b"old")
    os.utime(path, ns=(5, 5))
    with FollowedFile(path, since_ns=6) as followed:
        assert (followed.read(), followed.left) == (b"", 0)
        path.write_bytes(b"new")
        assert followed.read() == b"new"


def test_only_files_are_read(tmp_path: Path) -> None:
    """A pipe that nobody writes to holds nothing up, and a folder is nothing."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with FollowedFile(tmp_path / name) as followed:
            assert (followed.read(), followed.left) == (b"", 0)


@pytest.mark.parametrize("anew", [b"2", b"another, which is longer"])
def test_a_file_that_is_begun_anew_is_read_anew(tmp_path: Path, anew: bytes) -> None:
    """Whether it is shorter than what was read, or longer by the time that anyone looks."""
    path = tmp_path / "log"
    path.write_bytes(b"the first")
    with FollowedFile(path) as followed:
        assert followed.read() == b"the first"
        path.write_bytes(anew)
        assert followed.left == len(anew)
        assert (followed.read(), followed.begun) == (anew, 1)
        assert (followed.read(), followed.begun) == (b"", 1)
