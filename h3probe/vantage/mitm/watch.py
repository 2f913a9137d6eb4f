"""One client connection, seen where its bytes enter and leave mitmproxy's layers."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING, Final, Literal

from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layer import NextLayerHook
from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode

from h3probe.events import Endpoint
from h3probe.vantage.mitm.hello import QuicHello, TlsHello
from h3probe.wire.tls import looks_like_client_hello

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mitmproxy.connection import Client, Connection
    from mitmproxy.proxy.layer import Layer

    from h3probe.wire.tls_hello import ClientHello

LONGEST_HEAD: Final = 256 << 10
"""Bytes of a request that may come before its head is complete; mitmproxy itself has no limit."""
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n"
    b"Proxy-Status: h3probe; error=http_request_error\r\n\r\n"
)

ClosedBy = Literal["client", "server", "proxy", "idle"]


class ConnectionWatch:
    """Stands in for a connection's topmost layer: counts, reads the ClientHello, and notes who ends it.

    It changes nothing that goes by, but for a request head that does not end. Once all that is left to do is to pass
    bytes on, it does that itself, and mitmproxy's layers are not asked any more: that is faster than going through
    them, and keeps what they lose of a tunnel, the difference between half a connection's end and all of it.

    Args:
        number: Of the connection, from 1.
        client: mitmproxy's own record of it.
        layer: Its topmost layer.
        bounded: Whether a request's head may be cut off.
        on_hello: Called with this watch once a ClientHello is complete.

    Attributes:
        id: The connection's.
        began_ns: When it was accepted.
        client: The client's end.
        proxy: The proxy's end.
        transport: TCP or UDP.
        sent: Bytes from the client; of the tunnel once one is open.
        received: Bytes to the client, likewise.
        closed_by: Who ended it, None while it lasts.
        tunnel: The tunnel that is open.
        hello: The ClientHello.
        sniffer: What reads it; None where none is to be expected yet.
        terminated: Whether the client has finished TLS with the proxy in the server's place.
    """

    __slots__ = (
        "_connection",
        "_has_heads",
        "_head",
        "_in_head",
        "_layer",
        "_layers_hold",
        "_on_hello",
        "_relays",
        "_sent_at_hello",
        "_server",
        "_skip",
        "_spoke_last",
        "began_ns",
        "client",
        "closed_by",
        "hello",
        "id",
        "proxy",
        "received",
        "sent",
        "sniffer",
        "terminated",
        "transport",
        "tunnel",
    )

    def __init__(
        self,
        number: int,
        client: Client,
        layer: Layer,
        *,
        bounded: bool,
        on_hello: Callable[[ConnectionWatch, ClientHello], None],
    ) -> None:
        self.id = f"c{number}"
        self.began_ns = time.time_ns()
        self.client = endpoint(client.peername)
        self.proxy = endpoint(client.sockname)
        self.transport = client.transport_protocol
        self.sent = 0
        self.received = 0
        self.closed_by: ClosedBy | None = None
        self.tunnel: str | None = None
        self.hello: ClientHello | None = None
        self.sniffer: TlsHello | QuicHello | None = None
        self.terminated = False
        self._connection = client
        self._sent_at_hello: int | None = None
        # Requests come first there, and TLS only in a tunnel.
        explicit = isinstance(client.proxy_mode, RegularMode | UpstreamMode)
        self._has_heads = explicit and bounded
        self._head = 0
        self._in_head = self._has_heads
        self._layer = layer
        self._on_hello = on_hello
        self._layers_hold = False
        self._server: Connection | None = None
        self._relays = False
        self._skip = False
        self._spoke_last = False  # the client
        if not explicit:
            self.sniffer = TlsHello() if client.transport_protocol == "tcp" else QuicHello()

    @property
    def after_hello(self) -> int | None:
        """Bytes from the client since its ClientHello was complete, the second one after a HelloRetryRequest."""
        return None if self._sent_at_hello is None else self.sent - self._sent_at_hello

    def head_is_complete(self) -> None:
        """A request's head was read."""
        self._in_head = False

    def expect_head(self) -> None:
        """The request before is answered; another one may come."""
        self._in_head = self._has_heads and self.tunnel is None
        self._head = 0

    def open_tunnel(self, tunnel: str, server: Connection | None) -> None:
        """A tunnel is agreed to, and the answer that says so is the next thing to be sent.

        Args:
            tunnel: Its id.
            server: What it leads to, when all in it is to be passed on from then on.
        """
        self.tunnel = tunnel
        self._server = server
        self.sent = self.received = 0
        self.sniffer = TlsHello()
        self._in_head = self._layers_hold = False
        self._skip = True

    def relay_to(self, server: Connection) -> None:
        """Pass everything on between the client and `server` from the next event on, without asking the layers."""
        self._server, self._layers_hold = server, False

    def handle_event(self, event: events.Event) -> Iterable[commands.Command]:
        """What `Layer.handle_event` does, watched."""
        return self._relayed(event) if self._relays else self._watched(event)

    def _watched(self, event: events.Event) -> Iterator[commands.Command]:
        if isinstance(event, events.DataReceived):
            if event.connection is self._connection:
                yield from self._from_client(event.data)
        elif isinstance(event, events.ConnectionClosed) and event.connection is self._connection:
            self._closed("client" if self.transport == "tcp" else "idle")
        for command in self._layer.handle_event(event):
            if isinstance(command, commands.SendData):
                if command.connection is self._connection:
                    self._to_client(command.data)
            elif isinstance(command, commands.CloseConnection) and command.connection is self._connection:
                self._closed(self._who(event))
            elif isinstance(command, NextLayerHook):
                self._layers_hold = True  # what has come already is with them until they have their answer
            yield command
        self._relays = self._server is not None and not self._skip and not self._layers_hold

    def _relayed(self, event: events.Event) -> tuple[commands.Command, ...]:
        if isinstance(event, events.DataReceived):
            if event.connection is self._connection:
                self.sent += len(event.data)
                if self.sniffer is not None:
                    self._sniff(event.data)
                return (commands.SendData(self._other(event.connection), event.data),)
            self.received += len(event.data)
            return (commands.SendData(self._connection, event.data),)
        if isinstance(event, events.ConnectionClosed):
            return self._relayed_end(event.connection)
        return ()

    def _relayed_end(self, ended: Connection) -> tuple[commands.Command, ...]:
        """One side has ended: so does the other one's input, and when both have, so do both connections."""
        by_client, other = ended is self._connection, self._other(ended)
        if self.transport == "udp":
            self._closed("idle" if by_client else "server")
            return (commands.CloseConnection(other),)
        self._closed("client" if by_client else "server")
        if other.state & ConnectionState.CAN_READ:
            return (commands.CloseTcpConnection(other, half_close=True),)
        return tuple(
            commands.CloseConnection(each) for each in (other, ended) if each.state is not ConnectionState.CLOSED
        )

    def _other(self, connection: Connection) -> Connection:
        return self._server if connection is self._connection and self._server is not None else self._connection

    def _from_client(self, data: bytes) -> Iterator[commands.Command]:
        self.sent += len(data)
        self._spoke_last = True
        if self.sniffer is not None:
            self._sniff(data)
        elif self._in_head:
            self._head += len(data)
            if self._head > LONGEST_HEAD:
                self._in_head = False
                self._closed("proxy")
                yield commands.SendData(self._connection, _TOO_LARGE)
                yield commands.CloseConnection(self._connection)

    def _sniff(self, data: bytes) -> None:
        if self.sniffer is None:
            return
        if self.hello is not None:  # What comes next may be the same once more (RFC 8446, 4.1.2).
            self.sniffer = None
            if _is_hello_again(data):
                self._sent_at_hello = self.sent
            return
        hello = self.sniffer.feed(data)
        if hello is not None:
            self.hello, self._sent_at_hello = hello, self.sent
            self._on_hello(self, hello)
        if self.sniffer.over and (hello is None or self.transport == "udp"):
            self.sniffer = None

    def _to_client(self, data: bytes) -> None:
        self._spoke_last = False
        if self._skip:
            self._skip = False  # the answer itself, which is not in the tunnel
            return
        self.received += len(data)

    def _closed(self, by: ClosedBy) -> None:
        if self.closed_by is None:
            self.closed_by = by

    def _who(self, event: events.Event) -> ClosedBy:
        """Who is behind the proxy's closing of the client's connection: whoever ended its own just now."""
        if isinstance(event, events.ConnectionEvent):
            by_client = event.connection is self._connection
            # Inside of TLS and QUIC an end is a message: close_notify, CONNECTION_CLOSE.
            if isinstance(event, events.ConnectionClosed) or event.connection.tls_established:
                return "client" if by_client else "server"
        # QUIC ends a while after a CONNECTION_CLOSE, which is answered with nothing (RFC 9000, 10.2.2).
        elif self.transport == "udp" and self._spoke_last:
            return "client"
        return "proxy"


def _is_hello_again(data: bytes) -> bool:
    """Whether a client's bytes begin with a ClientHello, perhaps behind a change_cipher_spec (RFC 8446, D.4)."""
    return looks_like_client_hello(data.removeprefix(b"\x14\x03\x03\x00\x01\x01"))


def endpoint(address: tuple[str, int]) -> Endpoint:
    """An address as mitmproxy has it; an IPv4 address mapped into IPv6 is the IPv4 address."""
    parsed = ipaddress.ip_address(address[0].partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return Endpoint(parsed.packed, address[1])
