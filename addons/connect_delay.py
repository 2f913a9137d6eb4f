"""Answers CONNECT late: how long does a client wait for a slow proxy, and what does it do then?

    mitmdump -s addons/connect_delay.py --set connect_delay=10
    mitmdump -s addons/connect_delay.py --set connect_delay=forever

Other requests are not held up. Needs nothing but mitmproxy, and no trust in its CA.

Options:
    connect_delay   seconds before a CONNECT is taken up (5), or `forever`
"""  # noqa: INP001 - a script for mitmdump -s

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mitmproxy import ctx, exceptions

if TYPE_CHECKING:
    from mitmproxy import http
    from mitmproxy.addonmanager import Loader


class ConnectDelay:
    """A slow proxy."""

    def load(self, loader: Loader) -> None:
        """Add the option."""
        loader.add_option("connect_delay", str, "5", "Seconds before a CONNECT is taken up, or `forever`.")

    def configure(self, updated: set[str]) -> None:
        """Refuse a delay that is none."""
        if "connect_delay" in updated:
            _seconds()

    async def http_connect(self, _flow: http.HTTPFlow) -> None:
        """Wait; other connections go on meanwhile."""
        seconds = _seconds()
        if seconds is None:
            await asyncio.Event().wait()
        else:
            await asyncio.sleep(seconds)


def _seconds() -> float | None:
    text = ctx.options.connect_delay
    if text == "forever":
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise exceptions.OptionsError(f"connect_delay: {text!r} is neither seconds nor `forever`")
    return seconds


addons = [ConnectDelay()]
