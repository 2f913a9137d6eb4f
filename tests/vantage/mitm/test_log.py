from __future__ import annotations

import logging

import pytest

from h3probe.events import Dropped, ProxyEvent, ProxyLog
from h3probe.vantage.mitm.log import LONGEST, LogEvents, redact
from h3probe.vantage.mitm.reporter import Reporter


class Collector(Reporter):
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.found: list[ProxyEvent | Dropped] = []

    def emit(self, event: ProxyEvent | Dropped) -> None:
        """Keep one."""
        self.found.append(event)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("connect to http://me:secret@corp:3128/", "connect to http://…@corp:3128/"),
        ("Proxy-Authorization: Basic bWU6c2VjcmV0", "Proxy-Authorization: …"),
        ("b'authorization', b'Bearer abc'", "…, …"),
        ("Unexpected data from server: b'GET /\\' x'!", "Unexpected data from server: …!"),
        ('cut off: b"GET /', "cut off: …"),
        ("Cookie: a=b\r\nHost: x", "Cookie: …\r\nHost: x"),
        ("the token is bWU6c2VjcmV0!", "the token is …!"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_credentials_are_left_out(text: str, expected: str) -> None:
    """What looks like a credential, or is known to be one, is not in a log line."""
    assert redact(text, ["bWU6c2VjcmV0"]) == expected


def test_a_line_is_cut() -> None:
    """A line of any length is reported at a bounded one."""
    assert len(redact("x" * 1_000_000)) == LONGEST


def test_lines_become_events() -> None:
    """A log record becomes an event with its level, its text, and its traceback."""
    collector = Collector()
    logger = logging.getLogger(__name__)
    logger.setLevel(logging.INFO)
    logger.addHandler(LogEvents(collector))
    logger.info("too quiet")
    logger.warning("port %d", 80)
    try:
        int("odd")
    except ValueError:
        logger.exception("failed")
    warning, error = collector.found
    assert isinstance(warning, ProxyLog)
    assert (warning.level, warning.text) == ("warning", "port 80")
    assert isinstance(error, ProxyLog)
    assert error.level == "error"
    assert error.text.startswith("failed\nTraceback")
    assert "ValueError: invalid literal" in error.text
