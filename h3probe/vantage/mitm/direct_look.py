"""A look at a server past the proxy behind this one: which Alt-Svc it sends to somebody who asks it directly.

Only where it was asked for: it is a request of h3probe's own, and goes where the client's did not.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from http.client import HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Final

from h3probe import __version__
from h3probe.events import AltSvcSeen

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.vantage.mitm.watch import ConnectionWatch

TIMEOUT_S: Final = 5.0
ORIGINS: Final = 64
"""Servers that are looked at in one run; each is asked once."""
_AT_ONCE: Final = 4


class DirectLook:
    """Asks each server once.

    Args:
        emit: Takes what was found: lines that the client did not get.
        roots: The file of certificates that servers may be signed by, PEM; None for the system's.
        insecure: Whether servers' certificates are believed unseen.
    """

    def __init__(self, emit: Callable[[AltSvcSeen], None], roots: str | None, *, insecure: bool) -> None:
        self._emit = emit
        self._context = ssl.create_default_context(cafile=roots)
        if insecure:
            self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._asked: set[tuple[str, int]] = set()
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, watch: ConnectionWatch, host: str, port: int, origin: str) -> None:
        """Ask a server whose answer came to this client's connection without Alt-Svc, unless it was asked before."""
        if (host, port) in self._asked or len(self._asked) >= ORIGINS:
            return
        self._asked.add((host, port))
        task = asyncio.get_running_loop().create_task(self._look(watch, host, port, origin))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, watch: ConnectionWatch, host: str, port: int, origin: str) -> None:
        async with self._limit:
            lines = await asyncio.to_thread(alt_svc_of, host, port, self._context)
        if lines:
            self._emit(AltSvcSeen(time.time_ns(), watch.id, watch.client, origin, lines, passed_on=(), directly=True))


def alt_svc_of(host: str, port: int, context: ssl.SSLContext) -> tuple[str, ...]:
    """The Alt-Svc lines of a server's answer to `HEAD /`; none where it cannot be reached or is not to be believed."""
    connection = HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
    try:
        connection.request("HEAD", "/", headers={"User-Agent": f"h3probe/{__version__}"})
        return tuple(connection.getresponse().headers.get_all("alt-svc") or ())
    except (OSError, HTTPException, ValueError):  # a firewall that wants everything to go through the proxy, mostly
        return ()
    finally:
        connection.close()
