"""Sets the Alt-Svc of every response: what does a client do with an alternative that is elsewhere, stale or broken?

    mitmdump -s addons/set_alt_svc.py --set 'alt_svc=h3=":443"; ma=3600'
    mitmdump -s addons/set_alt_svc.py --set alt_svc=clear

In reverse mode mitmproxy rewrites what this sets, unless it is told not to: --set keep_alt_svc_header=true. It sees a
header only where it terminates TLS, so the client must trust its CA (http://mitm.it through the proxy). Needs nothing
but mitmproxy.

Options:
    alt_svc         the value, as it is to be sent; not checked, since a broken one may be the experiment. Several
                    header lines are separated by |
    alt_svc_hosts   only responses of these hosts, separated by commas; all unless given
"""  # noqa: INP001 - a script for mitmdump -s

from __future__ import annotations

from typing import TYPE_CHECKING

from mitmproxy import ctx

if TYPE_CHECKING:
    from mitmproxy import http
    from mitmproxy.addonmanager import Loader


class SetAltSvc:
    """What the server says is replaced."""

    def load(self, loader: Loader) -> None:
        """Add the options."""
        loader.add_option("alt_svc", str, "", "The Alt-Svc value; several header lines are separated by |.")
        loader.add_option("alt_svc_hosts", str, "", "Only responses of these hosts; all unless given.")

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Set it before the client sees the response."""
        lines = [line.strip() for line in ctx.options.alt_svc.split("|") if line.strip()]
        hosts = [host.strip().lower() for host in ctx.options.alt_svc_hosts.split(",") if host.strip()]
        if not lines or flow.response is None or (hosts and flow.request.pretty_host.lower() not in hosts):
            return
        flow.response.headers.set_all("alt-svc", lines)


addons = [SetAltSvc()]
