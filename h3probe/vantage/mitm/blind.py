"""The layers of what passes through untouched: mitmproxy's own, until the connection's watch can do without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mitmproxy.proxy import events, layers
from mitmproxy.proxy.layer import Layer

from h3probe.vantage.mitm.upstream import UpstreamTunnel

if TYPE_CHECKING:
    from mitmproxy.connection import Connection
    from mitmproxy.proxy.context import Context
    from mitmproxy.proxy.layer import CommandGenerator

    from h3probe.vantage.mitm.watch import ConnectionWatch


class _Blind(Layer):
    """Passes on what comes. It stands before mitmproxy's own layer for a transport, which has what `Layer` lacks.

    Args:
        context: Of the connection.
        watch: Of the connection, which takes over.
    """

    def __init__(self, context: Context, watch: ConnectionWatch) -> None:
        super().__init__(context, ignore=True)  # type: ignore[call-arg] # see above
        self._watch = watch

    def relay_messages(self, event: events.Event) -> CommandGenerator[None]:
        """Pass on what has waited so far, and let the watch do the rest."""
        yield from super().relay_messages(event)  # type: ignore[misc] # see above
        server = _carrier(self.context)
        if isinstance(event, events.DataReceived) and can_relay(self.context.client, server):
            self._watch.relay_to(server)


class BlindTcp(_Blind, layers.TCPLayer):
    """Passes a stream on."""


class BlindUdp(_Blind, layers.UDPLayer):
    """Passes datagrams on."""


def blind_layer(context: Context, watch: ConnectionWatch) -> Layer:
    """The layer for a connection that passes through untouched."""
    return (BlindTcp if watch.transport == "tcp" else BlindUdp)(context, watch)


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
