"""`h3probe redact` on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.cli import main
from h3probe.cli.redact import report
from h3probe.run.redacting import Redacted
from tests.captures.recordings import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SOURCE = str(FOLDER / "jdk26-alt-svc.pcap")


def test_redact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A capture is written, what was done is said on the standard error, and a second run is refused."""
    target = tmp_path / "public.pcapng"
    assert main(["redact", SOURCE, "-o", str(target), "--keep-host", "localhost"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("83 of 83 packets written to ")
    assert main(["redact", SOURCE, "-o", str(target)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["redact", SOURCE]) == 2


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """With `-o -` the capture goes on to another program."""
    assert main(["redact", SOURCE, "-o", "-"]) == 0
    captured = capfdbinary.readouterr()
    assert captured.out.startswith(b"\x0a\x0d\x0d\x0a")
    assert captured.err.startswith(b"83 of 83 packets written")


def test_what_was_left_out_is_said() -> None:
    """Each reason has a line with its count."""
    done = Redacted(frames=9, written=5, unfinished=1, secrets=2, comments=3, unreadable=1)
    done.dropped.update({"IP fragment": 3, "IP protocol 132": 1})
    assert report(done, "x") == [
        "5 of 9 packets written to x",
        "  left out: IP fragment: 3",
        "  left out: IP protocol 132: 1",
        "  left out: comments: 3",
        "  left out: blocks of TLS secrets: 2",
        "  made noise: packets with a part of a message that was never whole: 1",
        "  read otherwise than written, or not at all: 1 (`h3probe explain` says what)",
    ]
    assert report(Redacted(truncated=True), "-") == [
        "0 of 0 packets written to standard output",
        "  the input could not be read to its end",
    ]
