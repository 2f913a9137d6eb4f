"""Answers CONNECT with 407, or any other status: what does a client do behind a proxy that wants to know who it is?

    mitmdump -s addons/connect_407.py
    mitmdump -s addons/connect_407.py --set connect_user=me:secret
    mitmdump -s addons/connect_407.py --set connect_status=403

Without connect_user nobody is let through. Needs nothing but mitmproxy, and no trust in its CA.

Options:
    connect_status   the status to refuse with (407)
    connect_scheme   the challenge of a 407, as `Basic realm="proxy"` (the default) or `Negotiate`
    connect_user     user:password that is let through with Basic; visible in `ps`, so use none that matters
"""  # noqa: INP001 - a script for mitmdump -s

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from mitmproxy import ctx, http

if TYPE_CHECKING:
    from mitmproxy.addonmanager import Loader


class Connect407:
    """A proxy that lets nobody through, or one user."""

    def load(self, loader: Loader) -> None:
        """Add the options."""
        loader.add_option("connect_status", int, 407, "The status to refuse CONNECT with.")
        loader.add_option("connect_scheme", str, 'Basic realm="proxy"', "The challenge of a 407.")
        loader.add_option("connect_user", str, "", "user:password that is let through.")

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """Refuse, or let it be."""
        user = ctx.options.connect_user
        if user:
            expected = "Basic " + base64.b64encode(user.encode()).decode("ascii")
            if flow.request.headers.get("Proxy-Authorization", "") == expected:
                return
        headers = {"Content-Length": "0"}
        if ctx.options.connect_status == 407:
            headers["Proxy-Authenticate"] = ctx.options.connect_scheme
        flow.response = http.Response.make(ctx.options.connect_status, b"", headers)


addons = [Connect407()]
