"""A small HTTP client that chooses between QUIC and TCP as the clients do that h3probe diagnoses.

Its policies are those of JDK 26's HttpClient with the waits scaled down, so that a demonstration of a thirty-second
timeout does not take thirty seconds.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from h3probe.lab.client_quic import QuicConnection
from h3probe.lab.client_tcp import Reply, Target, TcpConnection, trust
from h3probe.lab.outcome import Outcome
from h3probe.wire import altsvc

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

Connection = QuicConnection | TcpConnection


class Policy(StrEnum):
    """When the client tries QUIC."""

    NO_OPT_IN = "no-opt-in"
    """Never: HTTP/2 over TCP."""
    RACE = "race"
    """QUIC first and TCP right after it; the first that is ready carries, the other one is kept for later requests."""
    QUIC_FIRST = "quic-first"
    """QUIC alone until its timer is up, then TCP."""
    ALT_SVC = "alt-svc"
    """TCP, until a response names an HTTP/3 alternative."""
    H3_ONLY = "h3-only"
    """QUIC and nothing else; a failed connection is tried once more."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the client waits, in seconds.

    Attributes:
        head_start: From QUIC's first packet to TCP's in a race.
        direct: For a QUIC handshake with an origin that has not advertised HTTP/3 (the JDK's 2.75 s).
        advertised: For a QUIC handshake with an alternative, or with no other choice (the JDK's 30 s).
        response: For a response.
    """

    head_start: float = 0.01
    direct: float = 1.2
    advertised: float = 1.5
    response: float = 5.0


@dataclass(slots=True)
class _Origin:
    """What the client remembers of an origin."""

    target: Target
    quic: QuicConnection | None = None
    tcp: TcpConnection | None = None
    pending: asyncio.Task[QuicConnection] | None = None
    alternative: Target | None = None
    banned: set[Target] = field(default_factory=set)
    direct_failed: bool = False


class Client:
    """A client with one policy; use it as an async context manager.

    Args:
        policy: When to try QUIC.
        ca_file: The authority to trust.
        proxy: Host and port of an HTTP proxy for everything.
        sni: Server name in QUIC's ClientHello; None for none with the origin itself and the host's name with an
            alternative, as the JDK does for `localhost`. TCP sends the host's name.
        timeouts: How long to wait.
    """

    def __init__(
        self,
        policy: Policy,
        ca_file: Path,
        *,
        proxy: tuple[str, int] | None = None,
        sni: str | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._policy = policy
        self._ca_file = ca_file
        self._tls = trust(ca_file)
        self._proxy = proxy
        self._sni = sni
        self._timeouts = timeouts or Timeouts()
        self._origins: dict[tuple[str, int], _Origin] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._sent = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close all connections and give up all attempts, but remember alternatives and failures."""
        tasks: list[asyncio.Task[QuicConnection] | asyncio.Task[None]] = [*self._background]
        for origin in self._origins.values():
            if origin.pending is not None:
                tasks.append(origin.pending)
                origin.pending = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for origin in self._origins.values():
            for connection in (origin.quic, origin.tcp):
                if connection is not None:
                    await connection.close()
            origin.quic = origin.tcp = None

    async def get(self, url: str) -> Outcome:
        """Send one GET request; a failure is part of the outcome.

        Args:
            url: An https URL.

        Raises:
            ValueError: It is none.
        """
        self._sent += 1
        started = time.monotonic()
        connection: Connection | None = None
        reply: Reply | None = None
        failure: str | None = None
        try:
            origin = await self._origin(url)
            target = replace(origin.target, path=_path(url))
            connection = await self._choose(origin)
            async with asyncio.timeout(self._timeouts.response):
                reply = await connection.get(target)
            self._learn(origin, reply)
        except OSError as error:
            failure = _describe(error)
        return Outcome(
            self._sent,
            connection.version if connection is not None and reply is not None else None,
            reply.status if reply is not None else None,
            reply.header("alt-svc") if reply is not None else None,
            time.monotonic() - started,
            failure,
            connection.local_port if connection is not None else None,
        )

    async def _origin(self, url: str) -> _Origin:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ValueError(f"not an https URL: {url!r}")
        key = parts.hostname, parts.port or 443
        if key not in self._origins:
            self._origins[key] = _Origin(Target(*key, address=await _resolve(*key)))
        return self._origins[key]

    async def _choose(self, origin: _Origin) -> Connection:
        """The connection for the next request, made now if need be.

        Raises:
            OSError: There is none.
        """
        if self._policy is Policy.H3_ONLY:
            return await self._only_quic(origin)
        if self._proxy is not None or self._policy is Policy.NO_OPT_IN:
            return await self._over_tcp(origin)
        if origin.quic is not None and origin.quic.is_open:
            return origin.quic
        if origin.alternative is not None and origin.alternative not in origin.banned:
            return await self._follow(origin, origin.alternative)
        if self._policy is Policy.ALT_SVC or origin.direct_failed:
            return await self._over_tcp(origin)
        if self._policy is Policy.QUIC_FIRST:
            return await self._quic_then_tcp(origin)
        if origin.tcp is not None and origin.tcp.is_open:
            return origin.tcp
        return await self._race(origin)

    async def _over_tcp(self, origin: _Origin) -> TcpConnection:
        if origin.tcp is None or not origin.tcp.is_open:
            origin.tcp = await TcpConnection.connect(origin.target, self._tls, self._proxy)
        return origin.tcp

    async def _only_quic(self, origin: _Origin) -> QuicConnection:
        if self._proxy is not None:
            raise ConnectionError("HTTP/3 cannot go through an HTTP proxy")
        if origin.quic is not None and origin.quic.is_open:
            return origin.quic
        try:
            origin.quic = await self._over_quic(origin.target, self._timeouts.advertised)
        except OSError:
            # The JDK repeats a request once after a ConnectException: two full timers, one after the other.
            origin.quic = await self._over_quic(origin.target, self._timeouts.advertised)
        return origin.quic

    async def _follow(self, origin: _Origin, alternative: Target) -> Connection:
        """QUIC alone: who has an alternative waits for it, and joins an attempt that is already under way."""
        if origin.pending is not None and alternative == origin.target:
            return await asyncio.shield(origin.pending)
        try:
            origin.quic = await self._over_quic(alternative, self._timeouts.advertised, alternative.host)
        except OSError:
            origin.banned.add(alternative)
            return await self._over_tcp(origin)
        return origin.quic

    async def _quic_then_tcp(self, origin: _Origin) -> Connection:
        try:
            origin.quic = await self._over_quic(origin.target, self._timeouts.direct)
        except OSError:
            origin.direct_failed = True
            return await self._over_tcp(origin)
        return origin.quic

    async def _race(self, origin: _Origin) -> Connection:
        """Start both; the first one that is ready carries the request."""
        quic = asyncio.create_task(self._over_quic(origin.target, self._timeouts.direct))
        origin.pending = quic
        quic.add_done_callback(lambda done: _settle(origin, done))
        await asyncio.wait({quic}, timeout=self._timeouts.head_start)
        if quic.done() and quic.exception() is None:
            return quic.result()

        tcp = asyncio.create_task(self._over_tcp(origin))
        running: set[asyncio.Task[QuicConnection] | asyncio.Task[TcpConnection]] = {quic, tcp}
        while running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in (quic, tcp):
                if task in done and task.exception() is None:
                    self._let_finish(tcp)
                    return task.result()
        return await tcp

    def _let_finish(self, loser: asyncio.Task[TcpConnection]) -> None:
        async def wait() -> None:
            await asyncio.wait({loser})

        if not loser.done():
            waiting = asyncio.create_task(wait())
            self._background.add(waiting)
            waiting.add_done_callback(self._background.discard)

    async def _over_quic(self, target: Target, timeout: float, name: str | None = None) -> QuicConnection:  # noqa: ASYNC109 -- handed on
        return await QuicConnection.connect(target, self._ca_file, sni=self._sni or name, timeout=timeout)

    def _learn(self, origin: _Origin, reply: Reply) -> None:
        value = reply.header("alt-svc")
        if value is None:
            return
        for service in altsvc.parse([value]).alternatives:
            # Another host would need its address and its own origin's certificate; the lab has none.
            if service.protocol == "h3" and service.host in {"", origin.target.host}:
                origin.alternative = replace(origin.target, port=service.port)
                return


def _settle(origin: _Origin, task: asyncio.Task[QuicConnection]) -> None:
    """Pool the QUIC connection of a race, or remember that there is none."""
    origin.pending = None
    if task.cancelled():
        return
    if task.exception() is None:
        origin.quic = task.result()
    else:
        origin.direct_failed = True


async def _resolve(host: str, port: int) -> str:
    """The first address, IPv4 before IPv6 as Java has it.

    Raises:
        OSError: The name has no address.
    """
    infos = await asyncio.get_running_loop().getaddrinfo(host, port)
    addresses = [str(info[4][0]) for info in infos]
    return next((address for address in addresses if ":" not in address), addresses[0])


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _describe(error: OSError) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no response in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    return str(error) or type(error).__name__
