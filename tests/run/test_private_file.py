from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.run.private_file import create_private

if TYPE_CHECKING:
    from pathlib import Path


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """A new file, and an empty one that everybody could read, are their owner's alone."""
    for name in ("new", "old"):
        path = tmp_path / name
        if name == "old":
            path.touch(mode=0o644)
        os.close(create_private(path, force=False))
        assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    """A file that holds something is replaced only when that is asked for; a link is not followed at all."""
    path = tmp_path / "keys.log"
    path.write_bytes(b"mine")
    with pytest.raises(UserError, match="--force"):
        create_private(path, force=False)
    assert path.read_bytes() == b"mine"
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(UserError, match="cannot be written"):
        create_private(link, force=True)
    os.close(create_private(path, force=True))
    assert path.read_bytes() == b""


@pytest.mark.parametrize(("name", "words"), [("missing/keys.log", "cannot be written"), ("/dev/null", "is no file")])
def test_where_there_can_be_no_file(tmp_path: Path, name: str, words: str) -> None:
    """One line for the user."""
    with pytest.raises(UserError, match=words):
        create_private(tmp_path / name, force=False)


def test_a_pipe_without_a_reader_is_refused(tmp_path: Path) -> None:
    """It is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="cannot be written"):
        create_private(tmp_path / "pipe", force=False)
