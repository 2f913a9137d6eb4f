from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.events import CaRejected, ClientHelloSeen, ConnectionEnded, Exchange
from h3probe.lab.client import Policy
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from tests.vantage.proxying import get, one, only, reverse_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.lab.authority import Authority
    from h3probe.lab.servers import Server
    from tests.vantage.proxying import Background, Watched


def test_only_some_hosts(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority
) -> None:
    """Hosts that are not named pass through untouched, by name, and by address and the name in the hello."""
    watched = start(ProxySpec(listen=Listen(0), intercept=("example.org",), upstream_ca=authority.ca_file))
    for url in (server.url, f"https://127.0.0.1:{server.port}/"):
        (outcome,) = get(background, url, authority.ca_file, proxy=watched.proxy)
        assert outcome.status == 200, url
    events = watched.until_ended(2)
    assert not only(Exchange, events)
    assert not only(CaRejected, events)
    assert not any(event.terminated for event in only(ConnectionEnded, events))


def test_what_was_terminated_is_said(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority
) -> None:
    """Of a connection whose TLS ended at the proxy every exchange is reported: its end says that it was one."""
    watched = start(ProxySpec(listen=Listen(0), intercept=(), upstream_ca=authority.ca_file))
    assert get(background, server.url, watched.proxy.ca_file, proxy=watched.proxy)[0].status == 200
    assert one(ConnectionEnded, watched.until_ended()).terminated


@pytest.mark.parametrize("client", ["openssl", "asyncio"])
def test_a_client_that_does_not_trust_the_proxy(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority, client: str
) -> None:
    """A client that refuses the certificate is reported, and passed through from its next connection on."""
    watched = start(ProxySpec(listen=Listen(0), intercept=(), upstream_ca=authority.ca_file))

    def ask() -> int | None:
        if client == "asyncio":
            return get(background, server.url, authority.ca_file, proxy=watched.proxy)[0].status
        code = (
            "import http.client, ssl, sys; c = http.client.HTTPSConnection('127.0.0.1', int(sys.argv[1]), "
            "context=ssl.create_default_context(cafile=sys.argv[3])); c.set_tunnel('localhost', int(sys.argv[2])); "
            "c.request('GET', '/'); print(c.getresponse().status)"
        )
        arguments = [str(watched.proxy.port), str(server.port), str(authority.ca_file)]
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
        return int(done.stdout) if done.stdout else None

    assert ask() is None
    events = watched.until(lambda events: bool(only(CaRejected, events) and only(ConnectionEnded, events)))
    rejected = one(CaRejected, events)
    assert (rejected.host, rejected.transport) == ("localhost", "tcp")
    # asyncio closes without the alert that OpenSSL has made.
    assert rejected.alert == ("unknown_ca" if client == "openssl" else None)
    assert ask() == 200
    assert not only(Exchange, watched.until_ended())


def test_a_blind_reverse_proxy(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority
) -> None:
    """TLS and QUIC pass through untouched, and their hellos are seen."""
    watched = start(reverse_to(server, authority))
    url = f"https://localhost:{watched.proxy.port}/"
    assert get(background, url, authority.ca_file)[0].version == "HTTP/2"
    (outcome,) = get(background, url, authority.ca_file, policy=Policy.H3_ONLY)
    assert outcome.version == "HTTP/3"
    events = watched.until(lambda events: len(only(ClientHelloSeen, events)) == 2)
    over_tcp, over_udp = only(ClientHelloSeen, events)
    assert (over_tcp.transport, over_tcp.alpn, over_tcp.sni) == ("tcp", ("h2", "http/1.1"), "localhost")
    assert (over_udp.transport, over_udp.alpn, over_udp.quic_version) == ("udp", ("h3",), 1)
    assert over_udp.client.port == outcome.local_port
    assert over_udp.dcid is not None
    assert len(over_udp.dcid) >= 8
    assert over_udp.ja4.startswith("q13")
    rest = watched.proxy.stop()
    ended = [event for event in only(ConnectionEnded, rest) if event.transport == "udp"]
    assert [(event.sent > 1200, event.closed_by) for event in ended] == [(True, "proxy")]


def test_a_client_that_refuses_over_quic(
    start: Callable[[ProxySpec], Watched], background: Background, server: Server, authority: Authority
) -> None:
    """A refusal over QUIC is told by its error code; QUIC passes through then, and TCP is still terminated."""
    watched = start(reverse_to(server, authority, ()))
    url = f"https://localhost:{watched.proxy.port}/"
    outcomes = get(background, url, authority.ca_file, policy=Policy.H3_ONLY, count=2)
    assert outcomes[-1].status == 200
    events = watched.until(lambda events: len(only(ClientHelloSeen, events)) == 2)
    rejected = one(CaRejected, events)
    assert (rejected.host, rejected.transport, rejected.alert) == ("localhost", "udp", "bad_certificate")
    assert not only(Exchange, events)
    assert get(background, url, watched.proxy.ca_file)[0].status == 200
    watched.until(lambda events: bool(only(Exchange, events)))
