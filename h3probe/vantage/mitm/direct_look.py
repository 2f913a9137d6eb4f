"""A look at a server past the proxy behind this one: which Alt-Svc it sends to somebody who asks it directly.

Only where it was asked for: it is a request of h3probe's own, and goes where the client's did not.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from typing import TYPE_CHECKING, Final

from h3probe import __version__
from h3probe.errors import DecodeError
from h3probe.events import AltSvcSeen
from h3probe.vantage.mitm.words import host_and_port
from h3probe.wire.http1 import MAX_HEAD, parse_response_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.vantage.mitm.watch import ConnectionWatch
    from h3probe.wire.http1 import ResponseHead

TIMEOUT_S: Final = 5.0
ORIGINS: Final = 64
"""Servers that are looked at in one run; each is asked once."""
_AT_ONCE: Final = 4
_PATH: Final = re.compile(r"/[\x21-\x7e]*")


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

    def look(self, watch: ConnectionWatch, place: tuple[str, int], path: str, origin: str) -> None:
        """Ask a server whose answer came to this client's connection without Alt-Svc, unless it was asked before.

        Args:
            watch: Of the client's connection.
            place: The server's host and port.
            path: What the client asked for, without a query.
            origin: `https://host:port`.
        """
        if place in self._asked or len(self._asked) >= ORIGINS:
            return
        self._asked.add(place)
        task = asyncio.get_running_loop().create_task(self._look(watch, place, path, origin))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, watch: ConnectionWatch, place: tuple[str, int], path: str, origin: str) -> None:
        async with self._limit:
            lines = await alt_svc_of(*place, path, self._context)
        if lines:
            self._emit(AltSvcSeen(time.time_ns(), watch.id, watch.client, origin, lines, passed_on=(), directly=True))


async def alt_svc_of(host: str, port: int, path: str, context: ssl.SSLContext) -> tuple[str, ...]:
    """The Alt-Svc lines of a server's good answer to a `HEAD`.

    None where it cannot be reached, is not to be believed, answers with an error, or takes more than `TIMEOUT_S` for
    all of it.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            head = await _head_of(host, port, path, context)
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, DecodeError):
        # A firewall that wants everything to go through the proxy, mostly.
        return ()
    return tuple(value for name, value in head.headers if name == "alt-svc") if is_good(head.status) else ()


def is_telling(method: str, status: int) -> bool:
    """Whether an answer without Alt-Svc can be held against one to a `HEAD` for the same path."""
    return method in {"GET", "HEAD"} and is_good(status)


def is_good(status: int) -> bool:
    """Whether an answer is the resource's own, or leads to it; an error may be anybody's on the way."""
    return 200 <= status < 400


async def _head_of(host: str, port: int, path: str, context: ssl.SSLContext) -> ResponseHead:
    """The head of the final answer."""
    if not _PATH.fullmatch(path):
        raise ValueError("no path that can be asked for")
    authority = host_and_port(host, port).removesuffix(":443")
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=MAX_HEAD)
    try:
        fields = f"Host: {authority}\r\nUser-Agent: h3probe/{__version__}\r\nConnection: close\r\n\r\n"
        writer.write(f"HEAD {path} HTTP/1.1\r\n{fields}".encode("ascii"))
        while True:
            head = parse_response_head(await reader.readuntil(b"\r\n\r\n"))
            if head is None:
                raise EOFError
            if head.status >= 200:
                return head
    finally:
        writer.transport.abort()
