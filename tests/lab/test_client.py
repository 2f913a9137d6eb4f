from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from h3probe.lab.authority import create_authority
from h3probe.lab.client import Client, Policy, Timeouts
from h3probe.lab.connect_proxy import connect_proxy
from h3probe.lab.servers import SERVERS, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from h3probe.lab.authority import Authority
    from h3probe.lab.outcome import Outcome

SHORT = Timeouts(direct=0.3, advertised=0.6)


async def play(server_name: str, authority: Authority, policy: Policy, requests: int) -> list[Outcome]:
    """A fresh client's requests to a fresh server."""
    async with (
        running(SERVERS[server_name], authority) as server,
        Client(policy, authority.ca_file, timeouts=SHORT) as client,
    ):
        return [await client.get(server.url) for _ in range(requests)]


@pytest.mark.parametrize(
    ("server", "policy", "versions"),
    [
        ("h3", Policy.NO_OPT_IN, ["HTTP/2", "HTTP/2", "HTTP/2"]),
        ("h3-slow", Policy.RACE, ["HTTP/2", "HTTP/3", "HTTP/3"]),
        ("h2", Policy.RACE, ["HTTP/2", "HTTP/2", "HTTP/2"]),
        ("h3", Policy.QUIC_FIRST, ["HTTP/3", "HTTP/3", "HTTP/3"]),
        ("h1", Policy.QUIC_FIRST, ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1"]),
        ("h3", Policy.ALT_SVC, ["HTTP/2", "HTTP/3", "HTTP/3"]),
        ("h2", Policy.ALT_SVC, ["HTTP/2", "HTTP/2", "HTTP/2"]),
        ("h2-advertises-silent-h3", Policy.ALT_SVC, ["HTTP/2", "HTTP/2", "HTTP/2"]),
        ("h3", Policy.H3_ONLY, ["HTTP/3", "HTTP/3", "HTTP/3"]),
        ("h2", Policy.H3_ONLY, [None]),
    ],
)
def test_policies(authority: Authority, server: str, policy: Policy, versions: list[str | None]) -> None:
    """Each policy takes its requests over the versions that the client it stands for would."""
    slow = Timeouts(direct=2.0) if server == "h3-slow" else SHORT

    async def run() -> list[Outcome]:
        async with running(SERVERS[server], authority) as running_server:
            async with Client(policy, authority.ca_file, timeouts=slow) as client:
                return [await client.get(running_server.url) for _ in versions]

    assert [outcome.version for outcome in asyncio.run(run())] == versions


def test_quic_first_waits_once(authority: Authority) -> None:
    """Only the first request waits out the direct timer; without a record QUIC is not tried again."""
    first, second = asyncio.run(play("h2", authority, Policy.QUIC_FIRST, 2))
    assert first.seconds >= SHORT.direct > second.seconds


def test_second_request_joins_the_failing_attempt(authority: Authority) -> None:
    """After a race that TCP won, a record leads the next request into the pending attempt, and to fail with it."""
    outcomes = asyncio.run(play("h2-advertises-silent-h3", authority, Policy.RACE, 4))
    assert [outcome.version for outcome in outcomes] == ["HTTP/2", None, "HTTP/2", "HTTP/2"]
    assert outcomes[1].error == "no response from peer for 0.3 seconds over QUIC"
    assert outcomes[2].seconds >= SHORT.advertised
    assert outcomes[3].seconds < SHORT.advertised


def test_alternative_is_banned_after_one_failure(authority: Authority) -> None:
    """A silent alternative costs one request its timer, and no other."""
    outcomes = asyncio.run(play("h2-advertises-silent-h3", authority, Policy.ALT_SVC, 4))
    assert [outcome.seconds >= SHORT.advertised for outcome in outcomes] == [False, True, False, False]


def test_h3_only_tries_twice(authority: Authority) -> None:
    """A request that allows QUIC alone waits out two timers, as the JDK's does."""
    (outcome,) = asyncio.run(play("h2-advertises-closed-h3", authority, Policy.H3_ONLY, 1))
    assert outcome.seconds >= 2 * SHORT.advertised


def test_records_outlive_connections(authority: Authority) -> None:
    """After a disconnect the client still knows the alternative, and goes there first."""

    async def run() -> list[Outcome]:
        async with running(SERVERS["h3"], authority) as server:
            async with Client(Policy.ALT_SVC, authority.ca_file, timeouts=SHORT) as client:
                first = await client.get(server.url)
                await client.disconnect()
                return [first, await client.get(server.url)]

    assert [outcome.version for outcome in asyncio.run(run())] == ["HTTP/2", "HTTP/3"]


def test_outcome_tells_what_is_asked_of_it(authority: Authority) -> None:
    """Number, Alt-Svc value and the client's own port come with each outcome, one port per connection."""
    outcomes = asyncio.run(play("h3", authority, Policy.ALT_SVC, 3))
    assert [outcome.number for outcome in outcomes] == [1, 2, 3]
    assert all(str(outcome.alt_svc).startswith('h3=":') for outcome in outcomes)
    assert outcomes[1].local_port == outcomes[2].local_port != outcomes[0].local_port


@pytest.mark.parametrize("policy", [Policy.NO_OPT_IN, Policy.H3_ONLY])
def test_strange_authority_is_refused(authority: Authority, tmp_path: Path, policy: Policy) -> None:
    """A server of another authority gets no request, over TCP or QUIC."""
    stranger = create_authority(tmp_path)

    async def run() -> Outcome:
        async with running(SERVERS["h3"], stranger) as server, Client(policy, authority.ca_file) as client:
            return await client.get(server.url)

    outcome = asyncio.run(run())
    assert outcome.version is None
    assert outcome.error


@asynccontextmanager
async def proxied(authority: Authority, policy: Policy) -> AsyncIterator[tuple[Client, str]]:
    """A client behind the CONNECT proxy, and the server's URL."""
    async with running(SERVERS["h3"], authority) as server, connect_proxy() as port:
        async with Client(policy, authority.ca_file, proxy=("127.0.0.1", port)) as client:
            yield client, server.url


@pytest.mark.parametrize("policy", [Policy.NO_OPT_IN, Policy.RACE, Policy.QUIC_FIRST, Policy.ALT_SVC])
def test_proxy_means_tcp(authority: Authority, policy: Policy) -> None:
    """Behind a proxy every policy but one sends everything through the tunnel."""

    async def run() -> list[Outcome]:
        async with proxied(authority, policy) as (client, url):
            return [await client.get(url) for _ in range(2)]

    assert [outcome.version for outcome in asyncio.run(run())] == ["HTTP/2", "HTTP/2"]


def test_h3_only_refuses_a_proxy(authority: Authority) -> None:
    """HTTP/3 alone and a proxy exclude each other, without a packet."""

    async def run() -> Outcome:
        async with proxied(authority, Policy.H3_ONLY) as (client, url):
            return await client.get(url)

    outcome = asyncio.run(run())
    assert (outcome.error, outcome.local_port) == ("HTTP/3 cannot go through an HTTP proxy", None)


def test_nothing_there(authority: Authority) -> None:
    """A refused TCP connection is an outcome, not an exception."""

    async def run() -> Outcome:
        async with running(SERVERS["h2"], authority) as server:
            pass
        async with Client(Policy.NO_OPT_IN, authority.ca_file) as client:
            return await client.get(server.url)

    assert asyncio.run(run()).error


def test_only_https(authority: Authority) -> None:
    """A URL that is not https is the caller's mistake."""

    async def run() -> None:
        async with Client(Policy.RACE, authority.ca_file) as client:
            await client.get("http://localhost/")

    with pytest.raises(ValueError, match="not an https URL"):
        asyncio.run(run())
