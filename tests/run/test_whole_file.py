from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.run.whole_file import refuse_existing, replacing, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_a_file_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    """All pieces are in it, nobody else may read it, and nothing else is left in the folder."""
    path = tmp_path / "out.har"
    write_whole(str(path), ["a", "…"], force=False)
    assert path.read_text(encoding="utf-8") == "a…"
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    """Without `--force` it stays as it is; with it, it is another file."""
    path = tmp_path / "out.har"
    path.write_text("old")
    with pytest.raises(UserError, match="exists already; --force replaces it"):
        write_whole(str(path), ["new"], force=False)
    assert path.read_text() == "old"
    write_whole(str(path), ["new"], force=True)
    assert path.read_text() == "new"


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a right of their own")
def test_a_symbolic_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """What a link leads to is not written, with `--force` neither."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(UserError, match="exists already"):
        write_whole(str(link), ["new"], force=False)
    write_whole(str(link), ["new"], force=True)
    assert target.read_text() == "old"
    assert link.read_text() == "new"


@pytest.mark.skipif(sys.platform == "win32", reason="has no devices in its folders")
def test_a_device_is_never_replaced() -> None:
    """`--force` would put a file in the place of /dev/null."""
    with pytest.raises(UserError, match="is no file"):
        refuse_existing(os.devnull, force=True)


def test_what_fails_midway_leaves_nothing_behind(tmp_path: Path) -> None:
    """A full disk: one line, and neither the file nor a part of it."""

    def pieces() -> Iterator[str]:
        yield "half"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UserError, match=r"out\.har cannot be written: No space left on device"):
        write_whole(str(tmp_path / "out.har"), pieces(), force=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["absent/out.har", "nul\0.har", "x" * 300])
def test_a_name_that_cannot_be_is_one_line(name: str, tmp_path: Path) -> None:
    """A folder that is not there, and a name that no file can have."""
    with pytest.raises(UserError, match="cannot be written"):
        write_whole(f"{tmp_path}/{name}", ["x"], force=False)


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """`-` is standard output, whatever is in the folder."""
    refuse_existing("-", force=False)
    write_whole("-", ["a", "b"], force=False)
    assert capsys.readouterr().out == "ab"


def test_somebody_who_was_faster_wins(tmp_path: Path) -> None:
    """A file that appeared meanwhile is not replaced."""
    path = tmp_path / "x"
    writing = replacing(path, force=False)
    writing.__enter__().write(b"late")
    path.write_text("mine")
    with pytest.raises(UserError, match="--force"):
        writing.__exit__(None, None, None)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a file is renamed, and still replaces none."""

    def link(_source: object, _target: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    path = tmp_path / "x"
    write_whole(str(path), ["one"], force=False)
    with pytest.raises(UserError, match="--force"):
        write_whole(str(path), ["two"], force=False)
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_appears_before_the_end(tmp_path: Path) -> None:
    """A file has its name when it is whole; after an error there is nothing, under no name."""
    path = tmp_path / "x"
    with contextlib.suppress(ZeroDivisionError), replacing(path, force=False) as stream:
        stream.write(b"half")
        stream.flush()
        assert not path.exists()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_what_is_read_is_never_replaced(tmp_path: Path) -> None:
    """`--force` is for an output of before, not for the only capture there is, by whatever name."""
    capture = tmp_path / "capture.pcap"
    capture.write_bytes(b"packets")
    for name in (str(capture), f"{tmp_path}/../{tmp_path.name}/capture.pcap"):
        with pytest.raises(UserError, match="is read, and would be replaced"):
            refuse_existing(name, force=True, sources=("-", "", str(tmp_path / "absent"), str(capture)))


def test_a_folder_is_no_file_to_be_replaced(tmp_path: Path) -> None:
    """Nobody is told to use `--force` where it would not help."""
    with pytest.raises(UserError, match="is a folder; name a file"):
        refuse_existing(str(tmp_path), force=False)


def test_a_name_as_long_as_may_be(tmp_path: Path) -> None:
    """255 bytes, of signs of two bytes; what it is called until it is whole is no longer."""
    path = tmp_path / ("ü" * 125 + ".html")
    write_whole(str(path), ["x"], force=False)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="has neither signal")
@pytest.mark.parametrize("number", [signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    """Who is told to end removes what is half written, and is as ready to be ended as before."""
    with pytest.raises(SystemExit) as ended, replacing(tmp_path / "out.har", force=False):
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(number) == signal.SIG_DFL


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGHUP")
def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """Under nohup(1) a terminal that is closed ends nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with replacing(tmp_path / "out.har", force=False) as stream:
            signal.raise_signal(signal.SIGHUP)
            stream.write(b"x")
        assert (tmp_path / "out.har").read_bytes() == b"x"
    finally:
        signal.signal(signal.SIGHUP, before)
