"""What h3probe's blind proxy costs, against a bare mitmdump in the same mode, and against no proxy at all.

    uv run python -m benchmarks.proxy [SECONDS]

One run measures all of them by turns, a slice each, over and over: what else happens on the machine hits them alike.
Three kinds of load, each with 16 clients at a time over loopback:

- tunnels: CONNECT, 64 bytes there and back, and a new connection for the next (how many tunnels a second);
- requests: 64 bytes there and back, over tunnels that stay open;
- blocks: 64 KiB from the server, over tunnels that stay open.

The bare mitmdump lets TLS pass through as h3probe's does (`--ignore-hosts .`), and prints nothing (`-q`).
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.vantage.proxy import Proxy
from h3probe.vantage.proxy_ports import claim
from h3probe.vantage.proxy_spec import Listen, ProxySpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

DEFAULT_SECONDS = 60.0
CLIENTS = 16
SLICE_S = 1.0
MESSAGE = 64
BLOCK = 64 << 10
PATIENCE_S = 30.0
# As a TLS record with a ClientHello in it begins, so that nothing takes it for plain text.
HELLO = b"\x16\x03\x01\x00\x3b\x01\x00\x00\x37\x03\x03".ljust(MESSAGE, b"h")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Measured:
    """What one way to the server did in one kind of load.

    Attributes:
        done: How many operations.
        seconds: In how many seconds.
        latencies: What each took, in seconds.
    """

    done: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.done / self.seconds

    @property
    def median(self) -> float:
        """Of the latencies, in milliseconds."""
        return statistics.median(self.latencies) * 1e3

    @property
    def slow(self) -> float:
        """The 95th percentile of the latencies, in milliseconds."""
        return statistics.quantiles(self.latencies, n=20)[-1] * 1e3


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer 64 bytes with as many; or, when they begin with a B, with a block."""
    try:
        while True:
            message = await reader.readexactly(MESSAGE)
            writer.write(bytes(BLOCK) if message.startswith(b"B") else message)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _open(port: int, proxy: int | None) -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy or port)
    if proxy is not None:
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"the proxy says {head!r}")
    return reader, writer


async def _exchange(streams: Streams, message: bytes, size: int) -> None:
    streams[1].write(message)
    await streams[0].readexactly(size)


async def _tunnels(port: int, proxy: int | None) -> Callable[[], Awaitable[None]]:
    async def operation() -> None:
        streams = await _open(port, proxy)
        await _exchange(streams, HELLO, MESSAGE)
        streams[1].close()

    return operation


async def _requests(port: int, proxy: int | None) -> Callable[[], Awaitable[None]]:
    streams = await _open(port, proxy)
    return lambda: _exchange(streams, HELLO, MESSAGE)


async def _blocks(port: int, proxy: int | None) -> Callable[[], Awaitable[None]]:
    streams = await _open(port, proxy)
    return lambda: _exchange(streams, b"B" * MESSAGE, BLOCK)


LOADS = {"tunnels": _tunnels, "requests": _requests, "blocks": _blocks}


async def _slice(
    make: Callable[[int, int | None], Awaitable[Callable[[], Awaitable[None]]]],
    port: int,
    proxy: int | None,
    into: Measured,
) -> None:
    """Let the clients do one kind of load for a slice of time."""

    async def client() -> None:
        operation = await make(port, proxy)
        await begin.wait()
        while time.perf_counter() < end[0]:
            began = time.perf_counter()
            await operation()
            into.latencies.append(time.perf_counter() - began)
            into.done += 1

    begin, end = asyncio.Event(), [0.0]
    clients = [asyncio.create_task(client()) for _ in range(CLIENTS)]
    await asyncio.sleep(0.1)
    began = time.perf_counter()
    end[0] = began + SLICE_S
    begin.set()
    await asyncio.gather(*clients)
    into.seconds += time.perf_counter() - began


@contextmanager
def bare_mitmdump(folder: Path) -> Iterator[int]:
    """Run mitmproxy's own mitmdump; give its port."""
    (host, *_), port = claim("127.0.0.1", 0, udp=False)
    argv = [str(Path(sys.executable).with_name("mitmdump")), "-q", "--set", f"confdir={folder}", "--ignore-hosts", "."]
    argv += ["--mode", f"regular@{host}:{port}"]
    with subprocess.Popen(argv) as process:  # noqa: S603 - the mitmdump of this environment
        try:
            _wait_for(port)
            yield port
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


async def _measure(seconds: float, ways: dict[str, int | None], proxy: Proxy) -> dict[str, dict[str, Measured]]:
    async def read_events() -> None:
        while True:
            proxy.events()
            await asyncio.sleep(0.02)

    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    reading = asyncio.create_task(read_events())
    results = {load: {way: Measured() for way in ways} for load in LOADS}
    for _ in range(max(round(seconds / (SLICE_S * len(LOADS) * len(ways))), 1)):
        for load, make in LOADS.items():
            for way, at in ways.items():
                await _slice(make, port, at, results[load][way])
    reading.cancel()
    server.close()
    return results


def main() -> None:
    """Measure, and print what each way did and how h3probe compares with the bare mitmdump."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_SECONDS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bare = stack.enter_context(bare_mitmdump(folder / "bare"))
        proxy = stack.enter_context(Proxy(ProxySpec(listen=Listen(0, "127.0.0.1")), folder=folder / "h3probe"))
        ways: dict[str, int | None] = {"direct": None, "mitmdump": bare, "h3probe": proxy.port}
        results = asyncio.run(_measure(seconds, ways, proxy))
    for load, by_way in results.items():
        for way, measured in by_way.items():
            print(f"{load:<9} {way:<9} {measured.rate:>9,.0f}/s", end="")
            print(f"  median {measured.median:7.2f} ms  95 % {measured.slow:7.2f} ms")
        ours, theirs = by_way["h3probe"], by_way["mitmdump"]
        print(f"{load:<9} h3probe / mitmdump: rate {ours.rate / theirs.rate:.2f}", end="")
        print(f", speed by the median {theirs.median / ours.median:.2f}")


if __name__ == "__main__":
    main()
