from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from h3probe.events import Endpoint, Frame
from h3probe.vantage.relay import Relay, RelaySpec
from h3probe.vantage.relay_tcp import TcpTrace
from tests.vantage.relay_frames import stream, told, until
from tests.vantage.test_relay import run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    type Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LOOPBACK = bytes([127, 0, 0, 1])


async def serve(handler: Handler, host: str = "127.0.0.1") -> tuple[asyncio.Server, int]:
    """A TCP server and its port."""
    server = await asyncio.start_server(handler, host, 0)
    return server, server.sockets[0].getsockname()[1]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send everything back, and end when the client does."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection off."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def ends(writer: asyncio.StreamWriter) -> tuple[Endpoint, Endpoint]:
    """Client and relay, as the wire between them has it."""
    own, peer = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
    return Endpoint(LOOPBACK, own[1]), Endpoint(LOOPBACK, peer[1])


def test_mebibyte_there_and_back() -> None:
    """1 MiB passes untouched in both directions at once, and the frames tell the same bytes without a gap."""
    frames: list[Frame] = []
    payload = b"no TLS" + os.urandom(1 << 20)
    sides: list[Endpoint] = []

    async def body() -> None:
        server, port = await serve(echo)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            sides.extend(ends(writer))
            writer.write(payload)
            writer.write_eof()
            assert await reader.read() == payload
            writer.close()

    run(body())
    client, server_side = sides
    assert stream(frames, client) == payload
    assert stream(frames, server_side) == payload


def test_whole_connection_as_told() -> None:
    """A connection is told as its handshake, its data and its two ends, each acknowledging what came before."""
    frames: list[Frame] = []

    async def body() -> None:
        server, port = await serve(echo)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            await until(lambda: len(frames) == 9)

    run(body())
    segments = [told(frame) for frame in frames]
    client = segments[0].source
    story = [(">" if segment.source == client else "<") + segment.flags for segment in segments]
    assert story == [">S", "<SA", ">A", ">PA", "<PA", ">FA", "<A", "<FA", ">A"]
    start, answer = segments[0].sequence, segments[1].sequence
    relative = [(segment.sequence - (start if segment.source == client else answer)) % 2**32 for segment in segments]
    acknowledged = [
        (segment.acknowledgment - (answer if segment.source == client else start)) % 2**32 for segment in segments[1:]
    ]
    assert relative == [0, 0, 1, 1, 1, 6, 6, 6, 7]
    assert acknowledged == [1, 1, 1, 6, 6, 7, 7, 7]


def test_half_close() -> None:
    """A client that has sent everything can still receive, as without the relay."""

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.read()
        writer.write(b"after the end: " + request)
        writer.close()

    async def body() -> None:
        server, port = await serve(late)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), lambda _: None) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"request")
            writer.write_eof()
            assert await reader.read() == b"after the end: request"
            writer.close()

    run(body())


def test_refused_target() -> None:
    """A target that refuses is told as a reset of the SYN, and the client's connection is reset."""
    frames: list[Frame] = []

    async def body() -> None:
        server, port = await serve(echo)
        server.close()
        await server.wait_closed()
        async with Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()

    run(body())
    syn, refusal = map(told, frames)
    assert (syn.flags, refusal.flags) == ("S", "RA")
    assert (refusal.source, refusal.destination) == (syn.destination, syn.source)
    assert (refusal.sequence, refusal.acknowledgment) == (0, (syn.sequence + 1) % 2**32)


def test_reset_by_the_server() -> None:
    """A server that breaks off resets the client, and is told so."""
    frames: list[Frame] = []

    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        reset(writer)

    async def body() -> None:
        server, port = await serve(break_off)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"x")
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()

    run(body())
    segments = [told(frame) for frame in frames]
    assert segments[-1].flags == "RA"
    assert segments[-1].source == segments[0].destination


def test_reset_by_the_client() -> None:
    """A client that breaks off resets the server, and is told so."""
    frames: list[Frame] = []
    ended: list[str] = []

    async def body() -> None:
        done = asyncio.Event()

        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(1)
            try:
                await reader.read()
            except ConnectionResetError:
                ended.append("reset")
            writer.close()
            done.set()

        server, port = await serve(wait)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"x")
            await writer.drain()
            await until(lambda: "PA" in [told(frame).flags for frame in frames])
            reset(writer)
            await done.wait()

    run(body())
    assert ended == ["reset"]
    segments = [told(frame) for frame in frames]
    assert segments[-1].flags == "RA"
    assert segments[-1].source == segments[0].source


