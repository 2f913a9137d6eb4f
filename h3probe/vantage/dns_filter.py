"""A DNS forwarder that takes service bindings out of answers: `--no-https-rr`, as a process of its own.

    python -m h3probe.vantage.dns_filter LISTEN_HOST PORT UPSTREAM_HOST UPSTREAM_PORT

Every query goes on as it came, over UDP and TCP, and every answer comes back, without the SVCB and HTTPS records (RFC
9460) in it: to whoever asked for those there are none (NODATA, RFC 2308, 2.2). An answer that has none is not touched.
It prints `ready` once it listens, and ends when its standard input does, which is to be its parent's.

Limits: a transfer of a zone, of which each message after the first is lost; and whoever validates signatures may well
see that something is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import struct
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dns.message import Message
    from dns.rrset import RRset

MOST: Final = 256
"""Queries over UDP and connections over TCP that are served at once; those beyond go unanswered."""
PATIENCE_S: Final = 5.0
"""How long an answer, a connection or a further query on one may take."""
BINDINGS: Final = (64, 65)
"""The types SVCB and HTTPS (RFC 9460, 14.1)."""
_TRIES: Final = 32
_HEADER: Final = 12
_LONGEST_NAME: Final = 255
_RESPONSE: Final = 0x8000
_RECURSION_DESIRED: Final = 0x0100
_RECURSION_AVAILABLE: Final = 0x0080

Address = tuple[str, int]


def without_bindings(query: bytes, answer: bytes) -> bytes:
    """The answer as the client is to get it.

    Args:
        query: A DNS message (RFC 1035, 4.1), or what was taken for one.
        answer: What the server sent back.
    """
    # A record has its type in plain sight, and so has the signature of one.
    if not any(kind.to_bytes(2) in answer for kind in BINDINGS):
        return answer
    try:
        return _filtered(answer)
    except Exception:  # noqa: BLE001 - hostile bytes: whatever dnspython makes of them, it is not readable
        return nodata(query) if asks_for_bindings(query) else answer


def _filtered(answer: bytes) -> bytes:
    import dns.flags  # noqa: PLC0415 - loaded when there is something to do
    import dns.message  # noqa: PLC0415

    message = dns.message.from_wire(answer)
    before = [len(section) for section in _records(message)]
    for section in _records(message):
        section[:] = [rrset for rrset in section if rrset.rdtype not in BINDINGS and rrset.covers not in BINDINGS]
    if [len(section) for section in _records(message)] == before:
        return answer
    message.flags &= ~dns.flags.AD  # nobody has authenticated this one (RFC 4035, 3.2.3)
    return message.to_wire(max_size=65535)


def _records(message: Message) -> tuple[list[RRset], ...]:
    return (message.answer, message.authority, message.additional)


def asks_for_bindings(query: bytes) -> bool:
    """Whether a query's question, the first of several, is for SVCB or HTTPS records."""
    end = _question_end(query)
    return end is not None and int.from_bytes(query[end - 4 : end - 2]) in BINDINGS


def nodata(query: bytes) -> bytes:
    """The answer that there are no such records; without EDNS when the query cannot be read.

    Raises:
        ValueError: There is no question in it.
    """
    try:
        import dns.message  # noqa: PLC0415 - loaded when there is something to do

        message = dns.message.make_response(dns.message.from_wire(query), recursion_available=True)
        return message.to_wire(max_size=65535)
    except Exception:  # noqa: BLE001 - as above
        end = _question_end(query)
        if end is None:
            raise ValueError("no question") from None
        asked = int.from_bytes(query[2:4])
        flags = _RESPONSE | asked & _RECURSION_DESIRED | _RECURSION_AVAILABLE
        return query[:2] + struct.pack("!5H", flags, 1, 0, 0, 0) + query[_HEADER:end]


def _question_end(query: bytes) -> int | None:
    """Where the first question ends; None where there is none that is whole, or its name is compressed."""
    if len(query) < _HEADER or not int.from_bytes(query[4:6]):
        return None
    at = _HEADER
    while at < len(query) and query[at]:
        at += 1 + query[at]
        if at > _HEADER + _LONGEST_NAME or query[at - 1 : at] == b"":
            return None
    end = at + 1 + 4
    return end if end <= len(query) else None


def answers(query: bytes, message: bytes) -> bool:
    """Whether a message can be the answer to a query: its id, and the bit that says so (RFC 1035, 4.1.1)."""
    return len(message) >= _HEADER and message[:2] == query[:2] and bool(message[2] & 0x80)


