from __future__ import annotations

import io
import sys

import pytest

from h3probe.show.progress import shown_progress


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.mark.parametrize(("stream", "shown"), [(io.StringIO(), False), (Terminal(), True)])
def test_only_a_terminal_sees_it(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, *, shown: bool) -> None:
    """On standard error, and nothing of it in a log file."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with shown_progress() as progress:
        progress.begin("reading", 100)
        progress.advance(60)
        progress.begin("writing", None)
        progress.advance(40)
    assert ("reading" in stream.getvalue()) is shown


def test_it_is_gone_before_anything_else_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `end` nothing more of it is written."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with shown_progress() as progress:
        progress.begin("reading", 100)
        progress.end()
        stream.truncate(0)
        progress.advance(60)
    assert "reading" not in stream.getvalue()
