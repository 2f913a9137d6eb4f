from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.lab.client import Client, Policy, Timeouts
from h3probe.lab.servers import SERVERS, find_server, running

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.servers import ServerSpec

SHORT = Timeouts(direct=0.2, advertised=0.3)
LONG = Timeouts(direct=10, advertised=10)


def ask(
    spec: ServerSpec, authority: Authority, policy: Policy, requests: int = 1, timeouts: Timeouts = LONG
) -> list[Outcome]:
    """What a client with this policy gets from this server."""

    async def run() -> list[Outcome]:
        async with (
            running(spec, authority) as server,
            Client(policy, authority.ca_file, timeouts=timeouts) as client,
        ):
            return [await client.get(f"{server.url}bytes/70000") for _ in range(requests)]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "policy", "version"),
    [
        ("h1", Policy.NO_OPT_IN, "HTTP/1.1"),
        ("h2", Policy.NO_OPT_IN, "HTTP/2"),
        ("h3", Policy.NO_OPT_IN, "HTTP/2"),
        ("h3", Policy.H3_ONLY, "HTTP/3"),
        ("h3-retry", Policy.H3_ONLY, "HTTP/3"),
        ("h2-advertises-silent-h3", Policy.NO_OPT_IN, "HTTP/2"),
        ("h2-advertises-closed-h3", Policy.NO_OPT_IN, "HTTP/2"),
        ("alt-svc-other-port", Policy.NO_OPT_IN, "HTTP/2"),
    ],
)
def test_speaks(authority: Authority, name: str, policy: Policy, version: str) -> None:
    """Each server answers two requests, larger than one packet, over the version it is there for."""
    outcomes = ask(SERVERS[name], authority, policy, requests=2)
    assert [(outcome.version, outcome.status, outcome.error) for outcome in outcomes] == [(version, 200, None)] * 2


@pytest.mark.parametrize("name", ["h1", "h2", "h2-advertises-silent-h3", "h2-advertises-closed-h3"])
def test_no_quic(authority: Authority, name: str) -> None:
    """A server without HTTP/3 answers no QUIC packet."""
    (outcome,) = ask(SERVERS[name], authority, Policy.H3_ONLY, timeouts=SHORT)
    assert outcome.version is None
    assert outcome.error == "no response from peer for 0.3 seconds over QUIC"


def test_other_port_is_advertised_and_works(authority: Authority) -> None:
    """HTTP/3 is where Alt-Svc says, and not on the server's own port."""
    outcomes = ask(SERVERS["alt-svc-other-port"], authority, Policy.ALT_SVC, requests=2)
    assert [outcome.version for outcome in outcomes] == ["HTTP/2", "HTTP/3"]
    (direct,) = ask(SERVERS["alt-svc-other-port"], authority, Policy.H3_ONLY, timeouts=SHORT)
    assert direct.error is not None


def test_delay_holds_the_handshake_back(authority: Authority) -> None:
    """A handshake cannot finish before the delay is over."""
    spec = SERVERS["h3-slow"].delayed(0.3)
    (impatient,) = ask(spec, authority, Policy.QUIC_FIRST, timeouts=SHORT)
    (patient,) = ask(spec, authority, Policy.QUIC_FIRST)
    assert (impatient.version, patient.version) == ("HTTP/2", "HTTP/3")


@pytest.mark.parametrize("name", [name for name, spec in SERVERS.items() if spec.udp == "silent"])
def test_silent_port_sends_no_refusal(authority: Authority, name: str) -> None:
    """A datagram to the silent port meets no ICMP error, and one to a closed port does."""

    async def refused(spec: ServerSpec) -> bool:
        async with running(spec, authority) as server:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.connect(("127.0.0.1", server.quic_port))
                sock.send(b"x" * 1200)
                sock.settimeout(0.2)
                try:
                    sock.recv(1)
                except ConnectionRefusedError:
                    return True
                except TimeoutError:
                    return False
                raise AssertionError("an answer from a port that should give none")

    assert asyncio.run(refused(SERVERS[name])) is False
    assert asyncio.run(refused(SERVERS["h2-advertises-closed-h3"])) is True


@pytest.mark.parametrize("name", SERVERS)
def test_ends_cleanly(authority: Authority, name: str) -> None:
    """With a connection still open the server ends soon, and its port can be had again at once."""

    async def run() -> None:
        async with running(SERVERS[name], authority) as server:
            client = Client(Policy.NO_OPT_IN, authority.ca_file)
            assert (await client.get(server.url)).status == 200
        async with asyncio.timeout(5), running(SERVERS[name], authority, port=server.port):
            await client.disconnect()

    asyncio.run(run())


def test_listens_on_both_families(authority: Authority) -> None:
    """127.0.0.1 and, where there is IPv6, ::1 answer with a certificate for the address itself."""

    async def run() -> list[Outcome]:
        async with running(SERVERS["h3"], authority) as server:
            hosts = ["127.0.0.1"]
            with socket.socket(socket.AF_INET6) as probe:
                if probe.connect_ex(("::1", server.port)) == 0:
                    hosts.append("[::1]")
            outcomes = []
            for host in hosts:
                for policy in (Policy.NO_OPT_IN, Policy.H3_ONLY):
                    async with Client(policy, authority.ca_file) as client:
                        outcomes.append(await client.get(f"https://{host}:{server.port}/hello"))
            return outcomes

    outcomes = asyncio.run(run())
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)


def test_swallowing_begins_and_ends(authority: Authority) -> None:
    """A site that swallows UDP is silent to new connections until it stops doing so."""

    async def run() -> list[str | None]:
        seen: list[str | None] = []
        async with running(SERVERS["h3"], authority) as server:
            for swallows in (False, True, False):
                server.site.swallows_udp = swallows
                timeouts = SHORT if swallows else LONG
                async with Client(Policy.H3_ONLY, authority.ca_file, timeouts=timeouts) as client:
                    seen.append((await client.get(server.url)).version)
        return seen

    assert asyncio.run(run()) == ["HTTP/3", None, "HTTP/3"]


def test_unknown_server_is_a_user_error() -> None:
    """An unknown name gives one line with the names that exist."""
    with pytest.raises(UserError, match=r"no server 'h4'.*h3-retry"):
        find_server("h4")
