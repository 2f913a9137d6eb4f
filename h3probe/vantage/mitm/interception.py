"""Whose TLS is terminated: the hooks that ask the policy, and tell it who refused."""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mitmproxy.proxy import layers
from mitmproxy.proxy.layers import modes
from mitmproxy.proxy.layers.http import HTTPMode, HttpStream
from mitmproxy.proxy.layers.quic import ClientQuicLayer

from h3probe.errors import DecodeError
from h3probe.events import CaRejected
from h3probe.vantage.mitm.blind import blind_layer
from h3probe.vantage.mitm.policy import refusal_over_quic, refusal_over_tls
from h3probe.vantage.mitm.transparent import Undecided, beginning, host_asked, http_layer, tls_layer
from h3probe.vantage.mitm.upstream import Opener, UpstreamHttpLayer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mitmproxy import http, tls
    from mitmproxy.connection import Connection
    from mitmproxy.proxy import layer
    from mitmproxy.proxy.context import Context

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
        aliases: As of `Settings`.
    """

    _lets_alone = True

    def __init__(self, connections: Connections, policy: Policy, aliases: Mapping[str, str]) -> None:
        self._connections = connections
        self._policy = policy
        self._aliases = aliases
        self._shown: dict[str, _Shown] = {}
        self._undecided: dict[str, tuple[ConnectionWatch, list[str], float]] = {}
        connections.before_end.append(self._decide)

    def next_layer(self, data: layer.NextLayer) -> None:
        """Choose the layer where mitmproxy's own choice is not the right one."""
        context, watch = data.context, self._connections.of(data.context.client)
        if data.layer is not None or watch is None:
            return
        top, host = context.layers[0], context.server.address[0] if context.server.address is not None else None
        if isinstance(top, modes.TransparentProxy):
            data.layer = self._transparent(data, context, watch)
            return
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

    def _transparent(self, data: layer.NextLayer, context: Context, watch: ConnectionWatch) -> layer.Layer | None:
        """In place of mitmproxy's own choice, which knows no server by its name, and takes anything for HTTP."""
        if len(context.layers) == 1:
            return Undecided(context, lambda start, is_all: self._decided(context, watch, start, is_all=is_all))
        # Inside of TLS. A request to a proxy that is reached over TLS makes sense to that proxy alone.
        return layers.TCPLayer(context, ignore=True) if data.data_client().startswith(b"CONNECT ") else None

    def _decided(self, context: Context, watch: ConnectionWatch, start: bytes, *, is_all: bool) -> layer.Layer | None:
        """The layer for a connection that begins with `start`; None when more of it must come, and may."""
        address = context.server.address[0] if context.server.address is not None else ""
        meant = self._aliases.get(address, address)
        kind = beginning(start) if self._policy.intercepts else "other"
        if kind == "tls":
            if watch.hello is None and watch.sniffer is not None and not is_all:
                return None
            if watch.hello is not None and self._policy.wants("tcp", meant, watch.hello.sni):
                context.server.sni = watch.hello.sni or meant  # whose certificate the server's has to be
                return tls_layer(context)
        elif kind == "http":
            try:
                host = host_asked(start)
            except DecodeError:
                return blind_layer(context, watch)
            if host is None and not is_all:
                return None
            if host is not None and self._policy.wants("tcp", meant, host or None):
                return http_layer(context)
        return blind_layer(context, watch)

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
        if isinstance(data.context.layers[0], modes.TransparentProxy):
            return  # it was decided before
        # Without one it is TLS to the proxy itself, which only the proxy can end.
        if address is not None and not self._policy.wants("tcp", address[0], data.client_hello.sni):
            data.ignore_connection = True

    def tls_established_client(self, data: tls.TlsData) -> None:
        """A client has finished the handshake, which is not to say that it believes the certificate it was shown."""
        self._shown[data.conn.id] = _Shown(_hosts(data), time.monotonic())
        watch = self._connections.of(data.conn)
        if watch is not None and data.context.server.address is not None:  # without one it is TLS to the proxy itself
            watch.terminated = True

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
        where there is a race with QUIC, only once that has had time to show that the client does believe it, or that
        it got what it wanted past this proxy: a second before the connection began, at most.
        """
        if watch.tunnel is not None:
            self._refused_unless_accepted(watch, hosts, time.monotonic())
        else:
            began = time.monotonic() - max(time.time_ns() - watch.began_ns, 0) / 1e9 - RACE_S
            self._undecided[watch.id] = (watch, hosts, began)
            asyncio.get_running_loop().call_later(RACE_S, self._decide, watch.id)

    def _decide(self, connection: str | None = None) -> None:
        """Decide on one that left, or on all: the proxy ends, and there will be nothing more to know."""
        for each in [connection] if connection is not None else list(self._undecided):
            undecided = self._undecided.pop(each, None)
            if undecided is not None:
                self._refused_unless_accepted(*undecided)

    def _refused_unless_accepted(self, watch: ConnectionWatch, hosts: list[str], began: float) -> None:
        address = watch.proxy.address
        raced = any(self._policy.was_raced(name, began) for name in (hosts[0], self._aliases.get(address, address)))
        if not self._policy.is_accepted(*hosts) and not raced:
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
    """The names under which the server that a client wants is known: by its ClientHello, by its CONNECT.

    A transparent proxy knows its address besides, which may be many servers'.
    """
    address = data.context.server.address
    if data.conn.sni is not None and isinstance(data.context.layers[0], modes.TransparentProxy):
        return [data.conn.sni]
    return [name for name in (data.conn.sni, None if address is None else address[0]) if name is not None]


def _close_code(data: tls.TlsData) -> int | None:
    """The code of the CONNECTION_CLOSE that ended a handshake; mitmproxy hands on its reason alone."""
    for each in reversed(data.context.layers):
        if isinstance(each, ClientQuicLayer) and each.quic is not None:
            code = getattr(getattr(each.quic, "_close_event", None), "error_code", None)
            return code if isinstance(code, int) else None
    return None
