"""Whose TLS is terminated: the hooks that ask the policy, and tell it who refused."""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mitmproxy.proxy.layers import modes
from mitmproxy.proxy.layers.http import HTTPMode, HttpStream
from mitmproxy.proxy.layers.quic import ClientQuicLayer

from h3probe.events import CaRejected
from h3probe.vantage.mitm.blind import blind_layer
from h3probe.vantage.mitm.policy import refusal_over_quic, refusal_over_tls
from h3probe.vantage.mitm.upstream import Opener, UpstreamHttpLayer

if TYPE_CHECKING:
    from mitmproxy import http, tls
    from mitmproxy.connection import Connection
    from mitmproxy.proxy import layer

    from h3probe.vantage.mitm.connections import Connections
    from h3probe.vantage.mitm.policy import Policy
    from h3probe.vantage.mitm.watch import ConnectionWatch

SOON_S: Final = 2.0
"""How long after a handshake a client that leaves because of the certificate has left."""
RACE_S: Final = 1.0
"""How long it is waited for another connection of the client to carry a request."""
# What mitmproxy says when a client closes in the middle of a handshake.
_CLOSED: Final = "The client disconnected during the handshake."


@dataclass(frozen=True, slots=True)
class _Shown:
    """The names in a certificate that a client was shown, and when, by `time.monotonic`."""

    hosts: list[str]
    at: float


class Interception:
    """An add-on that lets TLS pass through untouched, but where it is to be terminated.

    Args:
        connections: Knows the connections.
        policy: Decides.
    """

    _lets_alone = True

    def __init__(self, connections: Connections, policy: Policy) -> None:
        self._connections = connections
        self._policy = policy
        self._shown: dict[str, _Shown] = {}

    def next_layer(self, data: layer.NextLayer) -> None:
        """Choose the layer where mitmproxy's own choice is not the right one."""
        context, watch = data.context, self._connections.of(data.context.client)
        if data.layer is not None or watch is None:
            return
        top, host = context.layers[0], context.server.address[0] if context.server.address is not None else None
        if isinstance(context.layers[-1], HttpStream | Opener):  # inside of a tunnel
            if host is not None and not self._policy.may("tcp", host):
                data.layer = blind_layer(context, watch)
        elif len(context.layers) > 1:
            return
        elif isinstance(top, modes.ReverseProxy):
            if host is not None and not self._may_reverse(host, watch):
                data.layer = blind_layer(context, watch)
        elif isinstance(top, modes.HttpUpstreamProxy) and data.data_client()[:2] != b"\x16\x03":
            data.layer = UpstreamHttpLayer(context, HTTPMode.upstream)

    def _may_reverse(self, host: str, watch: ConnectionWatch) -> bool:
        """For UDP it is decided here for good, since `ignore_connection` crashes there (mitmproxy 12.3.1)."""
        if watch.transport == "tcp":
            return self._policy.may("tcp", host)
        return self._policy.wants("udp", host, watch.hello.sni if watch.hello is not None else None)

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """Let a connection alone that its ClientHello says is not to be terminated."""
        if data.context.client.transport_protocol != "tcp":
            return
        address = data.context.server.address
        # Without one it is TLS to the proxy itself, which only the proxy can end.
        if address is not None and not self._policy.wants("tcp", address[0], data.client_hello.sni):
            data.ignore_connection = True

    def tls_established_client(self, data: tls.TlsData) -> None:
        """A client has finished the handshake, which is not to say that it believes the certificate it was shown."""
        self._shown[data.conn.id] = _Shown(_hosts(data), time.monotonic())

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A client sends a request: it does believe the certificate."""
        shown = self._shown.pop(flow.client_conn.id, None)
        if shown is not None:
            self._policy.accept(*shown.hosts)

    def tls_failed_client(self, data: tls.TlsData) -> None:
        """Notice a client that does not trust the certificate it was shown."""
        watch, hosts = self._connections.of(data.conn), _hosts(data)
        if watch is None or not hosts:
            return
        is_quic = watch.transport == "udp"
        alert = refusal_over_quic(_close_code(data)) if is_quic else refusal_over_tls(data.conn.error)
        if alert is not None:
            self._refused(watch, hosts, alert)
        elif not is_quic and (data.conn.error or "").startswith(_CLOSED) and watch.received:
            self._left(watch, hosts)

    def client_disconnected(self, client: Connection) -> None:
        """Notice a client that finished the handshake, then looked at the certificate, and left."""
        shown, watch = self._shown.pop(client.id, None), self._connections.of(client)
        if shown is None or watch is None or watch.transport != "tcp" or watch.closed_by != "client":
            return
        if shown.hosts and time.monotonic() - shown.at < SOON_S:
            self._left(watch, shown.hosts)

    def _left(self, watch: ConnectionWatch, hosts: list[str]) -> None:
        """A client left without a word once it had the certificate.

        Some do so because of it: Python's asyncio and the JDK before the handshake is over, curl right after it. So
        does one that has changed its mind; therefore only a host of which no certificate was ever believed counts, and
        where there is a race with QUIC, only once that has had time to show that the client does believe it.
        """
        if watch.tunnel is not None:
            self._refused_unless_accepted(watch, hosts)
        else:
            asyncio.get_running_loop().call_later(RACE_S, self._refused_unless_accepted, watch, hosts)

    def _refused_unless_accepted(self, watch: ConnectionWatch, hosts: list[str]) -> None:
        if not self._policy.is_accepted(*hosts):
            self._refused(watch, hosts, None)

    def _refused(self, watch: ConnectionWatch, hosts: list[str], alert: str | None) -> None:
        self._policy.refuse(watch.transport, *hosts)
        self._connections.emit(
            CaRejected(
                time_ns=time.time_ns(),
                connection=watch.id,
                client=watch.client,
                host=hosts[0],
                transport=watch.transport,
                alert=alert,
                let_alone=self._lets_alone,
            )
        )


class Onlooker(Interception):
    """The same beside somebody else's mitmdump: notices who refuses a certificate, and decides nothing.

    Args:
        connections: Knows the connections.
        policy: Remembers whose certificate was believed.
    """

    _lets_alone = False

    def next_layer(self, data: layer.NextLayer) -> None:
        """Leave it to mitmproxy."""

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """Leave it to mitmproxy."""


def _hosts(data: tls.TlsData) -> list[str]:
    """The names under which the server that a client wants is known: by its ClientHello, by its CONNECT."""
    address = data.context.server.address
    return [name for name in (data.conn.sni, None if address is None else address[0]) if name is not None]


def _close_code(data: tls.TlsData) -> int | None:
    """The code of the CONNECTION_CLOSE that ended a handshake; mitmproxy hands on its reason alone."""
    for each in reversed(data.context.layers):
        if isinstance(each, ClientQuicLayer) and each.quic is not None:
            code = getattr(getattr(each.quic, "_close_event", None), "error_code", None)
            return code if isinstance(code, int) else None
    return None
