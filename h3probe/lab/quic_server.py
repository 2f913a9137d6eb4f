"""HTTP/3 over QUIC, served by aioquic on sockets that are already bound."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from socket import socket

    from h3probe.lab.authority import Authority
    from h3probe.lab.ports import Port
    from h3probe.lab.site import Site

_IDLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class QuicBehaviour:
    """How the server treats a handshake.

    Attributes:
        retry: Whether it validates the client's address with a Retry packet first (RFC 9000, 8.1.2).
        delay: Seconds for which it holds back everything that it has to say to a new connection.
    """

    retry: bool = False
    delay: float = 0.0


class _Exchange(QuicConnectionProtocol):
    """One connection: a request on each stream, answered as it arrives."""

    def __init__(self, *args: Any, site: Site, delay: float, **kwargs: Any) -> None:  # noqa: ANN401 -- aioquic's own
        super().__init__(*args, **kwargs)
        self._site = site
        self._delay = delay
        self._http: H3Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._delay > 0:
            held = _HeldTransport(cast("asyncio.DatagramTransport", transport), self._delay)
            transport = cast("asyncio.BaseTransport", held)
        super().connection_made(transport)

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated) and event.alpn_protocol in H3_ALPN:
            self._http = H3Connection(self._quic)
        if self._http is None:
            return
        for http_event in self._http.handle_event(event):
            # The content of a request is of no interest here.
            if isinstance(http_event, HeadersReceived):
                self._answer(http_event.stream_id, dict(http_event.headers))

    def _answer(self, stream_id: int, headers: dict[bytes, bytes]) -> None:
        method = headers.get(b":method", b"").decode("ascii", "replace")
        response = self._site.respond(method, headers.get(b":path", b"").decode("ascii", "replace"))
        http = cast("H3Connection", self._http)
        http.send_headers(
            stream_id,
            [(b":status", b"%d" % response.status), (b"server", b"h3probe-lab"), *response.headers],
            end_stream=not response.body,
        )
        if response.body:
            http.send_data(stream_id, response.body, end_stream=True)
        self.transmit()


class _Server(QuicServer):
    """A server that can stop hearing anything."""

    def __init__(self, *args: Any, site: Site, **kwargs: Any) -> None:  # noqa: ANN401 -- aioquic's own
        super().__init__(*args, **kwargs)
        self._site = site

    def datagram_received(self, data: bytes | str, addr: Any) -> None:  # noqa: ANN401 -- the same
        if not self._site.swallows_udp:
            super().datagram_received(data, addr)


class _HeldTransport:
    """A transport whose datagrams leave `delay` seconds after the first one is asked for, and at once after that."""

    def __init__(self, transport: asyncio.DatagramTransport, delay: float) -> None:
        self._transport = transport
        self._delay = delay
        self._held: list[tuple[bytes, Any]] | None = None
        self._released = False

    def sendto(self, data: bytes, addr: Any = None) -> None:  # noqa: ANN401 -- asyncio's own
        if self._released:
            self._transport.sendto(data, addr)
            return
        if self._held is None:
            self._held = []
            asyncio.get_running_loop().call_later(self._delay, self._release)
        self._held.append((data, addr))

    def _release(self) -> None:
        self._released = True
        if not self._transport.is_closing():
            for data, addr in self._held or ():
                self._transport.sendto(data, addr)
        self._held = None


@asynccontextmanager
async def serve_quic(port: Port, site: Site, authority: Authority, behaviour: QuicBehaviour) -> AsyncIterator[None]:
    """Answer on the UDP sockets of `port` until the context ends.

    Args:
        port: Its UDP sockets pass to the server.
        site: What to answer.
        authority: Whose server certificate to show.
        behaviour: How to treat a handshake.
    """
    configuration = QuicConfiguration(is_client=False, alpn_protocols=list(H3_ALPN), idle_timeout=_IDLE_SECONDS)
    configuration.load_cert_chain(authority.cert_file, authority.key_file)

    def connection(*args: Any, **kwargs: Any) -> _Exchange:  # noqa: ANN401 -- aioquic's own
        return _Exchange(*args, site=site, delay=behaviour.delay, **kwargs)

    servers: list[_Server] = []
    try:
        while port.udp:
            sock: socket = port.udp.pop()
            _, server = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Server(
                    configuration=configuration, create_protocol=connection, retry=behaviour.retry, site=site
                ),
                sock=sock,
            )
            servers.append(server)
        yield
    finally:
        for server in servers:
            server.close()  # type: ignore[no-untyped-call]  # aioquic's one method without annotations
