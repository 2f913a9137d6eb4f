"""The TCP half of the relay: connections forwarded byte for byte, ends and resets included."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import random
import socket
import struct
from typing import TYPE_CHECKING, Protocol

from h3probe.vantage import synthesis
from h3probe.vantage.relay_splice import Passing, SinkError, SourceError, Splice, open_pipe
from h3probe.vantage.synthesis import ACK, FIN, MAX_SEGMENT, PSH, RST, SYN, Segment
from h3probe.vantage.targets import endpoint

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.vantage.relay_splice import Pipe
    from h3probe.vantage.targets import Targets

_CHUNK = 60_000
"""Bytes read at once, and told as one segment; below `synthesis.MAX_SEGMENT`."""

_READ_BYTES = 256 * 1024
"""What a direction of a TLS connection carries before its bytes are no longer looked at: `track.tcp.STREAM_LIMIT` is
half of it, so that nothing behind it would be read anyway."""

_TLS_HANDSHAKE = 0x16
_MAX_PIPES = 64
_NO_SPLICE = {errno.EINVAL, errno.ENOSYS, errno.EPERM}
_MAX_CONNECTIONS = 384
_ACCEPT_BATCH = 64
_ACCEPT_PAUSE_S = 0.5
_CONNECT_TIMEOUT_S = 20.0


class _ResetError(Exception):
    """One side has reset the connection."""

    def __init__(self, *, by_client: bool) -> None:
        super().__init__()
        self.by_client = by_client


class Emit(Protocol):
    """Takes a packet."""

    def __call__(self, packet: bytes, time_ns: int | None = None, missing: int = 0, /) -> None:
        """Take a packet, when it passed (None for now), and how many of its bytes are not at hand."""


class TcpTrace:
    """Tells one connection as the segments it would have taken without losses or options.

    Attributes:
        is_tls: Whether the client's first byte begins a TLS handshake; None before it.
    """

    def __init__(self, client: Endpoint, server: Endpoint, emit: Emit) -> None:
        self.is_tls: bool | None = None
        self._client, self._server, self._emit = client, server, emit
        self._client_next = random.getrandbits(32)
        self._server_next = random.getrandbits(32)

    def syn(self) -> None:
        """The client asks for a connection."""
        self._send(by_client=True, flags=SYN)
        self._client_next += 1

    def accepted(self) -> None:
        """The server takes it."""
        self._send(by_client=False, flags=SYN | ACK)
        self._server_next += 1
        self._send(by_client=True, flags=ACK)

    def refused(self) -> None:
        """The server refuses it: a reset for a SYN has no sequence number of its own (RFC 9293, 3.10.7.1)."""
        self._server_next = 0
        self._send(by_client=False, flags=RST | ACK)

    def data(self, payload: bytes, *, by_client: bool) -> None:
        """One side sends."""
        if by_client and self.is_tls is None:
            self.is_tls = payload[0] == _TLS_HANDSHAKE
        self._send(by_client=by_client, flags=PSH | ACK, payload=payload)
        self._advance(len(payload), by_client=by_client)

    def passed(self, count: int, time_ns: int, *, by_client: bool) -> None:
        """One side has sent bytes that are not at hand: told are the latest, as many as one segment holds."""
        missing = min(count, MAX_SEGMENT)
        self._advance(count - missing, by_client=by_client)
        self._send(by_client=by_client, flags=PSH | ACK, missing=missing, time_ns=time_ns)
        self._advance(missing, by_client=by_client)

    def fin(self, *, by_client: bool) -> None:
        """One side will send no more, and the other one acknowledges it."""
        self._send(by_client=by_client, flags=FIN | ACK)
        self._advance(1, by_client=by_client)
        self._send(by_client=not by_client, flags=ACK)

    def reset(self, *, by_client: bool) -> None:
        """One side breaks off."""
        self._send(by_client=by_client, flags=RST | ACK)

    def _advance(self, count: int, *, by_client: bool) -> None:
        if by_client:
            self._client_next += count
        else:
            self._server_next += count

    def _send(
        self, *, by_client: bool, flags: int, payload: bytes = b"", missing: int = 0, time_ns: int | None = None
    ) -> None:
        source, destination = (self._client, self._server) if by_client else (self._server, self._client)
        numbers = (self._client_next, self._server_next) if by_client else (self._server_next, self._client_next)
        self._emit(synthesis.tcp(source, destination, Segment(flags, *numbers, payload, missing)), time_ns, missing)


class TcpForwarder:
    """Accepts on one listening socket, and forwards each connection in a task of its own."""

    def __init__(
        self,
        listener: socket.socket,
        targets: Targets,
        emit: Emit,
        *,
        limit: int = _MAX_CONNECTIONS,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener, self._targets, self._emit = listener, targets, emit
        self._limit = limit
        self._pipes, self._max_pipes = 0, _MAX_PIPES
        self._tasks: set[asyncio.Task[None]] = set()
        self._resume: asyncio.TimerHandle | None = None
        self._accepting()

    def tell_all(self) -> None:
        """Copy everything, and tell it with its bytes."""
        self._max_pipes = 0

    def _accepting(self) -> None:
        self._resume = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPT_BATCH):
            if len(self._tasks) >= self._limit:
                self._pause()
                return
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no descriptors left
                self._pause()
                return
            connection.setblocking(False)
            trace = TcpTrace(endpoint(address), endpoint(connection.getsockname()), self._emit)
            task = self._loop.create_task(self._serve(connection, trace))
            self._tasks.add(task)
            task.add_done_callback(self._served)

    def _pause(self) -> None:
        """Leave those that wait in the kernel's queue for a moment."""
        self._loop.remove_reader(self._listener)
        self._resume = self._loop.call_later(_ACCEPT_PAUSE_S, self._accepting)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # an error of whoever is told, since those of the network end in a reset
            self._loop.call_exception_handler({"message": "forwarding failed", "exception": error, "task": task})

    async def _serve(self, client: socket.socket, trace: TcpTrace) -> None:
        upstream: socket.socket | None = None
        try:
            trace.syn()
            upstream = await self._connect()
            if upstream is None:
                trace.refused()
                _abort(client)
                return
            trace.accepted()
            for each in (client, upstream):
                with contextlib.suppress(OSError):  # macOS refuses it for a connection that is over already
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(client, upstream, trace, by_client=True))
                group.create_task(self._pump(upstream, client, trace, by_client=False))
        except* _ResetError as resets:
            reset = resets.exceptions[0]
            trace.reset(by_client=isinstance(reset, _ResetError) and reset.by_client)
            _abort(client)
            _abort(upstream)
        finally:
            client.close()
            if upstream is not None:
                upstream.close()

    async def _connect(self) -> socket.socket | None:
        """A connection to the first address that takes one; None when all refuse or stay silent."""
        for index in self._targets.order():
            family, address = self._targets.addresses[index]
            upstream = None
            try:
                upstream = socket.socket(family, socket.SOCK_STREAM)
                upstream.setblocking(False)
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    await self._loop.sock_connect(upstream, address)
            except OSError:  # TimeoutError is one
                if upstream is not None:
                    upstream.close()
                continue
            except BaseException:
                if upstream is not None:
                    upstream.close()
                raise
            self._targets.preferred = index
            return upstream
        return None

    async def _pump(self, source: socket.socket, sink: socket.socket, trace: TcpTrace, *, by_client: bool) -> None:
        """Forward one direction to its end; waiting for the sink is what holds the source back."""
        while (pipe := await self._copy(source, sink, trace, by_client=by_client)) is not None:
            passing = Passing(self._loop, functools.partial(trace.passed, by_client=by_client))
            self._pipes += 1
            try:
                if await self._splice(pipe, source, sink, passing, by_client=by_client):
                    break
            finally:
                self._pipes -= 1
                pipe.close()
                passing.close()
        trace.fin(by_client=by_client)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    async def _copy(
        self, source: socket.socket, sink: socket.socket, trace: TcpTrace, *, by_client: bool
    ) -> Pipe | None:
        """Forward what is looked at; give a pipe for what follows, of which nothing is, or None at the end."""
        copied = 0
        while True:
            if copied >= _READ_BYTES and trace.is_tls and self._pipes < self._max_pipes:
                pipe = open_pipe()
                if pipe is not None:
                    return pipe
            try:
                data = await self._loop.sock_recv(source, _CHUNK)
            except OSError as error:
                raise _ResetError(by_client=by_client) from error
            if not data:
                return None
            copied += len(data)
            trace.data(data, by_client=by_client)
            try:
                await self._loop.sock_sendall(sink, data)
            except OSError as error:
                raise _ResetError(by_client=not by_client) from error

    async def _splice(
        self, pipe: Pipe, source: socket.socket, sink: socket.socket, passing: Passing, *, by_client: bool
    ) -> bool:
        """Forward through a pipe; return whether that was to the end, and not that these sockets cannot do it."""
        try:
            await Splice(self._loop, pipe, source, sink, passing.passed).run()
        except SourceError as error:
            if error.cause.errno in _NO_SPLICE:
                self._max_pipes = 0
                return False
            raise _ResetError(by_client=by_client) from error
        except SinkError as error:
            raise _ResetError(by_client=not by_client) from error
        return True

    async def close(self) -> None:
        """Stop accepting, and end every connection."""
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _abort(connection: socket.socket | None) -> None:
    """Close with a reset instead of a FIN."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
