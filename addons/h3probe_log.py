"""Writes what passes through a mitmdump of yours as h3probe's events. Needs h3probe installed beside mitmproxy.

    mitmdump -s addons/h3probe_log.py --set h3probe_out=events.ndjson
    h3probe explain events.ndjson

It changes nothing: mode, interception and everything else are as you set them. One JSON object a line; docs/proxy.md
says what is in them. A file that exists is replaced.

Options:
    h3probe_out     where to; `-` for standard output (then give mitmdump -q)
    h3probe_level   the least urgent lines of mitmproxy's log to take along: debug, info, warning (default), error
"""  # noqa: INP001 - a script for mitmdump -s

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mitmproxy import ctx, exceptions

from h3probe.vantage.mitm.addon import make_addons
from h3probe.vantage.mitm.log import LogEvents
from h3probe.vantage.mitm.reporter import Reporter

if TYPE_CHECKING:
    from mitmproxy.addonmanager import Loader

logger = logging.getLogger(__name__)


class H3probeLog:
    """Opens the file once its name is known.

    Args:
        reporter: What writes it.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._log = LogEvents(reporter)

    def load(self, loader: Loader) -> None:
        """Add the options."""
        loader.add_option("h3probe_out", str, "", "Where h3probe's events go: a file, or - for standard output.")
        levels = ["debug", "info", "warning", "error"]
        loader.add_option("h3probe_level", str, "warning", "The least urgent log lines to take along.", choices=levels)

    def configure(self, updated: set[str]) -> None:
        """Open the file, and choose the log lines."""
        if "h3probe_level" in updated:
            self._log.setLevel(ctx.options.h3probe_level.upper())
        if "h3probe_out" in updated and ctx.options.h3probe_out:
            self._reporter.open(_open(ctx.options.h3probe_out))
            logging.getLogger().addHandler(self._log)

    def running(self) -> None:
        """Say what is missing, which ends mitmdump."""
        if not ctx.options.h3probe_out:
            logger.error("h3probe_log.py writes nothing: give it a file with --set h3probe_out=events.ndjson")

    def done(self) -> None:
        """End."""
        logging.getLogger().removeHandler(self._log)


def _open(path: str) -> int:
    if path == "-":
        return os.dup(sys.stdout.fileno())
    try:
        return os.open(Path(path).expanduser(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise exceptions.OptionsError(f"h3probe_out: {path}: {error.strerror}") from error


_reporter = Reporter(lambda: logger.error("h3probe_out cannot be written any more"))
addons = [H3probeLog(_reporter), *make_addons(None, _reporter)]
