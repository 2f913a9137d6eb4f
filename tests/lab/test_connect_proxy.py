from __future__ import annotations

import asyncio

import pytest

from h3probe.lab.connect_proxy import connect_proxy


def say(request: bytes) -> bytes:
    """What the proxy answers to a request, to its end."""

    async def run() -> bytes:
        async with connect_proxy() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            writer.write_eof()
            async with asyncio.timeout(5):
                answer = await reader.read()
            writer.close()
            return answer

    return asyncio.run(run())


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET http://localhost/ HTTP/1.1",
        b"CONNECT example.org:443 HTTP/1.1",
        b"CONNECT localhost HTTP/1.1",
        b"CONNECT 127.0.0.2:443 HTTP/1.1",
        b"CONNECT localhost:443 HTTP/2",
    ],
)
def test_reaches_only_this_machine(request_line: bytes) -> None:
    """Anything but CONNECT to a loopback address is forbidden."""
    assert say(request_line + b"\r\n\r\n").startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("port", [b"1", b"0", b"99999"])
def test_unreachable_target_is_502(port: bytes) -> None:
    """A target that takes no connection, or is none, gives 502."""
    assert say(b"CONNECT localhost:" + port + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 502 ")


def test_garbage_ends_the_connection() -> None:
    """Bytes that never become a request are answered with nothing."""
    assert say(b"\x16\x03\x01" * 100) == b""


def test_half_close_goes_through() -> None:
    """The end of one direction is handed on, and the other one goes on."""

    async def echo_at_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        writer.close()

    async def run() -> bytes:
        target = await asyncio.start_server(echo_at_end, "127.0.0.1", 0)
        number = target.sockets[0].getsockname()[1]
        async with target, connect_proxy() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % number)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.write(b"all of it")
            writer.write_eof()
            async with asyncio.timeout(5):
                answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(run()) == b"all of it"
