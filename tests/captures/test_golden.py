"""H3probe's whole output for each recording, held beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from h3probe import __version__
from h3probe.cli import main
from tests.captures.recordings import FOLDER, NAMES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns without colour, in the folder of the recordings, so that no path is in the output."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@each
def test_ndjson(name: str, capsys: pytest.CaptureFixture[str], golden: Callable[[Path, str], None]) -> None:
    """`explain --json` gives exactly the records held beside the recording."""
    main(["explain", "--json", f"{name}.pcap"])
    captured = capsys.readouterr()
    assert captured.err == ""
    output = captured.out.replace(f'"h3probe":"{__version__}"', '"h3probe":"VERSION"')
    golden(FOLDER / f"{name}.golden.ndjson", output)


@each
def test_console(name: str, capsys: pytest.CaptureFixture[str], golden: Callable[[Path, str], None]) -> None:
    """`explain` prints exactly the text held beside the recording, within 80 columns and without escapes."""
    main(["explain", f"{name}.pcap"])
    captured = capsys.readouterr()
    assert captured.err == ""
    for line in captured.out.splitlines():
        assert len(line) <= 80
        assert line.isprintable()
    golden(FOLDER / f"{name}.golden.txt", captured.out)


def test_no_golden_file_is_left_over() -> None:
    """Every golden file belongs to a recording."""
    held = {path.name.partition(".golden.")[0] for path in FOLDER.glob("*.golden.*")}
    assert held <= set(NAMES)
