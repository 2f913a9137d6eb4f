from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import pytest

from h3probe.events import ConnectionEnded, ProxyDied, TunnelAnswered, TunnelAsked
from h3probe.lab.authority import create_authority
from h3probe.track.proxied import LEAST_FINISHED
from tests.vantage.proxying import PATIENCE_S, close_server, get, one, only, say, throw
from tests.wire.hello_builder import client_hello, message, record

if TYPE_CHECKING:
    from pathlib import Path

    from h3probe.lab.authority import Authority
    from h3probe.lab.servers import Server
    from tests.vantage.proxying import Background, Watched


def test_a_connect_a_byte_at_a_time(blind: Watched) -> None:
    """A CONNECT may come in any pieces; nobody else waits for it."""
    request = b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"
    assert say(blind.proxy.port, *(bytes((byte,)) for byte in request)).startswith(b"HTTP/1.1 502 ")
    assert one(TunnelAsked, blind.until_ended()).host == "127.0.0.1"


def test_a_large_head(blind: Watched) -> None:
    """A head of 64 KiB is a head like any other."""
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 1000) for number in range(64))
    answer = say(blind.proxy.port, b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n" + fields + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert one(TunnelAsked, blind.until_ended()).port == 1


def test_a_head_that_does_not_end(blind: Watched) -> None:
    """A head without an end is cut off with 431, before it fills the memory."""
    with socket.create_connection(("127.0.0.1", blind.proxy.port), timeout=PATIENCE_S) as connection:
        connection.sendall(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nX: ")
        sent = 0
        try:
            while sent < 64 << 20:
                connection.sendall(b"x" * 65536)
                sent += 65536
        except OSError:
            pass
        assert sent < 64 << 20
    assert one(ConnectionEnded, blind.until_ended()).closed_by == "proxy"


@pytest.mark.parametrize(
    "garbage",
    [
        bytes(range(256)) * 20,
        b"\x16\x03\x01\x02\x00garbage",
        b"CONNECT\r\n\r\n",
        b"CONNECT :x HTTP/1.1\r\n\r\n",
        b"CONNECT [::1:1 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        b"",
    ],
)
def test_garbage(blind: Watched, background: Background, server: Server, authority: Authority, garbage: bytes) -> None:
    """Garbage ends its own connection and nothing else: the next client is served."""
    throw(blind.proxy.port, garbage)
    blind.until_ended()
    (outcome,) = get(background, server.url, authority.ca_file, proxy=blind.proxy)
    assert outcome.status == 200
    assert not only(ProxyDied, blind.until_ended())


def test_garbage_in_a_tunnel(blind: Watched, background: Background) -> None:
    """What is in a tunnel need not be TLS: it goes through as it is."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    origin = background.run(asyncio.start_server(echo, "127.0.0.1", 0))
    port = origin.sockets[0].getsockname()[1]
    garbage = os.urandom(200_000)
    with socket.create_connection(("127.0.0.1", blind.proxy.port), timeout=PATIENCE_S) as connection:
        connection.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(garbage)
        back = b""
        while len(back) < len(garbage):
            back += connection.recv(65536)
    assert back == garbage
    ended = one(ConnectionEnded, blind.until_ended())
    assert (ended.sent, ended.received, ended.closed_by) == (len(garbage), len(garbage), "client")
    background.run(close_server(origin))


def test_a_thousand_tunnels_at_once(blind: Watched, background: Background) -> None:
    """A thousand tunnels are open together, each answered, each reported, each with its own bytes."""
    tunnels = 1000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(8))
        await writer.drain()
        await reader.read()
        writer.close()

    async def tunnel(number: int, port: int, everybody: asyncio.Event) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", blind.proxy.port)
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        open_now.append(number)
        if len(open_now) == tunnels:
            everybody.set()
        await everybody.wait()
        writer.write(b"%08d" % number)
        answer = await reader.readexactly(8)
        writer.close()
        return answer

    async def run() -> list[bytes]:
        everybody = asyncio.Event()
        origin = await asyncio.start_server(echo, "127.0.0.1", 0, backlog=4096)
        port = origin.sockets[0].getsockname()[1]
        answers = await asyncio.gather(*(tunnel(number, port, everybody) for number in range(tunnels)))
        origin.close()
        return answers

    open_now: list[int] = []
    _allow_open_files(4 * tunnels)
    assert background.run(run(), timeout=60) == [b"%08d" % number for number in range(tunnels)]
    events = blind.until_ended(tunnels)
    assert len(only(TunnelAnswered, events)) == tunnels
    assert {(event.sent, event.received) for event in only(ConnectionEnded, events)} == {(8, 8)}


def _allow_open_files(count: int) -> None:
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard < count:
            pytest.skip(f"{count} open files are not allowed here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


@pytest.mark.parametrize("spoken", [False, True])
def test_half_of_a_tunnel_may_end(blind: Watched, background: Background, *, spoken: bool) -> None:
    """The end of the client's bytes is handed on, and what the server still has to say comes through."""

    async def answer_at_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%d bytes" % len(await reader.read()))
        writer.close()

    origin = background.run(asyncio.start_server(answer_at_end, "127.0.0.1", 0))
    with socket.create_connection(("127.0.0.1", blind.proxy.port), timeout=PATIENCE_S) as connection:
        port = origin.sockets[0].getsockname()[1]
        connection.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        if spoken:
            connection.sendall(b"hello")
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
    assert answer == (b"5 bytes" if spoken else b"0 bytes")
    ended = one(ConnectionEnded, blind.until_ended())
    assert (ended.sent, ended.received, ended.closed_by) == (5 * spoken, 7, "client")
    background.run(close_server(origin))


def test_the_server_may_speak_and_end_first(blind: Watched, background: Background) -> None:
    """A tunnel to a server that speaks first, and then closes, ends without a word of the client."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready")
        writer.close()

    origin = background.run(asyncio.start_server(greet, "127.0.0.1", 0))
    with socket.create_connection(("127.0.0.1", blind.proxy.port), timeout=PATIENCE_S) as connection:
        port = origin.sockets[0].getsockname()[1]
        connection.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        answer = b""
        while data := connection.recv(65536):
            answer += data
    assert answer.endswith(b"\r\n\r\n220 ready")
    ended = one(ConnectionEnded, blind.until_ended())
    assert (ended.sent, ended.received, ended.closed_by) == (0, 9, "server")
    background.run(close_server(origin))


def test_a_tunnels_first_bytes_may_come_with_its_request(blind: Watched, background: Background) -> None:
    """Bytes that a client sends before it has its answer are not lost, nor is the order of those after them."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    origin = background.run(asyncio.start_server(echo, "127.0.0.1", 0))
    port = origin.sockets[0].getsockname()[1]
    pieces = [b"%04d" % number for number in range(200)]
    with socket.create_connection(("127.0.0.1", blind.proxy.port), timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode() + pieces[0])
        for piece in pieces[1:]:
            connection.sendall(piece)
        expected = b"".join(pieces)
        answer = b""
        while len(answer.partition(b"\r\n\r\n")[2]) < len(expected):
            answer += connection.recv(65536)
    assert answer.partition(b"\r\n\r\n")[2] == expected
    blind.until_ended()
    background.run(close_server(origin))


@pytest.mark.parametrize("trusts", [True, False])
def test_bytes_behind_a_hello(
    blind: Watched, background: Background, server: Server, authority: Authority, tmp_path: Path, *, trusts: bool
) -> None:
    """What a client sends after its ClientHello tells one that went on from one that refused the certificate."""
    ca = authority.ca_file if trusts else create_authority(tmp_path).ca_file
    (outcome,) = get(background, server.url, ca, proxy=blind.proxy)
    assert (outcome.status == 200) is trusts
    ended = one(ConnectionEnded, blind.until_ended())
    assert ended.after_hello is not None
    assert ended.after_hello < ended.sent
    assert (ended.after_hello >= LEAST_FINISHED) is trusts


@pytest.mark.parametrize("compatible", [True, False])
def test_a_hello_again(blind: Watched, background: Background, *, compatible: bool) -> None:
    """After a HelloRetryRequest the second ClientHello counts: its length is no sign of a finished handshake."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    origin = background.run(asyncio.start_server(echo, "127.0.0.1", 0))
    port = origin.sockets[0].getsockname()[1]
    hello, alert = record(22, message(1, client_hello([]))), record(23, bytes(19))
    again = (b"\x14\x03\x03\x00\x01\x01" if compatible else b"") + hello
    with socket.create_connection(("127.0.0.1", blind.proxy.port), timeout=PATIENCE_S) as connection:
        connection.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        for piece in (hello, again, alert):
            connection.sendall(piece)
            back = b""
            while len(back) < len(piece):
                back += connection.recv(65536)
    ended = one(ConnectionEnded, blind.until_ended())
    assert (ended.after_hello, ended.sent) == (len(alert), len(hello) + len(again) + len(alert))
    background.run(close_server(origin))


def test_bytes_without_a_hello(blind: Watched) -> None:
    """Where there is no ClientHello there is no number."""
    say(blind.proxy.port, b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")
    assert one(ConnectionEnded, blind.until_ended()).after_hello is None