class DnsFilter:
    """Serves one address, over UDP and TCP.

    Args:
        upstream: Where queries go on to.
    """

    def __init__(self, upstream: Address) -> None:
        self._upstream = upstream
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._transport: asyncio.DatagramTransport | None = None

    async def start(self, listen: Address) -> None:
        """Listen, over UDP and TCP on the same port.

        Args:
            listen: Address and port, 0 for any port.

        Raises:
            OSError: The address is in use, or none of this host's.
        """
        loop = asyncio.get_running_loop()
        for tries_left in reversed(range(_TRIES)):
            self._transport, _ = await loop.create_datagram_endpoint(lambda: _Queries(self), local_addr=listen)
            try:
                self._server = await asyncio.start_server(self._connected, *self.address, limit=1 << 16)
            except OSError as error:
                self._transport.close()
                # Any port will do, and the one that was free for UDP is taken for TCP.
                if error.errno != errno.EADDRINUSE or listen[1] != 0 or not tries_left:
                    raise
            else:
                return

    @property
    def address(self) -> Address:
        """Where it listens."""
        if self._transport is None:
            raise ValueError("not started")
        host, port, *_ = self._transport.get_extra_info("sockname")
        return host, port

    async def close(self) -> None:
        """Stop listening, and leave what is not answered yet."""
        if self._server is not None:
            self._server.close()
        if self._transport is not None:
            self._transport.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def serve(self, work: Coroutine[object, object, None]) -> bool:
        """Do something beside all else, unless there is too much of that."""
        if len(self._tasks) >= MOST:
            work.close()
            return False
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    # UDP

    def query(self, query: bytes, client: tuple[str | int, ...]) -> None:
        """Take a query."""
        if len(query) >= _HEADER:
            self.serve(self._answer(query, client))

    async def _answer(self, query: bytes, client: tuple[str | int, ...]) -> None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[bytes] = loop.create_future()
        with contextlib.suppress(OSError, TimeoutError):  # no answer is what the client gets then, too
            async with asyncio.timeout(PATIENCE_S):
                # A socket for each query: an answer has to match its port and its peer, too (RFC 5452, 9.1).
                transport, _ = await loop.create_datagram_endpoint(
                    lambda: _Answer(query, waiting), remote_addr=self._upstream
                )
                try:
                    transport.sendto(query)
                    answer = await waiting
                finally:
                    transport.close()
            if self._transport is not None:
                self._transport.sendto(without_bindings(query, answer), client)

    # TCP

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.serve(self._conversation(reader, writer)):
            writer.close()

    async def _conversation(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the queries of a connection, one after the other."""
        onward: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                answered, onward = await asyncio.open_connection(*self._upstream)
            while True:
                async with asyncio.timeout(PATIENCE_S):
                    query = await _read_message(reader)
                async with asyncio.timeout(PATIENCE_S):
                    await _write_message(onward, query)
                    answer = await _read_message(answered)
                    while not answers(query, answer):
                        answer = await _read_message(answered)
                    await _write_message(writer, without_bindings(query, answer))
        except (OSError, TimeoutError, EOFError, ValueError):
            pass  # an end, or nothing that could go on
        finally:
            for each in (writer, onward):
                if each is not None:
                    each.close()


class _Queries(asyncio.DatagramProtocol):
    def __init__(self, owner: DnsFilter) -> None:
        self._owner = owner

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        self._owner.query(data, addr)


class _Answer(asyncio.DatagramProtocol):
    def __init__(self, query: bytes, waiting: asyncio.Future[bytes]) -> None:
        self._query = query
        self._waiting = waiting

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:  # noqa: ARG002 - the socket has one peer
        if not self._waiting.done() and answers(self._query, data):
            self._waiting.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self._waiting.done():
            self._waiting.set_exception(exc)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """A message with its length before it (RFC 1035, 4.2.2).

    Raises:
        EOFError: The stream has ended.
        ValueError: It is too short for a message.
    """
    length = int.from_bytes(await reader.readexactly(2))
    if length < _HEADER:
        raise ValueError("no message")
    return await reader.readexactly(length)


async def _write_message(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(len(message).to_bytes(2) + message)
    await writer.drain()


async def _run(listen: Address, upstream: Address) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    served = DnsFilter(upstream)
    await served.start(listen)

    def readable() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            over.set()

    try:
        loop.add_reader(sys.stdin.fileno(), readable)
    except PermissionError:  # a file, or /dev/null: nobody is there who could end
        over.set()
    print("ready", flush=True)  # noqa: T201 - what the parent waits for
    await over.wait()
    loop.remove_reader(sys.stdin.fileno())
    await served.close()


def main(arguments: list[str]) -> int:
    """Serve until standard input ends.

    Args:
        arguments: As in the module's first lines.

    Returns:
        The exit status.
    """
    try:
        listen_host, listen_port, upstream_host, upstream_port = arguments
        listen, upstream = (listen_host, int(listen_port)), (upstream_host, int(upstream_port))
    except ValueError:
        print("usage: dns_filter LISTEN_HOST PORT UPSTREAM_HOST UPSTREAM_PORT", file=sys.stderr)  # noqa: T201 - a program
        return 2
    # The terminal's Ctrl-C is for the command, which may still have names to look up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_run(listen, upstream))
    except (OSError, OverflowError) as error:
        print(f"the DNS filter cannot run: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
