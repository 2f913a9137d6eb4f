from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.events import ToldExchange
from h3probe.vantage.clientlog.tail import NetLogTail
from tests.vantage.clientlog.netlog_builder import EVENTS, file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from h3probe.events import Told


def versions(told: Iterable[Told]) -> list[str | None]:
    """Of the exchanges."""
    return [each.version for each in told if isinstance(each, ToldExchange)]


def test_a_log_is_read_while_it_grows(tmp_path: Path) -> None:
    """What a whole line tells is told at once; the last line counts when the browser has ended, or been killed."""
    path = tmp_path / "netlog.json"
    text = file(*EVENTS, end="").encode()
    half = text.index(b"UDP") if b"UDP" in text else len(text) // 2
    with NetLogTail(path, 0) as tail:
        tail.start()
        assert tail.write_end is None
        assert (tail.events(), tail.empty) == ([], True)
        path.write_bytes(text[:half])
        first = tail.events()
        with path.open("ab") as stream:
            stream.write(text[half:])
        rest = tail.rest()
    assert not tail.empty
    assert versions([*first, *rest]) == ["HTTP/2", "HTTP/3"]


def test_no_log_tells_nothing(tmp_path: Path) -> None:
    """A browser that wrote none is no error."""
    with NetLogTail(tmp_path / "netlog.json", 0) as tail:
        assert (tail.rest(), tail.empty) == ([], True)
