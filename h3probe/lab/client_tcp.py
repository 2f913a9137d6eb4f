"""One TCP connection of the built-in client: TLS, then HTTP/2 or HTTP/1.1, directly or in a CONNECT tunnel."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h11

if TYPE_CHECKING:
    from pathlib import Path

    from h3probe.lab.outcome import HttpVersion

_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes.

    Attributes:
        host: The host in the URL.
        port: The port in the URL.
        address: The address that `host` stands for.
        path: The path and query, with the leading slash.
    """

    host: str
    port: int
    address: str
    path: str = "/"

    @property
    def authority(self) -> str:
        """Host and port as in the URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        status: The status code.
        headers: Names in lower case, and values.
        size: The content's length in bytes.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    size: int

    def header(self, name: str) -> str | None:
        """The first value with this name in lower case."""
        return next((value for key, value in self.headers if key == name), None)


def trust(ca_file: Path) -> ssl.SSLContext:
    """A TLS context that trusts this authority alone and offers HTTP/2 and HTTP/1.1."""
    context = ssl.create_default_context(cafile=str(ca_file))
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


class TcpConnection:
    """A connection that can carry requests, one at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self._h1: h11.Connection | None = None
        self._h2: h2.connection.H2Connection | None = None
        self.local_port: int = writer.get_extra_info("sockname")[1]

    @classmethod
    async def connect(cls, target: Target, context: ssl.SSLContext, proxy: tuple[str, int] | None = None) -> Self:
        """Connect, and be ready for the first request.

        Args:
            target: The origin; its `address` is used unless there is a proxy.
            context: From `trust`.
            proxy: Host and port of an HTTP proxy to ask for a tunnel.

        Raises:
            OSError: No connection, no tunnel, or no TLS.
        """
        if proxy is None:
            reader, writer = await asyncio.open_connection(
                target.address, target.port, ssl=context, server_hostname=target.host
            )
        else:
            reader, writer = await asyncio.open_connection(*proxy)
            try:
                await _ask_for_tunnel(reader, writer, target)
                await writer.start_tls(context, server_hostname=target.host)
            except BaseException:
                writer.close()
                raise
        connection = cls(reader, writer)
        await connection._begin()
        return connection

    async def _begin(self) -> None:
        tls = self._writer.get_extra_info("ssl_object")
        if tls.selected_alpn_protocol() != "h2":
            self._h1 = h11.Connection(h11.CLIENT)
            return
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self._h2.initiate_connection()
        await self._flush(self._h2)

    @property
    def version(self) -> HttpVersion:
        """What it carries requests as."""
        return "HTTP/1.1" if self._h2 is None else "HTTP/2"

    @property
    def is_open(self) -> bool:
        """Whether another request can be tried."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def get(self, target: Target) -> Reply:
        """Send a GET request and wait for the whole response.

        Raises:
            OSError: The connection ended before the response did.
        """
        async with self._turn:
            try:
                return await (self._get_h1(target) if self._h2 is None else self._get_h2(self._h2, target))
            except (h2.exceptions.ProtocolError, h11.ProtocolError) as error:
                self._writer.close()
                raise ConnectionError(f"the server broke the protocol: {error}") from error

    async def _get_h2(self, http: h2.connection.H2Connection, target: Target) -> Reply:
        stream_id = http.get_next_available_stream_id()
        request = {":method": "GET", ":scheme": "https", ":authority": target.authority, ":path": target.path}
        http.send_headers(stream_id, list(request.items()), end_stream=True)
        await self._flush(http)
        headers: tuple[tuple[str, str], ...] = ()
        size = 0
        while True:
            for event in http.receive_data(await self._read()):
                if isinstance(event, h2.events.ResponseReceived):
                    headers = tuple((_text(name), _text(value)) for name, value in event.headers or ())
                elif isinstance(event, h2.events.DataReceived):
                    size += len(event.data or b"")
                    http.acknowledge_received_data(event.flow_controlled_length or 0, stream_id)
                elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                    raise ConnectionResetError(f"the server ended it with HTTP/2 error {event.error_code}")
                elif isinstance(event, h2.events.StreamEnded):
                    await self._flush(http)
                    return Reply(int(dict(headers)[":status"]), headers, size)
            await self._flush(http)

    async def _get_h1(self, target: Target) -> Reply:
        http = self._h1
        if http is None:
            raise AssertionError
        request = h11.Request(method="GET", target=target.path, headers=[("Host", target.authority)])
        self._writer.write(http.send(request) or b"")
        self._writer.write(http.send(h11.EndOfMessage()) or b"")
        await self._writer.drain()
        response: h11.Response | None = None
        size = 0
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await self._read())
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                size += len(event.data)
            elif isinstance(event, h11.EndOfMessage) and response is not None:
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the server closed the connection")
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
        else:
            self._writer.close()
        return Reply(response.status_code, tuple((_text(k), _text(v)) for k, v in response.headers), size)

    async def _read(self) -> bytes:
        data = await self._reader.read(_CHUNK)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data

    async def _flush(self, http: h2.connection.H2Connection) -> None:
        self._writer.write(http.data_to_send())
        await self._writer.drain()

    async def close(self) -> None:
        """End it in order."""
        if self._h2 is not None and self.is_open:
            self._h2.close_connection()
            self._writer.write(self._h2.data_to_send())
        self._writer.close()
        # The peer's own end may already be gone, or never come; neither matters any more.
        await asyncio.wait({asyncio.ensure_future(_quietly_closed(self._writer))}, timeout=0.5)


async def _quietly_closed(writer: asyncio.StreamWriter) -> None:
    try:
        await writer.wait_closed()
    except OSError:
        return


async def _ask_for_tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Target) -> None:
    """Send CONNECT and read the answer (RFC 9110, 9.3.6).

    Raises:
        ConnectionError: The proxy did not open the tunnel.
    """
    writer.write(f"CONNECT {target.authority} HTTP/1.1\r\nHost: {target.authority}\r\n\r\n".encode())
    await writer.drain()
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ConnectionError("the proxy gave no answer to CONNECT") from error
    status_line = head.partition(b"\r\n")[0].decode("ascii", "replace")
    if status_line.split(" ")[1:2] != ["200"]:
        raise ConnectionRefusedError(f"the proxy answered {status_line!r}")


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
