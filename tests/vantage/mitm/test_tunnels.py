from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from mitmproxy.options import Options
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.test import tflow, tutils

from h3probe.events import (
    ClientHelloSeen,
    ConnectionEnded,
    Exchange,
    OnwardConnection,
    TunnelAnswered,
    TunnelAsked,
    UpstreamTrouble,
)
from h3probe.vantage.mitm import tunnels
from h3probe.vantage.mitm.connections import Connections
from h3probe.vantage.mitm.policy import Policy
from h3probe.vantage.mitm.reporter import Reporter
from h3probe.vantage.mitm.settings import Settings, Upstream
from h3probe.vantage.mitm.tunnels import Tunnels
from h3probe.vantage.mitm.watch import ConnectionWatch
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from tests.vantage.mitm.conftest import CREDENTIALS
from tests.vantage.proxying import close_server, get, one, only, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from mitmproxy import http

    from h3probe.events import Dropped, ProxyEvent
    from h3probe.lab.authority import Authority
    from h3probe.lab.servers import Server
    from tests.vantage.proxying import Background, Corporate, Watched


def test_a_tunnel(blind: Watched, background: Background, server: Server, authority: Authority) -> None:
    """A CONNECT is reported from its target to its end, with the ClientHello in it; TLS is untouched."""
    (outcome,) = get(background, server.url, authority.ca_file, proxy=blind.proxy)
    assert (outcome.version, outcome.status) == ("HTTP/2", 200)
    events = blind.until_ended()
    asked, answered = one(TunnelAsked, events), one(TunnelAnswered, events)
    hello, ended = one(ClientHelloSeen, events), one(ConnectionEnded, events)
    assert (asked.host, asked.port, asked.method) == ("localhost", server.port, "CONNECT")
    assert (asked.client.port, asked.proxy.port) == (outcome.local_port, blind.proxy.port)
    assert (answered.id, answered.status, answered.by, answered.error) == (asked.id, 200, "proxy", None)
    assert (hello.tunnel, hello.sni, hello.alpn) == (asked.id, "localhost", ("h2", "http/1.1"))
    assert hello.ja4.startswith("t13d")
    assert (ended.connection, ended.tunnel, ended.client) == (asked.connection, asked.id, asked.client)
    assert ended.sent > 500
    assert ended.received > 1000
    onward = one(OnwardConnection, events)
    assert onward.remote is not None
    assert (onward.connection, onward.remote.port) == (asked.connection, server.port)
    assert asked.time_ns <= answered.time_ns <= hello.time_ns <= ended.time_ns
    assert not only(Exchange, events)


