"""The script that h3probe's own mitmdump loads: `mitmdump -s script.py`, with its settings on standard input."""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import asyncio
import logging
import os
import sys

from mitmproxy import ctx

from h3probe.vantage.mitm.addon import make_addons
from h3probe.vantage.mitm.log import LogEvents
from h3probe.vantage.mitm.reporter import Reporter
from h3probe.vantage.mitm.settings import Settings


class Lifeline:
    """Ends the proxy when h3probe is gone: nobody else would."""

    def running(self) -> None:
        """Watch standard input, which ends with h3probe."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._readable)

    def _readable(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            ctx.master.shutdown()


def _addons() -> list[object]:
    settings = Settings.load(sys.stdin.readline())
    reporter = Reporter(lambda: ctx.master.shutdown())  # noqa: PLW0108 - there is no master yet
    reporter.open(settings.events)
    root = logging.getLogger()
    root.addHandler(LogEvents(reporter, settings.secrets))
    root.setLevel(logging.WARNING)  # nobody reads what is below, and mitmproxy says a lot there
    return [*make_addons(settings, reporter), Lifeline()]


addons = _addons()
