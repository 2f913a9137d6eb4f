from __future__ import annotations

import errno
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.run.growing_file import BUFFERED, GrowingFile

if TYPE_CHECKING:
    from pathlib import Path

SMALL_DISK = """
import resource, sys
from pathlib import Path
from h3probe.run.growing_file import GrowingFile

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
file = GrowingFile(Path(sys.argv[1]))
pieces = 0
try:
    while True:
        file.write(b"%07d\\n" % pieces)
        pieces += 1
except OSError as error:
    print(error.errno, pieces, file.size)
file.close()
"""


def test_a_piece_is_there_after_a_flush(tmp_path: Path) -> None:
    """Pieces are collected, and handed on together: at a flush, when they are many, at the end."""
    path = tmp_path / "x"
    with GrowingFile(path) as file:
        file.write(b"one\n")
        assert path.read_bytes() == b""
        file.flush()
        assert path.read_bytes() == b"one\n"
        file.write(bytes(BUFFERED))
        assert path.stat().st_size == file.size == BUFFERED + 4
        file.write(b"two\n")
    assert path.read_bytes()[-4:] == b"two\n"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("room", [100_000, 100_001, 100_007])
def test_what_does_not_fit_is_cut_between_two_pieces(tmp_path: Path, room: int) -> None:
    """On a disk that fills up, the file ends with a whole piece, and as near to the end as can be."""
    path = tmp_path / "x"
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, path, str(room)], capture_output=True, text=True, check=True
    )
    number, _, size = map(int, done.stdout.split())
    assert number == errno.EFBIG
    assert path.stat().st_size == size == room // 8 * 8
    assert path.read_bytes().splitlines()[-1] == b"%07d" % (size // 8 - 1)


def test_an_existing_file_stays(tmp_path: Path) -> None:
    """What holds something is replaced with `force` alone."""
    path = tmp_path / "x"
    path.write_text("mine")
    with pytest.raises(UserError, match="--force"):
        GrowingFile(path)
    assert path.read_text() == "mine"
    GrowingFile(path, force=True).close()
    assert path.read_bytes() == b""
