"""`h3probe report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.cli import main

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
CAPTURE = str(ROOT / "captures/jdk26-udp-dropped-client-any.pcap")


def test_a_capture_becomes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is there, is whole, and is said to be; that there was a problem is not this command's failure."""
    target = tmp_path / "r.html"
    assert main(["report", CAPTURE, "-o", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert "<title>h3probe: jdk26-udp-dropped-client-any.pcap</title>" in text
    assert capsys.readouterr().out == f"{target} written\n"


def test_nothing_is_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is there is wrong usage, before the capture is even read."""
    target = tmp_path / "r.html"
    target.write_text("mine")
    assert main(["report", "no such capture", "-o", str(target)]) == 2
    assert "--force" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert main(["report", CAPTURE, "-o", str(target), "--force"]) == 0


def test_secrets_open_what_is_reported(tmp_path: Path) -> None:
    """With `--keylog` the requests are in the report, and the secrets are not."""
    target, data = tmp_path / "r.html", ROOT / "tests/data/decrypted"
    keys = data / "curl-h3.keys"
    assert main(["report", str(data / "curl-h3.pcap"), "--keylog", str(keys), "-o", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert "HTTP/3 for both requests" in text
    secrets = [line.split()[2] for line in keys.read_text().splitlines() if len(line.split()) == 3]
    assert secrets
    assert not any(secret in text for secret in secrets)


def test_one_origin_can_be_picked(tmp_path: Path) -> None:
    """`--port` leaves out what is to other ports."""
    target = tmp_path / "r.html"
    assert main(["report", CAPTURE, "--port", "1", "-o", str(target)]) == 0
    assert "localhost:4433" not in target.read_text(encoding="utf-8")


def test_standard_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What can be read only once is not enough."""
    assert main(["report", "-", "-o", str(tmp_path / "r.html")]) == 2
    assert "twice" in capsys.readouterr().err


def test_a_browser_is_asked_to_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--open` hands the file's address to the browser."""
    opened: list[str] = []

    def pretend(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", pretend)
    target = tmp_path / "r.html"
    assert main(["report", CAPTURE, "-o", str(target), "--open"]) == 0
    assert opened == [target.as_uri()]


def test_it_can_be_piped(capsys: pytest.CaptureFixture[str]) -> None:
    """`-o -` writes the page and nothing else to standard output."""
    assert main(["report", CAPTURE, "-o", "-"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>")
