"""Takes Alt-Svc out of every response: what does a client do that never learns of HTTP/3?

    mitmdump -s addons/strip_alt_svc.py
    mitmdump -s addons/strip_alt_svc.py --set strip_alt_svc_hosts=example.org

mitmproxy sees a header only where it terminates TLS, so the client must trust its CA (http://mitm.it through the
proxy). Needs nothing but mitmproxy.

Options:
    strip_alt_svc_hosts   only responses of these hosts, separated by commas; all unless given
"""  # noqa: INP001 - a script for mitmdump -s

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mitmproxy import ctx

if TYPE_CHECKING:
    from mitmproxy import http
    from mitmproxy.addonmanager import Loader

logger = logging.getLogger(__name__)


class StripAltSvc:
    """Every Alt-Svc line of a response goes, and the log says what it was."""

    def load(self, loader: Loader) -> None:
        """Add the option."""
        loader.add_option("strip_alt_svc_hosts", str, "", "Only responses of these hosts; all unless given.")

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Take it out before the client sees it."""
        hosts = [host.strip().lower() for host in ctx.options.strip_alt_svc_hosts.split(",") if host.strip()]
        if flow.response is None or (hosts and flow.request.pretty_host.lower() not in hosts):
            return
        for value in flow.response.headers.get_all("alt-svc"):
            logger.info("strip_alt_svc: %s: %s", flow.request.pretty_host, value)
        flow.response.headers.pop("alt-svc", None)


addons = [StripAltSvc()]
