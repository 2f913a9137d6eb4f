from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.vantage import relay_splice, relay_tcp
from h3probe.vantage.relay import Relay, RelaySpec
from h3probe.vantage.relay_splice import Passing
from tests.vantage.relay_frames import Told, stream, told, until
from tests.vantage.test_relay import run
from tests.vantage.test_relay_tcp import echo, reset, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Frame

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="splice is Linux's")
MUCH = 8 << 20
START = b"\x16\x03\x01"


def tls_like(size: int) -> bytes:
    """Bytes that begin as a TLS handshake does."""
    return START + os.urandom(size - len(START))


def descriptors() -> set[Path]:
    """What this process has open."""
    return set(Path("/proc/self/fd").iterdir())


def extent(segments: list[Told]) -> int:
    """How many bytes one side has sent, by the sequence numbers of what it sent first and last."""
    return (segments[-1].sequence - segments[0].sequence) % 2**32 - 1


async def there_and_back(
    payload: bytes, frames: list[Frame], prepare: Callable[[Relay], None] = lambda _: None
) -> None:
    """Send something through a relay to a server that sends it back untouched."""
    server, port = await serve(echo)
    async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
        prepare(relay)
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(payload)
        writer.write_eof()
        assert await reader.read() == payload
        writer.close()


@on_linux
def test_many_mebibytes_both_ways() -> None:
    """8 MiB pass untouched each way at once; some are told without bytes, none twice, and the ends at their places."""
    frames: list[Frame] = []
    payload = tls_like(MUCH)

    async def body() -> None:
        server, port = await serve(echo)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(payload)
            writer.write_eof()
            assert await reader.read() == payload
            writer.close()
            await until(lambda: sum("F" in told(frame).flags for frame in frames) == 2)
            assert all(forwarder._pipes == 0 for forwarder in relay._tcp)

    run(body())
    cut = [frame for frame in frames if frame.length > len(frame.data)]
    assert cut
    assert all(len(frame.data) == 40 for frame in cut)
    for source in {told(frame).source for frame in frames}:
        segments = [told(frame) for frame in frames if told(frame).source == source]
        ends = [segment for segment in segments if "F" in segment.flags]
        assert extent([segments[0], *ends]) == MUCH
        following = segments[0].sequence
        for segment in segments:
            assert (segment.sequence - following) % 2**32 < 2**31
            following = segment.sequence + len(segment.payload)


@on_linux
def test_what_is_read_is_told_whole() -> None:
    """The first 256 KiB of each direction are told with their bytes."""
    frames: list[Frame] = []
    payload = tls_like(1 << 20)

    run(there_and_back(payload, frames))
    for source in {told(frame).source for frame in frames}:
        whole = [frame for frame in frames if told(frame).source == source and frame.length == len(frame.data)]
        content = b"".join(told(frame).payload for frame in whole)
        assert len(content) >= 256 * 1024
        assert payload.startswith(content)


def test_without_tls_everything_is_told() -> None:
    """A connection that does not begin with TLS is told to its last byte, whatever it carries."""
    frames: list[Frame] = []
    payload = b"GET" + os.urandom(MUCH)

    run(there_and_back(payload, frames))
    assert all(frame.length == len(frame.data) for frame in frames)


def test_tell_all() -> None:
    """Where every byte is wanted, every byte is told."""
    frames: list[Frame] = []
    payload = tls_like(MUCH)

    run(there_and_back(payload, frames, Relay.tell_all))
    for source in {told(frame).source for frame in frames}:
        assert stream(frames, source) == payload


@pytest.mark.parametrize("why", ["no pipe", "no splice"])
def test_where_splice_is_refused(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no pipe, or the kernel refuses to splice these sockets, bytes are copied as before."""
    frames: list[Frame] = []
    payload = tls_like(MUCH)
    if why == "no pipe":
        monkeypatch.setattr(relay_tcp, "open_pipe", lambda: None)
    elif sys.platform == "linux":

        def refuse(*_: object) -> int:
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(relay_splice.Pipe, "fill", refuse)

    run(there_and_back(payload, frames))
    assert all(frame.length == len(frame.data) for frame in frames)


def test_half_close() -> None:
    """A client that has sent much and ended can still receive much."""
    payload = tls_like(MUCH)

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.read()
        writer.write(b"after the end: " + request)
        await writer.drain()
        writer.close()

    async def body() -> None:
        server, port = await serve(late)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), lambda _: None) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(payload)
            writer.write_eof()
            assert await reader.read() == b"after the end: " + payload
            writer.close()

    run(body())


@pytest.mark.parametrize("by_client", [True, False])
def test_reset_in_the_middle(by_client: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A side that breaks off while much is on its way resets the other one, and is told so, last of all."""
    frames: list[Frame] = []
    ended: list[str] = []

    async def body() -> None:
        passing, done = asyncio.Event(), asyncio.Event()

        async def serving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(MUCH)
            passing.set()
            try:
                if by_client:
                    await reader.read()
                else:
                    reset(writer)
            except ConnectionResetError:
                ended.append("server")
            writer.close()
            done.set()

        server, port = await serve(serving)
        async with server, Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(tls_like(MUCH))
            await passing.wait()
            if by_client:
                await writer.drain()
                reset(writer)
            else:
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                ended.append("client")
                writer.close()
            await done.wait()
            await until(lambda: "RA" in [told(frame).flags for frame in frames])
            assert all(forwarder._pipes == 0 for forwarder in relay._tcp)

    run(body())
    assert ended == ["server" if by_client else "client"]
    segments = [told(frame) for frame in frames]
    assert segments[-1].flags == "RA"
    assert (segments[-1].source == segments[0].source) == by_client
    assert extent([segments[0], *(s for s in segments if s.source == segments[0].source and s.payload)]) <= MUCH


@on_linux
def test_descriptors_are_given_back() -> None:
    """Each connection's pipes are closed with it, also where the relay is closed in the middle."""

    async def body() -> None:
        received = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(MUCH)
            received.set()
            await reader.read()
            writer.close()

        server, port = await serve(hold)
        async with server:
            before = descriptors()
            async with Relay(RelaySpec(None, 0, "127.0.0.1", port), lambda _: None) as relay:
                reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
                writer.write(tls_like(MUCH))
                await received.wait()
                assert any(forwarder._pipes for forwarder in relay._tcp)
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
            await until(lambda: descriptors() <= before)

    run(body())


def test_passing_adds_up() -> None:
    """The first bytes are told at once, later ones together, and the rest at the end with the time of the last."""
    tellings: list[tuple[int, int]] = []

    async def body() -> None:
        passing = Passing(asyncio.get_running_loop(), lambda count, moment: tellings.append((count, moment)))
        passing.passed(1)
        assert [count for count, _ in tellings] == [1]
        passing.passed(2)
        passing.passed(3)
        assert [count for count, _ in tellings] == [1]
        passing.close()
        assert [count for count, _ in tellings] == [1, 5]
        passing.passed(4)
        passing.passed(5)
        await until(lambda: len(tellings) == 4)
        passing.close()

    run(body())
    assert [count for count, _ in tellings] == [1, 5, 4, 5]
    assert tellings == sorted(tellings, key=lambda telling: telling[1])
