from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from h3probe.events import AltSvcSeen, ConnectionEnded, Exchange, PlainRequest, ProxyReady, UpstreamTrouble
from h3probe.lab.client import Policy
from h3probe.vantage.proxy_spec import Listen, ProxySpec, Reverse
from h3probe.vantage.proxy_trust import make_trust
from tests.vantage.mitm.conftest import CREDENTIALS
from tests.vantage.proxying import close_server, get, one, only, reverse_to, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.lab.authority import Authority
    from h3probe.lab.servers import Server
    from tests.vantage.proxying import Background, Corporate, Watched


def test_plain_requests(blind: Watched, background: Background) -> None:
    """A plain request is reported when it comes and when it is over, without query values or user information."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    seen: list[bytes] = []
    origin = background.run(asyncio.start_server(answer, "127.0.0.1", 0))
    port = origin.sockets[0].getsockname()[1]
    request = (
        f"GET http://127.0.0.1:{port}/a?token=secret HTTP/1.1\r\nHost: x\r\nProxy-Authorization: {CREDENTIALS}\r\n\r\n"
    )
    assert say(blind.proxy.port, request.encode()).startswith(b"HTTP/1.1 204 ")
    events = blind.until_ended()
    background.run(close_server(origin))
    plain, exchange = one(PlainRequest, events), one(Exchange, events)
    assert plain.url == exchange.url == f"http://127.0.0.1:{port}/a?token=…"
    assert (exchange.status, exchange.version, exchange.server_version) == (204, "HTTP/1.1", "HTTP/1.1")
    assert not exchange.intercepted
    assert exchange.answered_ns is not None
    assert exchange.time_ns <= exchange.answered_ns <= exchange.ended_ns
    # Credentials for this proxy are no business of the server's.
    assert b"secret" in seen[0]
    assert b"uthorization" not in seen[0]


def test_a_plain_request_refused_by_the_other_proxy(corporate: tuple[Watched, Corporate]) -> None:
    """A 407 to a plain request is trouble with the other proxy as well."""
    watched, other = corporate
    other.answer = (
        b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Negotiate\r\n"
        b'Proxy-Authenticate: Basic realm="corp"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
    )
    assert say(watched.proxy.port, b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n").startswith(
        b"HTTP/1.1 407 "
    )
    events = watched.until_ended()
    assert other.heads[-1].startswith(b"GET http://example.org/ HTTP/1.1\r\n")
    assert CREDENTIALS.encode() in other.heads[-1]
    assert one(Exchange, events).status == 407
    trouble = one(UpstreamTrouble, events)
    assert (trouble.kind, trouble.tunnel, trouble.challenges) == ("refused", None, ("Negotiate", "Basic"))


def test_interception(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority
) -> None:
    """With TLS terminated, each exchange is known with its version, and Alt-Svc as the server sent it."""
    watched = start(ProxySpec(listen=Listen(0), intercept=(), upstream_ca=authority.ca_file))
    trust = make_trust(watched.proxy.folder, authority.ca_file)
    outcomes = get(background, server.url, trust.bundle, proxy=watched.proxy, count=2)
    assert [outcome.version for outcome in outcomes] == ["HTTP/2", "HTTP/2"]
    events = watched.until_ended()
    assert one(ProxyReady, events).intercepts
    exchanges = only(Exchange, events)
    assert [(e.version, e.server_version, e.status) for e in exchanges] == [("HTTP/2", "HTTP/2", 200)] * 2
    assert {exchange.client.port for exchange in exchanges} == {outcomes[0].local_port}
    assert {exchange.origin for exchange in exchanges} == {f"https://localhost:{server.port}"}
    assert all(exchange.intercepted for exchange in exchanges)
    sent = (f'h3=":{server.port}"; ma=3600',)
    assert [(seen.lines, seen.passed_on) for seen in only(AltSvcSeen, events)] == [(sent, sent)] * 2


def test_an_intercepting_reverse_proxy(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority
) -> None:
    """HTTP/2 and, after its Alt-Svc, HTTP/3: both through the proxy, which has put itself in the server's place."""
    watched = start(reverse_to(server, authority, ()))
    port = watched.proxy.port
    trust = make_trust(watched.proxy.folder, authority.ca_file)
    outcomes = get(background, f"https://localhost:{port}/", watched.proxy.ca_file, policy=Policy.ALT_SVC, count=3)
    assert [outcome.version for outcome in outcomes] == ["HTTP/2", "HTTP/3", "HTTP/3"]
    events = watched.until_ended(2)
    exchanges = only(Exchange, events)
    assert [exchange.version for exchange in exchanges] == ["HTTP/2", "HTTP/3", "HTTP/3"]
    assert [exchange.client.port for exchange in exchanges] == [outcome.local_port for outcome in outcomes]
    for seen in only(AltSvcSeen, events):
        assert seen.lines == (f'h3=":{server.port}"; ma=3600',)
        assert seen.passed_on == (f'h3=":{port}"; ma=3600',)
    assert {event.closed_by for event in only(ConnectionEnded, events)} == {"client"}
    assert trust.bundle.exists()


@pytest.mark.parametrize("policy", [Policy.NO_OPT_IN, Policy.H3_ONLY])
def test_a_server_that_the_proxy_does_not_believe(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, policy: Policy
) -> None:
    """Over TCP and QUIC the exchange says that it is the server's certificate, and there is no status of a server's."""
    watched = start(ProxySpec(reverse=(Reverse(Listen(0), "localhost", server.port),), intercept=()))
    url = f"https://localhost:{watched.proxy.port}/"
    (outcome,) = get(background, url, watched.proxy.ca_file, policy=policy)
    assert outcome.status == 502
    exchange = one(Exchange, watched.until(lambda events: bool(only(Exchange, events))))
    assert (exchange.status, exchange.distrusted) == (None, True)
    assert "certificate" in (exchange.error or "")


def test_a_server_that_is_down_is_no_matter_of_belief(blind: Watched) -> None:
    """A request that fails for another reason says so."""
    say(blind.proxy.port, b"GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
    exchange = one(Exchange, blind.until_ended())
    assert (exchange.error, exchange.distrusted) == ("connection refused", False)