def test_an_unreachable_target(blind: Watched) -> None:
    """A target that takes no connection is a 502 that says why, for people and for programs."""
    answer = say(blind.proxy.port, b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"Proxy-Status: h3probe; error=connection_refused;" in answer
    assert b"cannot connect to 127.0.0.1:1: connection refused" in answer
    events = blind.until_ended()
    answered = one(TunnelAnswered, events)
    assert (answered.status, answered.by, answered.error) == (502, "proxy", "connection refused")
    assert one(OnwardConnection, events).error == "connection refused"
    assert one(ConnectionEnded, events).tunnel is None


def test_connect_udp_is_declined(blind: Watched) -> None:
    """A request to proxy UDP gets an honest 501, and is reported as a tunnel that there is not."""
    answer = say(
        blind.proxy.port,
        b"GET /.well-known/masque/udp/example.org/443/ HTTP/1.1\r\nHost: proxy\r\n"
        b"Connection: Upgrade\r\nUpgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 501 ")
    assert b"Proxy-Status: h3probe; error=http_request_error" in answer
    events = blind.until_ended()
    asked, answered = one(TunnelAsked, events), one(TunnelAnswered, events)
    assert (asked.host, asked.port, asked.method) == ("example.org", 443, "connect-udp")
    assert (answered.status, answered.by) == (501, "proxy")
    assert not only(Exchange, events)


def test_connect_udp_is_passed_on(corporate: tuple[Watched, Corporate]) -> None:
    """A request to proxy UDP goes to the other proxy, and its answer to the client."""
    watched, other = corporate
    other.answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n\x00\x01x"
    got = say(
        watched.proxy.port,
        b"GET /.well-known/masque/udp/example.org/443/ HTTP/1.1\r\nHost: here\r\n"
        b"Connection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n",
    )
    assert got.startswith(b"HTTP/1.1 101 ")
    assert got.endswith(b"\r\n\r\n\x00\x01x")
    assert other.heads[-1].startswith(b"GET /.well-known/masque/udp/example.org/443/ HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{other.port}\r\n".encode() in other.heads[-1]
    assert CREDENTIALS.encode() in other.heads[-1]
    events = watched.until_ended()
    answered = one(TunnelAnswered, events)
    assert (answered.status, answered.by, answered.error) == (101, "upstream", None)
    ended = one(ConnectionEnded, events)
    assert (ended.tunnel, ended.received) == (answered.id, 3)
    assert not only(Exchange, events)


def test_connect_udp_refused_by_the_other_proxy(corporate: tuple[Watched, Corporate]) -> None:
    """The other proxy's refusal of a request to proxy UDP is the client's answer, and trouble."""
    watched, other = corporate
    other.answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    got = say(
        watched.proxy.port,
        b"GET /.well-known/masque/udp/example.org/443/ HTTP/1.1\r\nHost: here\r\n"
        b"Connection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n",
    )
    assert got.startswith(b"HTTP/1.1 400 ")
    events = watched.until_ended()
    assert (one(TunnelAnswered, events).status, one(UpstreamTrouble, events).kind) == (400, "refused")


def test_a_slow_proxy_is_reported_while_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upstream proxy that takes its time is reported once a tunnel, and not after it has answered."""
    monkeypatch.setattr(tunnels, "SLOW_S", 0.02)
    found: list[ProxyEvent | Dropped] = []

    class Collector(Reporter):
        def emit(self, event: ProxyEvent | Dropped) -> None:
            found.append(event)

    async def run() -> None:
        connections = Connections(Collector(lambda: None))
        settings = Settings(3, upstream=Upstream("http", "corp", 3128))
        under_test = Tunnels(connections, settings, Policy(None))
        for answered in (False, True):
            flow = tflow.tflow(req=tutils.treq(method=b"CONNECT", host="example.org", port=443))
            flow.client_conn.sockname = ("127.0.0.1", 8899)
            watch = ConnectionWatch(1, flow.client_conn, NextLayer(tctx(flow)), bounded=True, on_hello=lambda *_: None)
            connections._open[flow.client_conn.id] = watch
            under_test.http_connect(flow)
            if answered:
                under_test.http_connected(flow)
            await asyncio.sleep(0.1)

    asyncio.run(run())
    slow = one(UpstreamTrouble, found)
    assert (slow.kind, slow.tunnel, slow.upstream, slow.status) == ("slow", "t1", "corp:3128", None)
    assert [event.id for event in only(TunnelAnswered, found)] == ["t2"]


def tctx(flow: http.HTTPFlow) -> Context:
    """The context of a flow's connection."""
    return Context(flow.client_conn, Options())


@pytest.mark.parametrize("method", ["connect-udp", "CONNECT"])
def test_a_client_that_does_not_wait(
    start: Callable[[ProxySpec], Watched], background: Background, method: str
) -> None:
    """A client that leaves before the other proxy answers got no answer, and none is reported."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = background.run(asyncio.start_server(say_nothing, "127.0.0.1", 0))
    upstream = Upstream("http", "127.0.0.1", silent.sockets[0].getsockname()[1])
    watched = start(ProxySpec(listen=Listen(0), upstream=upstream))
    requests = {
        "CONNECT": b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
        "connect-udp": b"GET /.well-known/masque/udp/example.org/443/ HTTP/1.1\r\nHost: here\r\n"
        b"Connection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n",
    }
    with socket.create_connection(("127.0.0.1", watched.proxy.port)) as client:
        client.sendall(requests[method])
        before = watched.until(lambda events: bool(only(OnwardConnection, events)))
    events = before + watched.until_ended()
    background.run(close_server(silent))
    assert one(TunnelAsked, events).method == method
    assert only(TunnelAnswered, events) == []
    assert only(UpstreamTrouble, events) == []
