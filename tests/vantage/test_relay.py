from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.vantage.relay import Relay, RelaySpec, parse_relay

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from h3probe.events import Frame


def run[T](test: Coroutine[object, object, T]) -> T:
    """Run a test in an event loop, within a minute."""
    return asyncio.run(asyncio.wait_for(test, 60))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5433=localhost:4433", RelaySpec(None, 5433, "localhost", 4433)),
        ("0=example.org:443", RelaySpec(None, 0, "example.org", 443)),
        ("127.0.0.2:5433=10.0.0.1:443", RelaySpec("127.0.0.2", 5433, "10.0.0.1", 443)),
        ("[::1]:5433=[2001:db8::1]:443", RelaySpec("::1", 5433, "2001:db8::1", 443)),
        ("192.0.2.1:65535=h:1", RelaySpec("192.0.2.1", 65535, "h", 1)),
    ],
)
def test_parse(text: str, expected: RelaySpec) -> None:
    """[HOST:]PORT=HOST:PORT is read, IPv6 addresses in brackets."""
    assert parse_relay(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        "5433",
        "5433=",
        "5433=localhost",
        "5433=4433",
        "5433=localhost:",
        "5433=localhost:0",
        "5433=localhost:65536",
        "5433=localhost:+443",
        "5433=localhost:\uff14\uff14\uff13",
        "x=localhost:443",
        "-1=localhost:443",
        "5433=:443",
        ":5433=localhost:443",
        "5433=::1:443",
        "5433=[]:443",
        "5433=[::1:443",
        "5433=https://localhost:443",
        "5433=user@host:443",
        "5433=local host:443",
        "5433=a=b",
    ],
)
def test_parse_nonsense(text: str) -> None:
    """Anything else is an error of one line with an example."""
    with pytest.raises(UserError, match=r"5433=localhost:4433") as caught:
        parse_relay(text)
    assert "\n" not in str(caught.value)


def test_parse_shows_no_control_characters() -> None:
    """What was typed is shown without its control characters."""
    with pytest.raises(UserError) as caught:
        parse_relay("\x1b[31m=\nx:1")
    assert str(caught.value).isprintable()


def test_listens_on_both_loopbacks_with_one_port() -> None:
    """Without a host, a free port is found that is the same for TCP and UDP, over IPv4 and IPv6."""

    async def body() -> None:
        async with Relay(parse_relay("0=localhost:9"), lambda _: None) as relay:
            assert {address.address for address in relay.addresses} >= {"127.0.0.1"}
            assert {address.port for address in relay.addresses} == {relay.port}
            assert not relay.is_exposed
            for address in relay.addresses:
                family = socket.AF_INET6 if len(address.host) == 16 else socket.AF_INET
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    with socket.socket(family, kind) as other, pytest.raises(OSError, match="in use"):
                        other.bind((address.address, address.port))

    run(body())


def test_port_is_free_again_after_closing() -> None:
    """A closed relay leaves its port."""

    async def body() -> None:
        async with Relay(parse_relay("0=localhost:9"), lambda _: None) as relay:
            port = relay.port
        with contextlib.suppress(UserError):  # somebody else may have taken it meanwhile
            async with Relay(RelaySpec(None, port, "localhost", 9), lambda _: None) as relay:
                assert relay.port == port

    run(body())


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_port_in_use(kind: socket.SocketKind) -> None:
    """A port that is taken, for TCP or for UDP alone, is one line that says what to do; nothing stays open."""

    async def body() -> bool:
        with socket.socket(socket.AF_INET, kind) as taken:
            taken.bind(("127.0.0.1", 0))
            if kind == socket.SOCK_STREAM:
                taken.listen()
            port: int = taken.getsockname()[1]
            with pytest.raises(UserError, match=rf"port {port} is in use here: give another one"):
                await Relay(RelaySpec(None, port, "localhost", 9), lambda _: None).start()
        with contextlib.suppress(UserError):  # somebody else may have taken the other protocol's port meanwhile
            async with Relay(RelaySpec(None, port, "localhost", 9), lambda _: None) as relay:
                return relay.port == port
        return False

    assert any(run(body()) for _ in range(5))


def test_target_without_an_address() -> None:
    """A target that cannot be resolved is one line."""

    async def body() -> None:
        with pytest.raises(UserError, match=r"'nonesuch\.invalid' has no address here"):
            await Relay(parse_relay("0=nonesuch.invalid:9"), lambda _: None).start()

    run(body())


def test_host_that_is_not_here() -> None:
    """An address of another host cannot be listened on, and the line says so."""

    async def body() -> None:
        with pytest.raises(UserError, match=r"cannot listen on 192\.0\.2\.1"):
            await Relay(parse_relay("192.0.2.1:0=localhost:9"), lambda _: None).start()

    run(body())


def test_relay_to_itself() -> None:
    """A relay whose target is its own port is refused: it would go round for ever."""

    async def body() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as question:
            question.bind(("127.0.0.1", 0))
            port = question.getsockname()[1]
        with pytest.raises(UserError, match="meets itself"):
            await Relay(RelaySpec(None, port, "localhost", port), lambda _: None).start()

    run(body())


def test_exposed() -> None:
    """A relay that other hosts can reach says so."""

    async def body() -> None:
        async with Relay(parse_relay("0.0.0.0:0=localhost:9"), lambda _: None) as relay:
            assert relay.is_exposed

    run(body())


def test_frames_are_numbered_and_timed() -> None:
    """Frames are numbered from 1 in the order of their times, and say where they come from."""
    frames: list[Frame] = []
    ports: list[int] = []

    async def body() -> None:
        async with Relay(parse_relay("0=127.0.0.1:9"), frames.append) as relay:
            ports.append(relay.port)
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()

    run(body())
    assert [frame.number for frame in frames] == list(range(1, len(frames) + 1))
    assert [frame.time_ns for frame in frames] == sorted(frame.time_ns for frame in frames)
    assert {(frame.link_type, frame.interface) for frame in frames} == {(101, f"relay:{ports[0]}")}
    assert all(frame.length == len(frame.data) for frame in frames)
