"""HTTP/1.1 and HTTP/2 over TLS, served by Hypercorn on sockets that are already bound."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from hypercorn.asyncio import serve
from hypercorn.config import Config

from h3probe.lab.site import asgi_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hypercorn.typing import ASGIFramework

    from h3probe.lab.authority import Authority
    from h3probe.lab.ports import Port
    from h3probe.lab.site import Site

_SHUTDOWN_SECONDS = 1.0


@asynccontextmanager
async def serve_tcp(port: Port, site: Site, authority: Authority, alpn: Sequence[str]) -> AsyncIterator[None]:
    """Answer on the TCP sockets of `port` until the context ends.

    Args:
        port: Its TCP sockets pass to the server.
        site: What to answer.
        authority: Whose server certificate to show.
        alpn: `h2` and `http/1.1`, or one of them, the preferred one first.
    """
    config = Config()
    config.certfile = str(authority.cert_file)
    config.keyfile = str(authority.key_file)
    config.alpn_protocols = list(alpn)
    config.bind = [f"fd://{sock.detach()}" for sock in port.tcp]
    port.tcp.clear()
    # The lab reports through its callers; a server that prints would spoil `demo --json`.
    config.accesslog = config.errorlog = None
    config.graceful_timeout = _SHUTDOWN_SECONDS / 2
    config.keep_alive_timeout = 60.0

    _hear_no_alerts(asyncio.get_running_loop())
    stop = asyncio.Event()
    app = cast("ASGIFramework", asgi_app(site))
    # With a trigger of its own Hypercorn leaves the process's signal handlers alone.
    task = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
    try:
        yield
    finally:
        stop.set()
        # It waits for idle connections; a lab that is told to end has no reason to.
        await asyncio.wait({task}, timeout=_SHUTDOWN_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _hear_no_alerts(loop: asyncio.AbstractEventLoop) -> None:
    """Keep asyncio from printing a traceback for each client that does not trust the lab's authority."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), ssl.SSLError | ConnectionError):
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
