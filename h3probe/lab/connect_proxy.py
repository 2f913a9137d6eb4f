"""A tiny HTTP proxy that knows CONNECT and nothing else, and reaches nothing but this machine."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from h3probe.lab.ports import open_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CHUNK = 64 * 1024
_HEAD_SECONDS = 10.0
_CONNECT = re.compile(rb"CONNECT ([^ :\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5}) HTTP/1\.[01]\r\n")
# A proxy that forwards anywhere would be an open relay for every user of this machine.
_HERE = {b"localhost", b"127.0.0.1", b"[::1]"}


@asynccontextmanager
async def connect_proxy(port: int = 0) -> AsyncIterator[int]:
    """Run the proxy on loopback until the context ends.

    Args:
        port: Its port, 0 for a free one.

    Yields:
        The port.

    Raises:
        UserError: The port is in use.
    """
    sockets = open_port(port, udp=False)
    tunnels: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            tunnels.add(task)
            task.add_done_callback(tunnels.discard)
        try:
            await _serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            # The proxy ends. asyncio would log a cancelled handler as an error.
            pass
        finally:
            writer.close()

    servers = []
    while sockets.tcp:
        servers.append(await asyncio.start_server(accept, sock=sockets.tcp.pop()))
    try:
        yield sockets.number
    finally:
        for server in servers:
            server.close()
        for task in tunnels:
            task.cancel()
        await asyncio.gather(*tunnels, return_exceptions=True)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(_HEAD_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    request = _CONNECT.match(head)
    if request is None or request[1] not in _HERE:
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        return
    host = request[1].decode().strip("[]")
    try:
        far_reader, far_writer = await asyncio.open_connection(host, int(request[2]))
    except (OSError, OverflowError):
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        return
    try:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(reader, far_writer))
            group.create_task(_copy(far_reader, writer))
    finally:
        far_writer.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until the source ends, and hand the end on."""
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    with suppress(OSError):
        sink.write_eof()
