"""The script that h3probe's own mitmdump loads: `mitmdump -s script.py`, with its settings on standard input."""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from pathlib import Path

from mitmproxy import ctx

from h3probe.vantage.mitm.addon import make_addons
from h3probe.vantage.mitm.log import LogEvents
from h3probe.vantage.mitm.policy import Policy
from h3probe.vantage.mitm.reporter import Reporter
from h3probe.vantage.mitm.settings import QuicReady, Settings


class Lifeline:
    """Takes what h3probe says, and ends the proxy when it is gone: nobody else would.

    Args:
        policy: Is told.
        temporary: Whether the authority's folder goes with the proxy: h3probe itself may have been killed.
    """

    def __init__(self, policy: Policy, *, temporary: bool) -> None:
        self._policy, self._temporary = policy, temporary
        self._rest = b""

    def done(self) -> None:
        """Leave nothing."""
        if self._temporary:
            shutil.rmtree(Path(ctx.options.confdir), ignore_errors=True)

    def running(self) -> None:
        """Watch standard input, which ends with h3probe."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._readable)

    def _readable(self) -> None:
        data = os.read(sys.stdin.fileno(), 65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._policy.quic_ready(QuicReady.load(line.decode()).host)
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            ctx.master.shutdown()


def _addons() -> list[object]:
    # Not through `sys.stdin`, which would read on, and keep the lines that follow.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as stdin:
        settings = Settings.load(stdin.readline().decode())
    reporter = Reporter(lambda: ctx.master.shutdown())  # noqa: PLW0108 - there is no master yet
    reporter.open(settings.events)
    root = logging.getLogger()
    root.addHandler(LogEvents(reporter, settings.secrets))
    root.setLevel(logging.WARNING)  # nobody reads what is below, and mitmproxy says a lot there
    policy = Policy(settings.intercept)
    return [*make_addons(settings, reporter, policy), Lifeline(policy, temporary=settings.temporary)]


addons = _addons()
