from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import psutil
import pytest

from h3probe.events import ClientHelloSeen, Exchange, OnwardConnection, ProxyReady, TunnelAnswered, UpstreamTrouble
from h3probe.lab.connect_proxy import connect_proxy
from h3probe.vantage.mitm.settings import Upstream
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from tests.vantage.mitm.conftest import CREDENTIALS
from tests.vantage.proxying import PATIENCE_S, close_server, get, one, only, say
from tests.wire.hello_builder import client_hello, message, record, server_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.lab.authority import Authority
    from h3probe.lab.servers import Server
    from tests.vantage.proxying import Background, Corporate, Watched


def upstream_to(port: int, authorization: str | None = None) -> ProxySpec:
    """An explicit proxy with another one behind it."""
    return ProxySpec(listen=Listen(0), upstream=Upstream("http", "127.0.0.1", port, authorization))


def test_through_another_proxy(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority
) -> None:
    """Through another proxy a tunnel works as without it, and the answer is known to be that one's."""
    watched = start(upstream_to(background.enter(connect_proxy())))
    (outcome,) = get(background, server.url, authority.ca_file, proxy=watched.proxy)
    assert (outcome.version, outcome.status) == ("HTTP/2", 200)
    events = watched.until_ended()
    assert one(ProxyReady, events).mode == "upstream"
    answered = one(TunnelAnswered, events)
    assert (answered.status, answered.by) == (200, "upstream")
    assert one(ClientHelloSeen, events).sni == "localhost"
    assert not only(UpstreamTrouble, events)


CHALLENGE = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Negotiate\r\n"
    b'Proxy-Authenticate: Basic realm="corp"\r\nContent-Length: 4\r\nConnection: close\r\n\r\nno!!'
)


@pytest.mark.parametrize(
    ("answer", "status", "kind", "by"),
    [
        (CHALLENGE, 407, "refused", "upstream"),
        (b"HTTP/1.1 403 Forbidden\r\nX-Cause: policy\r\n\r\n", 403, "refused", "upstream"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\n\r\n", 503, "refused", "upstream"),
        (b"", 502, "silent", "proxy"),
        (b"HTTP/1.1 200", 502, "silent", "proxy"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", 502, "garbage", "proxy"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, 502, "garbage", "proxy"),
    ],
    ids=["407", "403", "503-after-100", "silent", "cut", "garbage", "endless"],
)
def test_what_the_other_proxy_says(
    corporate: tuple[Watched, Corporate], answer: bytes, status: int, kind: str, by: str
) -> None:
    """The client gets the other proxy's own refusal, and where there is none a 502; either is reported."""
    watched, other = corporate
    other.answer = answer
    got = say(watched.proxy.port, b"CONNECT example.org:443 HTTP/1.1\r\nUser-Agent: me\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 %d " % status)
    events = watched.until_ended()
    answered, trouble = one(TunnelAnswered, events), one(UpstreamTrouble, events)
    assert (answered.status, answered.by) == (status, by)
    assert (trouble.kind, trouble.status) == (kind, status if by == "upstream" else None)
    assert trouble.upstream == f"127.0.0.1:{other.port}"
    assert answered.error is not None
    if status == 407:
        assert answered.challenges == trouble.challenges == ("Negotiate", "Basic")
        assert got.count(b"Proxy-Authenticate: ") == 2
        assert b"no!!" not in got
    # The client's own fields go along, and the credentials that h3probe was given.
    assert b"User-Agent: me\r\n" in other.heads[-1]
    assert f"Proxy-Authorization: {CREDENTIALS}\r\n".encode() in other.heads[-1]


def test_credentials_are_nowhere_to_be_seen(corporate: tuple[Watched, Corporate]) -> None:
    """Credentials for the other proxy are in no argument and no variable of the process."""
    assert corporate[0].proxy.pid is not None
    process = psutil.Process(corporate[0].proxy.pid)
    secret = CREDENTIALS.partition(" ")[2]
    assert secret not in " ".join(process.cmdline())
    assert secret not in " ".join(process.environ().values())


def test_a_clients_own_credentials_come_first(corporate: tuple[Watched, Corporate]) -> None:
    """A client that brings credentials of its own is asked for by those."""
    watched, other = corporate
    other.answer = CHALLENGE
    say(watched.proxy.port, b"CONNECT example.org:443 HTTP/1.1\r\nProxy-Authorization: Basic bWluZQ==\r\n\r\n")
    watched.until_ended()
    assert other.heads[-1].count(b"Proxy-Authorization: ") == 1
    assert b"bWluZQ==" in other.heads[-1]


def test_no_other_proxy_there(start: Callable[[ProxySpec], Watched]) -> None:
    """A proxy that cannot be reached is a 502 and trouble."""
    watched = start(upstream_to(1))
    got = say(watched.proxy.port, b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"cannot reach 127.0.0.1:1: connection refused" in got
    trouble = one(UpstreamTrouble, watched.until_ended())
    assert (trouble.kind, trouble.text, trouble.status) == ("unreachable", "connection refused", None)


def test_early_bytes_through_another_proxy(start: Callable[[ProxySpec], Watched], background: Background) -> None:
    """What a client sends with its CONNECT goes through the other proxy too, and is not looked into."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(len(early)))
        writer.close()

    early = record(22, message(1, client_hello([server_name(b"example.org")]))) + b"more"
    origin = background.run(asyncio.start_server(echo, "127.0.0.1", 0))
    watched = start(upstream_to(background.enter(connect_proxy())))
    with socket.create_connection(("127.0.0.1", watched.proxy.port), timeout=PATIENCE_S) as connection:
        port = origin.sockets[0].getsockname()[1]
        connection.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode() + early)
        answer = b""
        while data := connection.recv(65536):
            answer += data
    assert answer.partition(b"\r\n\r\n")[2] == early
    background.run(close_server(origin))
    events = watched.until_ended()
    assert one(TunnelAnswered, events).by == "upstream"


def test_interception_through_another_proxy(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority
) -> None:
    """TLS can be terminated in front of another proxy, too."""
    port = background.enter(connect_proxy())
    upstream = Upstream("http", "127.0.0.1", port)
    watched = start(ProxySpec(listen=Listen(0), upstream=upstream, intercept=(), upstream_ca=authority.ca_file))
    outcomes = get(background, server.url, watched.proxy.ca_file, proxy=watched.proxy, count=2)
    assert [outcome.version for outcome in outcomes] == ["HTTP/2", "HTTP/2"]
    events = watched.until_ended()
    assert [exchange.version for exchange in only(Exchange, events)] == ["HTTP/2", "HTTP/2"]
    assert one(TunnelAnswered, events).by == "upstream"
    assert one(OnwardConnection, events).target == f"127.0.0.1:{port}"
