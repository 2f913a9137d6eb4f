"""Connections of clients to the proxy, and of the proxy to others."""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import TYPE_CHECKING

from mitmproxy import ctx

from h3probe.events import ClientHelloSeen, ConnectionEnded, OnwardConnection
from h3probe.vantage.mitm.watch import ConnectionWatch, endpoint
from h3probe.vantage.mitm.words import host_and_port, plain_error
from h3probe.wire.ja4 import ja4

if TYPE_CHECKING:
    from collections.abc import Callable

    from mitmproxy.connection import Connection
    from mitmproxy.proxy.server_hooks import ServerConnectionHookData

    from h3probe.events import ProxyEvent
    from h3probe.vantage.mitm.reporter import Reporter
    from h3probe.wire.tls_hello import ClientHello


class Connections:
    """An add-on that watches them all, and knows them for the other add-ons.

    Args:
        reporter: Where events go.
        bounded: Whether a request's head may be cut off; in somebody else's mitmdump nothing is.

    Attributes:
        before_end: Called when the proxy ends, while events can still be reported.
    """

    def __init__(self, reporter: Reporter, *, bounded: bool = True) -> None:
        self._reporter = reporter
        self._bounded = bounded
        self._open: dict[str, ConnectionWatch] = {}
        self._numbers = count(1)
        self.before_end: list[Callable[[], None]] = []

    def of(self, client: Connection) -> ConnectionWatch | None:
        """What watches a connection; None for one that was not seen to begin."""
        return self._open.get(client.id)

    def emit(self, event: ProxyEvent) -> None:
        """Report an event."""
        self._reporter.emit(event)

    def client_connected(self, client: Connection) -> None:
        """Put a watch around the connection's layers, before its first byte."""
        handler = ctx.master.addons.get("proxyserver").connections.get(client.id)
        if handler is None:
            return
        watch = ConnectionWatch(
            next(self._numbers), handler.client, handler.layer, bounded=self._bounded, on_hello=self._hello
        )
        self._open[client.id] = watch
        handler.layer = watch

    def client_disconnected(self, client: Connection) -> None:
        """The connection is over; what its last bytes made of it is still to be told by hooks that wait their turn."""
        asyncio.get_running_loop().call_soon(self._forget, client.id)

    def _forget(self, client_id: str) -> None:
        watch = self._open.pop(client_id, None)
        if watch is not None:
            self._ended(watch)

    def _ended(self, watch: ConnectionWatch) -> None:
        now = time.time_ns()
        self.emit(
            ConnectionEnded(
                time_ns=now,
                connection=watch.id,
                client=watch.client,
                proxy=watch.proxy,
                transport=watch.transport,
                tunnel=watch.tunnel,
                sent=watch.sent,
                received=watch.received,
                seconds=max(now - watch.began_ns, 0) / 1e9,
                closed_by=watch.closed_by or "proxy",
                after_hello=watch.after_hello if watch.transport == "tcp" else None,
                terminated=watch.terminated,
            )
        )

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """The proxy has a connection of its own."""
        server, watch = data.server, self.of(data.client)
        if watch is None or server.address is None or server.peername is None or server.sockname is None:
            return
        took = None
        if server.timestamp_tcp_setup is not None and server.timestamp_start is not None:
            took = max(server.timestamp_tcp_setup - server.timestamp_start, 0.0)
        self.emit(
            OnwardConnection(
                time_ns=time.time_ns(),
                connection=watch.id,
                transport=server.transport_protocol,
                target=host_and_port(*server.address[:2]),
                local=endpoint(server.sockname),
                remote=endpoint(server.peername),
                seconds=took,
                client=watch.client,
                proxy=watch.proxy,
            )
        )

    def server_connect_error(self, data: ServerConnectionHookData) -> None:
        """The proxy could not connect."""
        server, watch = data.server, self.of(data.client)
        if watch is not None and server.address is not None:
            self.emit(
                OnwardConnection(
                    time_ns=time.time_ns(),
                    connection=watch.id,
                    transport=server.transport_protocol,
                    target=host_and_port(*server.address[:2]),
                    error=plain_error(server.error or "no connection"),
                    client=watch.client,
                    proxy=watch.proxy,
                )
            )

    def _hello(self, watch: ConnectionWatch, hello: ClientHello) -> None:
        ids = watch.sniffer.ids if watch.sniffer is not None else None
        self.emit(
            ClientHelloSeen(
                time_ns=time.time_ns(),
                connection=watch.id,
                client=watch.client,
                proxy=watch.proxy,
                transport=watch.transport,
                tunnel=watch.tunnel,
                sni=hello.sni,
                alpn=hello.alpn,
                ja4=ja4(hello, "t" if watch.transport == "tcp" else "q"),
                ech=hello.ech,
                quic_version=None if ids is None else ids.version,
                dcid=None if ids is None else ids.dcid,
                scid=None if ids is None else ids.scid,
            )
        )

    def done(self) -> None:
        """The proxy ends, and with it what is open."""
        for told in self.before_end:
            told()
        for watch in self._open.values():
            self._ended(watch)
        self._open.clear()
        self._reporter.close()
