"""The servers of the lab by name, and how they are started."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from h3probe.errors import UserError
from h3probe.lab.ports import Port, open_port
from h3probe.lab.site import Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from h3probe.lab.authority import Authority

Udp = Literal["answers", "silent", "closed"]
_MAX_AGE = 3600


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What a server speaks.

    Attributes:
        summary: What it does, in a few words.
        alpn: What it speaks over TCP, the preferred one first; empty for nothing at all.
        udp: Its UDP port answers HTTP/3, swallows everything, or is closed.
        advertises: Whether its responses carry `Alt-Svc: h3`.
        other_port: Whether HTTP/3 is on another port than TCP.
        retry: Whether it sends Retry.
        delay: Seconds for which it holds back its first QUIC answer.
    """

    summary: str
    alpn: tuple[str, ...] = ("h2", "http/1.1")
    udp: Udp = "closed"
    advertises: bool = False
    other_port: bool = False
    retry: bool = False
    delay: float = 0.0

    def delayed(self, seconds: float) -> ServerSpec:
        """The same server with another delay."""
        return replace(self, delay=seconds)


DEFAULT_DELAY = 0.3

SERVERS: dict[str, ServerSpec] = {
    "h1": ServerSpec("HTTP/1.1 only, nothing on UDP", alpn=("http/1.1",)),
    "h2": ServerSpec("HTTP/2 and HTTP/1.1, nothing on UDP"),
    "h3": ServerSpec("HTTP/3, HTTP/2 and HTTP/1.1, with Alt-Svc", udp="answers", advertises=True),
    "h3-unadvertised": ServerSpec("HTTP/3, HTTP/2 and HTTP/1.1, no Alt-Svc", udp="answers"),
    "h2-advertises-silent-h3": ServerSpec(
        "HTTP/2; Alt-Svc names an h3 that swallows every datagram", udp="silent", advertises=True
    ),
    "h2-advertises-closed-h3": ServerSpec(
        "HTTP/2; Alt-Svc names an h3 on a closed UDP port", udp="closed", advertises=True
    ),
    "alt-svc-other-port": ServerSpec(
        "HTTP/2; HTTP/3 on another port, which Alt-Svc names", udp="answers", advertises=True, other_port=True
    ),
    "h3-retry": ServerSpec("HTTP/3 with Retry (address validation)", udp="answers", advertises=True, retry=True),
    "h3-slow": ServerSpec(
        "HTTP/3 whose handshake is held back (--delay)", udp="answers", advertises=True, delay=DEFAULT_DELAY
    ),
}


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs.

    Attributes:
        spec: What it speaks.
        port: Its port, TCP, and UDP unless HTTP/3 is elsewhere.
        quic_port: Where HTTP/3 is or is said to be.
        site: What it answers.
    """

    spec: ServerSpec
    port: int
    quic_port: int
    site: Site

    @property
    def url(self) -> str:
        """Its address for a client on this machine."""
        return f"https://localhost:{self.port}/"

    def advertise(self, port: int) -> None:
        """Say in Alt-Svc that HTTP/3 is on `port`, when this server advertises it at all."""
        if self.spec.advertises:
            self.site.alt_svc = f'h3=":{port}"; ma={_MAX_AGE}'


def find_server(name: str) -> ServerSpec:
    """The server with this name.

    Raises:
        UserError: There is none.
    """
    spec = SERVERS.get(name)
    if spec is None:
        raise UserError(f"no server {name!r} in the lab: choose one of {', '.join(SERVERS)}")
    return spec


@contextmanager
def temporary_authority() -> Iterator[Authority]:
    """A certificate authority in a private folder that is removed afterwards."""
    # Here, so that listing the servers does not load cryptography.
    from h3probe.lab.authority import create_authority  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="h3probe-lab-", ignore_cleanup_errors=True) as directory:
        yield create_authority(Path(directory))


@asynccontextmanager
async def running(
    spec: ServerSpec, authority: Authority, *, port: int = 0, quic_port: int = 0
) -> AsyncIterator[Server]:
    """Run a server on 127.0.0.1 and ::1 until the context ends.

    Args:
        spec: What it speaks.
        authority: Whose certificate to show.
        port: Its port, 0 for a free one.
        quic_port: Where HTTP/3 is when `spec.other_port`, 0 for a free one.

    Raises:
        UserError: The port is in use.
        PrivilegeError: The port needs more rights.
    """
    async with AsyncExitStack() as stack:
        same = open_port(port, tcp=bool(spec.alpn), udp=not spec.other_port and spec.udp != "closed")
        stack.callback(same.close)
        quic = same
        if spec.other_port:
            quic = open_port(quic_port, tcp=False)
            stack.callback(quic.close)
        server = Server(spec, same.number, quic.number, Site())
        server.advertise(quic.number)
        await _start(stack, server, same, quic, authority)
        yield server


async def _start(stack: AsyncExitStack, server: Server, tcp: Port, quic: Port, authority: Authority) -> None:
    # Here, so that `lab list` does not load Hypercorn and aioquic.
    from h3probe.lab.quic_server import QuicBehaviour, serve_quic  # noqa: PLC0415
    from h3probe.lab.tcp_server import serve_tcp  # noqa: PLC0415

    spec = server.spec
    if spec.alpn:
        await stack.enter_async_context(serve_tcp(tcp, server.site, authority, spec.alpn))
    if spec.udp == "answers":
        behaviour = QuicBehaviour(retry=spec.retry, delay=spec.delay)
        await stack.enter_async_context(serve_quic(quic, server.site, authority, behaviour))
    # A silent port needs nobody: datagrams to a bound socket that is never read are dropped without an ICMP error.
