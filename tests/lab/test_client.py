from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from h3probe.engine import Engine
from h3probe.lab.authority import create_authority
from h3probe.lab.client import Client, Policy, Timeouts
from h3probe.lab.connect_proxy import connect_proxy
from h3probe.lab.servers import SERVERS, running
from h3probe.records import QuicRecord
from h3probe.vantage.relay import Relay, RelaySpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from h3probe.lab.authority import Authority
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.servers import ServerSpec
    from h3probe.records import AnyRecord

SHORT = Timeouts(direct=0.3, advertised=0.6)
LONG = Timeouts(direct=10, advertised=10)


@dataclass(frozen=True)
class Watched:
    """What a client says, and how many QUIC attempts were seen."""

    outcomes: list[Outcome]
    quic_attempts: int

    @property
    def versions(self) -> list[str | None]:
        """What carried each request."""
        return [outcome.version for outcome in self.outcomes]


def watch(spec: ServerSpec, authority: Authority, policy: Policy, requests: int, timeouts: Timeouts = SHORT) -> Watched:
    """A fresh client's requests to a fresh server, seen by a relay between them."""
    engine = Engine(source="test", format="relay")
    records: list[AnyRecord] = []

    async def run() -> list[Outcome]:
        async with (
            running(spec, authority) as server,
            Relay(RelaySpec(None, 0, "127.0.0.1", server.port), lambda f: records.extend(engine.feed(f))) as relay,
            Client(policy, authority.ca_file, timeouts=timeouts) as client,
        ):
            server.advertise(relay.port)
            return [await client.get(f"https://localhost:{relay.port}/") for _ in range(requests)]

    outcomes = asyncio.run(run())
    records.extend(engine.finish())
    return Watched(outcomes, sum(isinstance(record, QuicRecord) for record in records))


@pytest.mark.parametrize(
    ("server", "policy", "versions", "quic_attempts"),
    [
        ("h3", Policy.NO_OPT_IN, ["HTTP/2", "HTTP/2", "HTTP/2"], 0),
        ("h3-slow", Policy.RACE, ["HTTP/2", "HTTP/3", "HTTP/3"], 1),
        ("h3", Policy.QUIC_FIRST, ["HTTP/3", "HTTP/3", "HTTP/3"], 1),
        ("h3", Policy.ALT_SVC, ["HTTP/2", "HTTP/3", "HTTP/3"], 1),
        ("h2", Policy.ALT_SVC, ["HTTP/2", "HTTP/2", "HTTP/2"], 0),
        ("h3", Policy.H3_ONLY, ["HTTP/3", "HTTP/3", "HTTP/3"], 1),
    ],
)
def test_policies(
    authority: Authority, server: str, policy: Policy, versions: list[str | None], quic_attempts: int
) -> None:
    """Each policy takes its requests over the versions that the client it stands for would."""
    spec = SERVERS[server]
    # Long enough for TCP to be first on a busy machine.
    spec = spec.delayed(1.0) if spec.delay else spec
    watched = watch(spec, authority, policy, len(versions), LONG)
    assert (watched.versions, watched.quic_attempts) == (versions, quic_attempts)


@pytest.mark.parametrize(
    ("policy", "versions", "quic_attempts"),
    [
        (Policy.RACE, ["HTTP/2", "HTTP/2", "HTTP/2"], 1),
        (Policy.QUIC_FIRST, ["HTTP/2", "HTTP/2", "HTTP/2"], 1),
        # One request, two attempts: the JDK repeats it once.
        (Policy.H3_ONLY, [None], 2),
    ],
)
def test_without_http3(authority: Authority, policy: Policy, versions: list[str | None], quic_attempts: int) -> None:
    """Where nothing advertises HTTP/3, a failed attempt is not repeated for further requests."""
    spec = replace(SERVERS["h2-advertises-silent-h3"], advertises=False)
    watched = watch(spec, authority, policy, len(versions))
    assert (watched.versions, watched.quic_attempts) == (versions, quic_attempts)


@pytest.mark.parametrize(
    ("policy", "versions", "quic_attempts"),
    [
        # The second request joins the first one's pending attempt and fails with it; the third one has its own.
        (Policy.RACE, ["HTTP/2", None, "HTTP/2", "HTTP/2"], 2),
        (Policy.QUIC_FIRST, ["HTTP/2", "HTTP/2", "HTTP/2"], 2),
        (Policy.ALT_SVC, ["HTTP/2", "HTTP/2", "HTTP/2"], 1),
    ],
)
def test_silent_alternative(
    authority: Authority, policy: Policy, versions: list[str | None], quic_attempts: int
) -> None:
    """An alternative that does not answer is tried once, and then banned."""
    watched = watch(SERVERS["h2-advertises-silent-h3"], authority, policy, len(versions))
    assert (watched.versions, watched.quic_attempts) == (versions, quic_attempts)


def test_old_server(authority: Authority) -> None:
    """A server that knows HTTP/1.1 alone gets it, on one connection."""
    outcomes = watch(SERVERS["h1"], authority, Policy.NO_OPT_IN, 2).outcomes
    assert [outcome.version for outcome in outcomes] == ["HTTP/1.1", "HTTP/1.1"]
    assert outcomes[0].local_port == outcomes[1].local_port


def test_records_outlive_connections(authority: Authority) -> None:
    """After a disconnect the client still knows the alternative, and goes there first."""

    async def run() -> list[Outcome]:
        async with (
            running(SERVERS["h3"], authority) as server,
            Client(Policy.ALT_SVC, authority.ca_file, timeouts=LONG) as client,
        ):
            first = await client.get(server.url)
            await client.disconnect()
            return [first, await client.get(server.url)]

    assert [outcome.version for outcome in asyncio.run(run())] == ["HTTP/2", "HTTP/3"]


def test_outcome_tells_what_is_asked_of_it(authority: Authority) -> None:
    """Number, Alt-Svc value and the client's own port come with each outcome, one port per connection."""
    outcomes = watch(SERVERS["h3"], authority, Policy.ALT_SVC, 3, LONG).outcomes
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
    async with (
        running(SERVERS["h3"], authority) as server,
        connect_proxy() as port,
        Client(policy, authority.ca_file, proxy=("127.0.0.1", port)) as client,
    ):
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
