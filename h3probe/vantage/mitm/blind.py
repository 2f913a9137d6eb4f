"""The layers of what passes through untouched: mitmproxy's own, until the connection's watch can do without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mitmproxy.proxy import events, layers

from h3probe.vantage.mitm.upstream import UpstreamTunnel

if TYPE_CHECKING:
    from mitmproxy.connection import Connection
    from mitmproxy.proxy.context import Context
    from mitmproxy.proxy.layer import CommandGenerator, Layer

    from h3probe.vantage.mitm.watch import ConnectionWatch


class BlindTcp(layers.TCPLayer):
    """Passes a stream on.

    Args:
        context: Of the connection.
        watch: Of the connection, which takes over.
    """

    def __init__(self, context: Context, watch: ConnectionWatch) -> None:
        super().__init__(context, ignore=True)
        self._watch = watch

    def relay_messages(self, event: events.Event) -> CommandGenerator[None]:
        """Pass on what has waited so far, and let the watch do the rest."""
        yield from super().relay_messages(event)
        _hand_over(self.context, self._watch, event)


class BlindUdp(layers.UDPLayer):
    """Passes datagrams on.

    Args:
        context: Of the connection.
        watch: Of the connection, which takes over.
    """

    def __init__(self, context: Context, watch: ConnectionWatch) -> None:
        super().__init__(context, ignore=True)
        self._watch = watch

    def relay_messages(self, event: events.Event) -> CommandGenerator[None]:
        """Pass on what has waited so far, and let the watch do the rest."""
        yield from super().relay_messages(event)
        _hand_over(self.context, self._watch, event)


def blind_layer(context: Context, watch: ConnectionWatch) -> Layer:
    """The layer for a connection that passes through untouched."""
    return (BlindTcp if watch.transport == "tcp" else BlindUdp)(context, watch)


def _hand_over(context: Context, watch: ConnectionWatch, event: events.Event) -> None:
    server = _carrier(context)
    if isinstance(event, events.DataReceived) and can_relay(context.client, server):
        watch.relay_to(server)


def can_relay(client: Connection, server: Connection) -> bool:
    """Whether bytes can go from one connection to the other as they are.

    With TLS on one of the proxy's own, to a client or to the upstream proxy, somebody has to encrypt.
    """
    return not client.tls and not server.tls and server.connected


def _carrier(context: Context) -> Connection:
    """The connection that really carries what goes to the server: its own, or the one to the upstream proxy."""
    for each in context.layers:
        if isinstance(each, UpstreamTunnel):
            return each.tunnel_connection
    return context.server