def test_second_address_of_the_target() -> None:
    """Where the target's first address refuses, the next one is tried, and preferred from then on."""

    async def body() -> None:
        server, port = await serve(echo)
        async with server, Relay(RelaySpec(None, 0, "localhost", port), lambda _: None) as relay:
            forwarder = relay._tcp[0]
            forwarder._targets.addresses = [
                (socket.AF_INET, ("127.0.0.77", port)),
                (socket.AF_INET, ("127.0.0.1", port)),
            ]
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"hello"
                writer.close()
            assert forwarder._targets.preferred == 1

    run(body())


def test_many_at_once() -> None:
    """A hundred connections are served at the same time, each with its own bytes."""
    frames: list[Frame] = []

    async def body() -> None:
        server, port = await serve(echo)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:

            async def one(number: int) -> None:
                reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
                payload = number.to_bytes(2) * 5000
                writer.write(payload)
                assert await reader.readexactly(len(payload)) == payload
                writer.close()

            await asyncio.gather(*map(one, range(100)))

    run(body())
    assert len({told(frame).source for frame in frames}) == 101


def test_more_than_the_limit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit connections wait in the kernel's queue, and are served in their turn."""
    monkeypatch.setattr("h3probe.vantage.relay_tcp._ACCEPT_PAUSE_S", 0.01)

    async def body() -> None:
        server, port = await serve(echo)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), lambda _: None) as relay:
            for forwarder in relay._tcp:
                forwarder._limit = 2

            async def one() -> None:
                reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
                assert max(len(forwarder._tasks) for forwarder in relay._tcp) <= 2
                writer.close()

            await asyncio.gather(*(one() for _ in range(10)))

    run(body())


def test_back_pressure() -> None:
    """A server that does not read holds the client back: the relay keeps no more than it is about to pass on."""
    told_bytes = 0

    def count(frame: Frame) -> None:
        nonlocal told_bytes
        told_bytes += frame.length

    async def body() -> None:
        release = asyncio.Event()

        async def idle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.close()

        server, port = await serve(idle)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), count) as relay:
            loop = asyncio.get_running_loop()
            with socket.create_connection(("127.0.0.1", relay.port)) as client:
                client.setblocking(False)
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(loop.sock_sendall(client, bytes(256 << 20)), 1)
            release.set()
        assert told_bytes < 64 << 20

    run(body())


def test_close_ends_open_connections() -> None:
    """Closing the relay ends the connections that are still open, and leaves no task behind."""

    async def body() -> None:
        server, port = await serve(echo)
        async with server:
            async with Relay(RelaySpec(None, 0, "127.0.0.1", port), lambda _: None) as relay:
                reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
                writer.write(b"x")
                await reader.readexactly(1)
            assert await reader.read() == b""
            writer.close()

    run(body())


def test_error_of_the_listener_is_not_swallowed() -> None:
    """An error in what is called with the frames ends that connection, and is reported to the event loop."""
    reported: list[BaseException] = []

    def fail(_: Frame) -> None:
        raise ZeroDivisionError

    async def body() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
        server, port = await serve(echo)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), fail) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            assert await reader.read() == b""
            writer.close()
            await until(lambda: bool(reported))

    run(body())
    assert isinstance(reported[0], ZeroDivisionError)


def test_ipv6() -> None:
    """A client over IPv6 is told over IPv6, wherever the target is."""
    frames: list[Frame] = []

    async def body() -> None:
        server, port = await serve(echo)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            if len(relay.addresses) < 2:
                pytest.skip("this host has no ::1")
            reader, writer = await asyncio.open_connection("::1", relay.port)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            writer.close()

    run(body())
    assert {frame.data[0] >> 4 for frame in frames} == {6}
    assert told(frames[0]).destination.address == "::1"


def test_numbers_wrap() -> None:
    """Sequence numbers go on from zero after their largest value."""
    packets: list[bytes] = []
    client, server = Endpoint(LOOPBACK, 1), Endpoint(LOOPBACK, 2)
    trace = TcpTrace(client, server, lambda packet, *_: packets.append(packet))
    trace._client_next = 2**32 - 2
    trace.syn()
    trace.accepted()
    trace.data(b"abc", by_client=True)
    trace.data(b"d", by_client=True)
    frames = [Frame(1, 0, 101, packet, len(packet)) for packet in packets]
    assert stream(frames, client) == b"abcd"
    assert told(frames[-1]).sequence == 2
