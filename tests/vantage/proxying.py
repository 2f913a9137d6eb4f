"""A proxy under test, servers beside it, and clients for it."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from h3probe.events import ConnectionEnded
from h3probe.lab.client import Client, Policy
from h3probe.vantage.proxy_spec import Listen, ProxySpec, Reverse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from types import TracebackType

    from h3probe.lab.authority import Authority
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.servers import Server
    from h3probe.vantage.proxy import Proxy

PATIENCE_S = 20.0


class Background:
    """Runs coroutines, and holds async contexts open until its own end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()

    def run[T](self, coroutine: Coroutine[object, object, T], timeout: float = 20.0) -> T:
        """Run a coroutine to its end."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    def enter[T](self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter an async context, and leave it at the end."""
        return self.run(self._stack.enter_async_context(context))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Watched:
    """A proxy, and what it has reported so far."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.events: list[Any] = []

    def until(self, done: Callable[[list[Any]], bool]) -> list[Any]:
        """Read events until it is enough, and take them."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.events += self.proxy.events()
            if done(self.events):
                found, self.events = self.events, []
                return found
            assert time.monotonic() < deadline, self.events
            time.sleep(0.01)

    def until_ended(self, connections: int = 1) -> list[Any]:
        """Read events until so many connections have ended."""
        return self.until(lambda events: len(only(ConnectionEnded, events)) >= connections)


def only[T](kind: type[T], events: list[Any]) -> list[T]:
    """The events of a kind."""
    return [event for event in events if isinstance(event, kind)]


def one[T](kind: type[T], events: list[Any]) -> T:
    """The only event of a kind."""
    (found,) = only(kind, events)
    return found


def get(
    background: Background,
    url: str,
    ca: Path,
    *,
    proxy: Proxy | int | None = None,
    policy: Policy = Policy.NO_OPT_IN,
    count: int = 1,
) -> list[Outcome]:
    """Send requests with the lab's client."""

    async def run() -> list[Outcome]:
        port = proxy if isinstance(proxy, int | None) else proxy.port
        async with Client(policy, ca, proxy=None if port is None else ("127.0.0.1", port)) as client:
            return [await client.get(url) for _ in range(count)]

    return background.run(run())


def say(port: int, *pieces: bytes) -> bytes:
    """Send a request, and return the answer: its head, and as much of a body as it announces, or what there is."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        while not _is_whole(answer) and (data := connection.recv(65536)):
            answer += data
        return answer


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\ncontent-length: *([0-9]+)", head)
    return bool(end) and (len(body) >= int(length[1]) if length is not None else not head.startswith(b"HTTP/1.1 101"))


def throw(port: int, garbage: bytes) -> None:
    """Send bytes, and wait for the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection, suppress(OSError):
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


class Corporate:
    """A proxy that says what it is told to say to a CONNECT, and remembers what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


async def close_server(server: asyncio.Server) -> None:
    """Stop listening; what is connected stays."""
    server.close()


def reverse_to(server: Server, authority: Authority, intercept: tuple[str, ...] | None = None) -> ProxySpec:
    """A reverse proxy before a server."""
    return ProxySpec(
        reverse=(Reverse(Listen(0), "localhost", server.port),), intercept=intercept, upstream_ca=authority.ca_file
    )
