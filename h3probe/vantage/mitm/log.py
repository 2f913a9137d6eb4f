"""mitmproxy's log lines as events, without credentials."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Final, Literal

from h3probe.events import ProxyLog
from h3probe.vantage.mitm.words import BYTES
from h3probe.wire.http1 import REDACTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.vantage.mitm.reporter import Reporter

LONGEST: Final = 4096
_USER_INFO: Final = re.compile(r"(?<=://)[^/\s@]{1,512}@")
_HEADER: Final = re.compile(r"((?:proxy-)?authorization|(?:set-)?cookie)\W{1,4}[^\r\n]{1,4096}", re.IGNORECASE)


class LogEvents(logging.Handler):
    """A handler of the root logger.

    Args:
        reporter: Where the lines go.
        secrets: Texts that must not appear in one.
        level: The least urgent ones that do.
    """

    def __init__(self, reporter: Reporter, secrets: Sequence[str] = (), level: int = logging.WARNING) -> None:
        super().__init__(level)
        self._reporter = reporter
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        """Report one line."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        self._reporter.emit(ProxyLog(time.time_ns(), _level(record.levelno), redact(text, self._secrets)))


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Cut a text to its limit; leave out quoted bytes, what looks like a credential, and what is known to be one."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = BYTES.sub(REDACTED, text[:LONGEST])
    text = _USER_INFO.sub(f"{REDACTED}@", text)
    return _HEADER.sub(rf"\1: {REDACTED}", text)


def _level(number: int) -> Literal["debug", "info", "warning", "error"]:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"
