"""One QUIC connection of the built-in client, driven straight on aioquic's sans-IO core, and HTTP/3 on it."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection as QuicState
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamReset
from aioquic.quic.packet import QuicErrorCode, QuicFrameType

from h3probe.lab.client_tcp import Reply

if TYPE_CHECKING:
    from h3probe.lab.client_tcp import Target
    from h3probe.lab.outcome import HttpVersion

_IDLE_SECONDS = 30.0


@cache
def _secrets_file() -> TextIO | None:
    """Where the TLS secrets go, which Python's ssl writes by itself; it is open for as long as this process lives."""
    path = os.environ.get("SSLKEYLOGFILE")
    return None if path is None else Path(path).open("a", encoding="ascii")


class _Pending:
    """A request whose response is still coming."""

    def __init__(self) -> None:
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.headers: tuple[tuple[str, str], ...] = ()
        self.size = 0

    def finish(self) -> None:
        if not self.reply.done():
            self.reply.set_result(Reply(int(dict(self.headers)[":status"]), self.headers, self.size))

    def fail(self, error: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)


class QuicConnection(asyncio.DatagramProtocol):
    """A connection that can carry requests.

    Its socket is not connected, so that ICMP errors do not reach it: the JDK's is not either.
    """

    version: HttpVersion = "HTTP/3"

    def __init__(self, state: QuicState, target: Target) -> None:
        self._state = state
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._http: H3Connection | None = None
        self._pending: dict[int, _Pending] = {}
        self._heard = False
        self.is_open = True
        self.local_port = 0

    @classmethod
    async def connect(cls, target: Target, ca_file: Path, *, sni: str | None, timeout: float) -> Self:  # noqa: ASYNC109 -- it is told to the server
        """Complete a handshake.

        When the time is up it says so in a CONNECTION_CLOSE, as the JDK does.

        Args:
            target: The origin or its alternative; `address` and `port` are used.
            ca_file: The authority to trust.
            sni: The server name to send, None for none.
            timeout: Seconds until it gives up.

        Raises:
            TimeoutError: The handshake did not finish in time.
            ConnectionError: The server refused it.
        """
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=["h3"],
            idle_timeout=_IDLE_SECONDS,
            # An address is verified like a name, and is not sent.
            server_name=sni or target.address,
        )
        configuration.load_verify_locations(cafile=str(ca_file))
        if (secrets := _secrets_file()) is not None:
            configuration.secrets_log_file = secrets
        loop = asyncio.get_running_loop()
        any_port = ("::1" if ":" in target.address else "127.0.0.1", 0)
        _, connection = await loop.create_datagram_endpoint(
            lambda: cls(QuicState(configuration=configuration), target), local_addr=any_port
        )
        await connection.handshake(timeout)
        return connection

    async def handshake(self, timeout: float) -> None:  # noqa: ASYNC109 -- what it says at the end depends on it
        """Wait until it can carry requests; see `connect`."""
        try:
            async with asyncio.timeout(timeout):
                await self._ready
        except TimeoutError:
            reason = "Handshake not finished" if self._heard else "No response from peer"
            self._abort(f"{reason} for {timeout:g} seconds")
            raise TimeoutError(f"{reason.lower()} for {timeout:g} seconds over QUIC") from None
        except BaseException:
            self._abort("given up")
            raise

    async def get(self, target: Target) -> Reply:
        """Send a GET request and wait for the whole response.

        Raises:
            OSError: The connection ended before the response did.
        """
        if self._http is None or not self.is_open:
            raise ConnectionError("the QUIC connection is closed")
        stream_id = self._state.get_next_available_stream_id()
        request = {":method": "GET", ":scheme": "https", ":authority": target.authority, ":path": target.path}
        pending = self._pending[stream_id] = _Pending()
        self._http.send_headers(stream_id, [(k.encode(), v.encode()) for k, v in request.items()], end_stream=True)
        self._transmit()
        try:
            return await pending.reply
        finally:
            del self._pending[stream_id]

    async def close(self) -> None:
        """End it in order."""
        self._abort("", code=QuicErrorCode.NO_ERROR)

    def _abort(self, reason: str, code: int = QuicErrorCode.APPLICATION_ERROR) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        # With a frame type aioquic keeps the reason in an Initial too, where it can be read on the wire.
        self._state.close(error_code=code, frame_type=QuicFrameType.PADDING, reason_phrase=reason)
        self._transmit()
        self._end(ConnectionError(reason or "closed"))

    def _end(self, error: Exception) -> None:
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.close()
        if not self._ready.done():
            self._ready.set_exception(error)
            # It is awaited by `connect` alone, which may be gone.
            self._ready.exception()
        for pending in self._pending.values():
            pending.fail(error)

    # asyncio.DatagramProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first Initial."""
        if not isinstance(transport, asyncio.DatagramTransport):
            raise TypeError
        self._transport = transport
        self.local_port = transport.get_extra_info("sockname")[1]
        self._state.connect((self._target.address, self._target.port), now=self._loop.time())
        self._transmit()

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """Take a datagram from the server."""
        self._heard = True
        self._state.receive_datagram(data, addr, now=self._loop.time())
        self._advance()

    def error_received(self, exc: Exception) -> None:
        """Ignore what the system reports about the socket (ICMP on Windows)."""

    def _advance(self) -> None:
        while (event := self._state.next_event()) is not None:
            if isinstance(event, HandshakeCompleted):
                self._http = H3Connection(self._state)
                if not self._ready.done():
                    self._ready.set_result(None)
            elif isinstance(event, ConnectionTerminated):
                reason = event.reason_phrase or "no reason given"
                self._end(ConnectionRefusedError(f"QUIC closed with 0x{event.error_code:x}: {reason}"))
            elif isinstance(event, StreamReset) and event.stream_id in self._pending:
                self._pending[event.stream_id].fail(ConnectionResetError(f"stream reset: 0x{event.error_code:x}"))
            if self._http is not None:
                for http_event in self._http.handle_event(event):
                    self._take(http_event)
        self._transmit()

    def _take(self, event: Any) -> None:  # noqa: ANN401 -- any HTTP/3 event
        if not isinstance(event, HeadersReceived | DataReceived):
            return
        pending = self._pending.get(event.stream_id)
        if pending is None:
            return
        if isinstance(event, DataReceived):
            pending.size += len(event.data)
        elif not pending.headers:
            pending.headers = tuple((k.decode("latin-1"), v.decode("latin-1")) for k, v in event.headers)
        if event.stream_ended:
            pending.finish()

    def _transmit(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        for data, address in self._state.datagrams_to_send(now=self._loop.time()):
            self._transport.sendto(data, address)
        if self._timer is not None:
            self._timer.cancel()
        at = self._state.get_timer()
        self._timer = None if at is None else self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._state.handle_timer(now=self._loop.time())
        self._advance()
