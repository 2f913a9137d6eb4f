"""Requests and responses that the proxy sees: plain ones, and those of intercepted TLS."""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from mitmproxy import ctx
from mitmproxy.proxy.mode_specs import ReverseMode, TransparentMode

from h3probe.events import AltSvcSeen, Exchange, PlainRequest, UpstreamTrouble
from h3probe.vantage.mitm import altsvc
from h3probe.vantage.mitm.direct_look import DirectLook, is_telling
from h3probe.vantage.mitm.transparent import host_of
from h3probe.vantage.mitm.tunnels import ASKED
from h3probe.vantage.mitm.words import host_and_port, is_distrust, plain_error, schemes, version
from h3probe.wire.urls import path_of

if TYPE_CHECKING:
    from mitmproxy import http, tcp

    from h3probe.vantage.mitm.connections import Connections
    from h3probe.vantage.mitm.settings import Settings
    from h3probe.vantage.mitm.watch import ConnectionWatch

_NS: Final = 1_000_000_000
_OFFERED: Final = "h3probe_alt_svc"
"""In a flow's metadata: when Alt-Svc came, and its lines."""


class Exchanges:
    """An add-on that reports them, rewrites Alt-Svc in reverse mode, and keeps nothing.

    Args:
        connections: Knows the connections.
        settings: What surrounds the proxy; None for an add-on to somebody else's mitmdump, which changes nothing.
    """

    def __init__(self, connections: Connections, settings: Settings | None) -> None:
        self._connections = connections
        self._changes = settings is not None
        self._upstream = None if settings is None else settings.upstream
        self._standing = {
            (each.target_host.lower(), each.target_port): each.port for each in (settings.standing if settings else ())
        }
        self._look_directly = settings is not None and settings.look_directly
        self._direct: DirectLook | None = None

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A request begins."""
        watch, request = self._connections.of(flow.client_conn), flow.request
        if watch is None or ASKED in flow.metadata:
            return
        watch.head_is_complete()
        if request.scheme == "http" and watch.tunnel is None and not flow.client_conn.tls_established:
            self._connections.emit(
                PlainRequest(
                    time_ns=time.time_ns(),
                    connection=watch.id,
                    client=watch.client,
                    proxy=watch.proxy,
                    method=request.method,
                    url=_url(flow),
                )
            )
        if self._changes:
            self._authorize(flow, watch)
            request.stream = True

    def _authorize(self, flow: http.HTTPFlow, watch: ConnectionWatch) -> None:
        """Credentials for a proxy go to the proxy that they are for, and no further (RFC 9110, 11.7.2)."""
        if watch.tunnel is not None or isinstance(flow.client_conn.proxy_mode, ReverseMode | TransparentMode):
            return
        if self._upstream is None:
            flow.request.headers.pop("Proxy-Authorization", None)
        elif flow.request.scheme == "http" and self._upstream.authorization is not None:
            flow.request.headers.setdefault("Proxy-Authorization", self._upstream.authorization)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """A response begins."""
        watch, response = self._connections.of(flow.client_conn), flow.response
        if watch is None or response is None:
            return
        if self._changes and ASKED not in flow.metadata:
            response.stream = True
        lines = response.headers.get_all("alt-svc")
        if lines:
            self._rewrite(flow, response, lines)
            flow.metadata[_OFFERED] = (time.time_ns(), lines)
        if lines and self._changes:
            self._offered(flow, watch)
        if not lines and self._look_directly and flow.client_conn.tls_established:
            self._look(flow, watch)
        if response.status_code == 407 and self._upstream is not None and ASKED not in flow.metadata:
            self._refused(flow, watch, response)

    def _look(self, flow: http.HTTPFlow, watch: ConnectionWatch) -> None:
        if flow.response is None or not is_telling(flow.request.method, flow.response.status_code):
            return
        if self._direct is None:
            roots, insecure = ctx.options.ssl_verify_upstream_trusted_ca, ctx.options.ssl_insecure
            self._direct = DirectLook(self._connections.emit, roots, insecure=insecure)
        path = flow.request.path.partition("?")[0]
        self._direct.look(watch, (flow.request.host, flow.request.port), path, _origin(flow))

    def _offered(self, flow: http.HTTPFlow, watch: ConnectionWatch) -> None:
        """Report the Alt-Svc of a response once: what came, and what goes on by now."""
        time_ns, lines = flow.metadata.pop(_OFFERED, (0, []))
        if lines and flow.response is not None:
            self._connections.emit(
                AltSvcSeen(
                    time_ns=time_ns,
                    connection=watch.id,
                    client=watch.client,
                    origin=_origin(flow),
                    lines=tuple(lines),
                    passed_on=tuple(flow.response.headers.get_all("alt-svc")),
                )
            )

    def _rewrite(self, flow: http.HTTPFlow, response: http.Response, lines: list[str]) -> None:
        if not self._standing or not isinstance(flow.client_conn.proxy_mode, ReverseMode):
            return
        rewritten = altsvc.rewrite(lines, flow.request.host, self._standing)
        if rewritten != lines:
            response.headers.set_all("alt-svc", rewritten)

    def _refused(self, flow: http.HTTPFlow, watch: ConnectionWatch, response: http.Response) -> None:
        self._connections.emit(
            UpstreamTrouble(
                time_ns=time.time_ns(),
                connection=watch.id,
                tunnel=None,
                upstream=self._upstream.name if self._upstream is not None else "",
                kind="refused",
                seconds=max(response.timestamp_start - flow.request.timestamp_start, 0.0),
                text=f"407 {response.reason}".strip(),
                status=407,
                challenges=schemes(response.headers.get_all("proxy-authenticate")),
            )
        )

    def response(self, flow: http.HTTPFlow) -> None:
        """A response is over."""
        self._exchange(flow, None)

    def error(self, flow: http.HTTPFlow) -> None:
        """There will be no response, or no whole one."""
        self._exchange(flow, plain_error(flow.error.msg) if flow.error is not None else "failed")

    def _exchange(self, flow: http.HTTPFlow, error: str | None) -> None:
        watch = self._connections.of(flow.client_conn)
        if watch is None:
            return
        request, response = flow.request, flow.response
        # Beside somebody else's add-ons, which may change it after this one saw it come.
        self._offered(flow, watch)
        if ASKED not in flow.metadata and request.method != "CONNECT":
            self._connections.emit(
                Exchange(
                    time_ns=_ns(request.timestamp_start),
                    connection=watch.id,
                    client=watch.client,
                    proxy=watch.proxy,
                    origin=_origin(flow),
                    method=request.method,
                    url=_url(flow),
                    status=None if response is None else response.status_code,
                    version=version(request.http_version),
                    server_version=None if response is None else version(response.http_version),
                    answered_ns=None if response is None else _ns(response.timestamp_start),
                    ended_ns=time.time_ns(),
                    error=error,
                    intercepted=flow.client_conn.tls_established,
                    distrusted=response is None and error is not None and is_distrust(error),
                )
            )
        watch.expect_head()

    # What mitmproxy would keep in memory

    def tcp_message(self, flow: tcp.TCPFlow) -> None:
        """Forget what is passed on right after this."""
        if self._changes:
            flow.messages.clear()

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        """Forget all messages but the one that is passed on right after this."""
        if self._changes and flow.websocket is not None:
            del flow.websocket.messages[:-1]


def _origin(flow: http.HTTPFlow) -> str:
    request, host = flow.request, flow.request.host
    if isinstance(flow.client_conn.proxy_mode, TransparentMode):
        # All that mitmproxy knows there is the address.
        host = host_of(request) or flow.client_conn.sni or host
    return f"{request.scheme}://{host_and_port(host, request.port)}"


def _url(flow: http.HTTPFlow) -> str:
    return _origin(flow) + path_of(flow.request.path)


def _ns(seconds: float) -> int:
    return round(seconds * _NS)
