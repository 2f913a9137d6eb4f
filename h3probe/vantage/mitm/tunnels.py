"""Tunnels that clients ask for, and what the proxy or the one behind it answers."""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

from mitmproxy.proxy.mode_specs import ReverseMode, TransparentMode

from h3probe.events import TunnelAnswered, TunnelAsked, UpstreamTrouble
from h3probe.vantage.mitm.blind import can_relay
from h3probe.vantage.mitm.upstream import METADATA, Answer, bad_gateway
from h3probe.vantage.mitm.words import host_and_port, plain_error, proxy_error, schemes
from h3probe.wire.http1 import RequestHead, connect_udp_target

if TYPE_CHECKING:
    from mitmproxy import http
    from mitmproxy.connection import Connection

    from h3probe.vantage.mitm.connections import Connections
    from h3probe.vantage.mitm.policy import Policy
    from h3probe.vantage.mitm.settings import Settings
    from h3probe.vantage.mitm.watch import ConnectionWatch

SLOW_S: Final = 5.0
"""After how long without an answer the upstream proxy is called slow, once a tunnel."""
ASKED: Final = "h3probe_tunnel"
"""The key under which an `Asked` hangs on a flow."""
DECLINED: Final = "connect-udp (RFC 9298) is not spoken here; CONNECT is"

Method = Literal["CONNECT", "connect-udp"]
Kind = Literal["refused", "unreachable", "silent", "garbage", "slow"]


@dataclass(slots=True)
class Asked:
    """A tunnel that a flow asks for.

    Attributes:
        id: The tunnel's.
        method: How.
        began: When, by `time.monotonic`.
        answered: Whether that was reported already.
        slow: Goes off when the upstream proxy takes its time.
    """

    id: str
    method: Method
    began: float
    answered: bool = False
    slow: asyncio.TimerHandle | None = None


class Tunnels:
    """An add-on for CONNECT (RFC 9110, 9.3.6) and connect-udp (RFC 9298).

    Args:
        connections: Knows the connections.
        settings: What is behind the proxy; None for an add-on to somebody else's mitmdump, which changes nothing.
        policy: Knows whose TLS passes through untouched; None likewise.
    """

    def __init__(self, connections: Connections, settings: Settings | None, policy: Policy | None) -> None:
        self._connections = connections
        self._policy = policy
        self._changes = settings is not None
        self._upstream = None if settings is None else settings.upstream
        self._numbers = count(1)

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """A client asks for a tunnel."""
        self._ask(flow, flow.request.host, flow.request.port, "CONNECT")
        if self._upstream is not None and self._upstream.authorization is not None:
            flow.request.headers.setdefault("Proxy-Authorization", self._upstream.authorization)

    def http_connected(self, flow: http.HTTPFlow) -> None:
        """The tunnel is there."""
        self._answered(flow, 200, None)

    def http_connect_error(self, flow: http.HTTPFlow) -> None:
        """There is no tunnel."""
        if flow.response is None:
            return
        answer = flow.metadata.get(METADATA)
        if isinstance(answer, Answer):
            error = answer.error = plain_error(answer.error or "no answer")
            if answer.kind == "unreachable" and self._upstream is not None:
                flow.response = bad_gateway(f"cannot reach {self._upstream.name}: {error}", proxy_error(error))
        elif flow.server_conn.error:
            error = plain_error(flow.server_conn.error)
            if self._changes:
                target = host_and_port(flow.request.host, flow.request.port)
                flow.response = bad_gateway(f"cannot connect to {target}: {error}", proxy_error(error))
        else:
            error = f"{flow.response.status_code} {flow.response.reason}".strip()
        self._answered(flow, flow.response.status_code, error)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A request begins, perhaps one to proxy UDP: pass that on to the upstream proxy, or decline it."""
        if isinstance(flow.client_conn.proxy_mode, ReverseMode | TransparentMode):
            return
        target = _connect_udp(flow.request)
        watch = self._connections.of(flow.client_conn)
        if target is None or watch is None or watch.tunnel is not None:
            return
        self._ask(flow, *target, "connect-udp")
        if not self._changes:
            return
        if self._upstream is None:
            flow.response = bad_gateway(DECLINED, "http_request_error", 501)
            self._answered(flow, 501, DECLINED)
            return
        flow.metadata[METADATA] = Answer(time.monotonic())
        flow.server_conn.via = None  # it is asked as the server of this resource, not as a proxy
        flow.request.scheme = self._upstream.scheme
        flow.request.host, flow.request.port = self._upstream.host, self._upstream.port
        flow.request.authority = ""
        flow.request.headers["Host"] = self._upstream.name
        if self._upstream.authorization is not None:
            flow.request.headers.setdefault("Proxy-Authorization", self._upstream.authorization)

    def response(self, flow: http.HTTPFlow) -> None:
        """The answer to a request to proxy UDP."""
        asked, answer = flow.metadata.get(ASKED), flow.metadata.get(METADATA)
        if not isinstance(asked, Asked) or asked.answered or flow.response is None:
            return
        status, error = flow.response.status_code, None
        if status != 101:
            error = f"{status} {flow.response.reason}".strip()
        if isinstance(answer, Answer):
            answer.status, answer.error, answer.kind = status, error, None if error is None else "refused"
        self._answered(flow, status, error)

    def error(self, flow: http.HTTPFlow) -> None:
        """No answer to a request to proxy UDP; or a client that did not wait for one to its CONNECT."""
        asked, answer = flow.metadata.get(ASKED), flow.metadata.get(METADATA)
        if not isinstance(asked, Asked) or asked.answered:
            return
        if asked.method == "CONNECT":
            self._stop_waiting(asked)
            return
        error = plain_error(flow.error.msg if flow.error is not None else "no answer")
        if isinstance(answer, Answer):
            answer.kind = "unreachable" if flow.server_conn.timestamp_tcp_setup is None else "silent"
            answer.error = error
        self._answered(flow, 502, error)

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        """A tunnel of mitmproxy's own, for a request of an intercepted connection that has lost its first."""
        if self._upstream is not None and self._upstream.authorization is not None:
            flow.request.headers.setdefault("Proxy-Authorization", self._upstream.authorization)

    def _ask(self, flow: http.HTTPFlow, host: str, port: int, method: Method) -> None:
        watch = self._connections.of(flow.client_conn)
        if watch is None:
            return
        watch.head_is_complete()
        asked = flow.metadata[ASKED] = Asked(f"t{next(self._numbers)}", method, time.monotonic())
        if self._upstream is not None:
            asked.slow = asyncio.get_running_loop().call_later(SLOW_S, self._slow, watch, asked)
        self._connections.emit(
            TunnelAsked(
                time_ns=time.time_ns(),
                id=asked.id,
                connection=watch.id,
                client=watch.client,
                proxy=watch.proxy,
                host=host.strip("[]"),
                port=port,
                method=method,
            )
        )

    def _slow(self, watch: ConnectionWatch, asked: Asked) -> None:
        if watch.closed_by is None:
            self._trouble(watch, asked, "slow", "no answer from the upstream proxy so far")

    def _stop_waiting(self, asked: Asked) -> None:
        if asked.slow is not None:
            asked.slow.cancel()

    def _answered(self, flow: http.HTTPFlow, status: int, error: str | None) -> None:
        asked, watch = flow.metadata.get(ASKED), self._connections.of(flow.client_conn)
        if not isinstance(asked, Asked) or asked.answered or watch is None:
            return
        asked.answered = True
        self._stop_waiting(asked)
        if error is not None and watch.closed_by == "client":
            return  # whatever this is, nobody gets it
        answer = flow.metadata.get(METADATA)
        challenges: tuple[str, ...] = ()
        if flow.response is not None and flow.response.status_code == 407:
            challenges = schemes(flow.response.headers.get_all("proxy-authenticate"))
        self._connections.emit(
            TunnelAnswered(
                time_ns=time.time_ns(),
                id=asked.id,
                status=status,
                seconds=time.monotonic() - asked.began,
                by="upstream" if isinstance(answer, Answer) and answer.status is not None else "proxy",
                error=error,
                challenges=challenges,
            )
        )
        if isinstance(answer, Answer) and answer.kind is not None:
            self._trouble(watch, asked, answer.kind, error or "", status=answer.status, challenges=challenges)
        if error is None:
            watch.open_tunnel(asked.id, self._blind_server(flow, answer))
        else:
            watch.expect_head()

    def _blind_server(self, flow: http.HTTPFlow, answer: object) -> Connection | None:
        """What a tunnel leads to that nothing in it has to be looked at for; None when something has."""
        if self._policy is None or flow.request.method != "CONNECT" or self._policy.may("tcp", flow.request.host):
            return None
        server = answer.connection if isinstance(answer, Answer) else flow.server_conn
        return server if server is not None and can_relay(flow.client_conn, server) else None

    def _trouble(  # noqa: PLR0913 - an event's fields
        self,
        watch: ConnectionWatch,
        asked: Asked,
        kind: Kind,
        text: str,
        *,
        status: int | None = None,
        challenges: tuple[str, ...] = (),
    ) -> None:
        self._connections.emit(
            UpstreamTrouble(
                time_ns=time.time_ns(),
                connection=watch.id,
                tunnel=asked.id,
                upstream=self._upstream.name if self._upstream is not None else "",
                kind=kind,
                seconds=time.monotonic() - asked.began,
                text=text,
                status=status,
                challenges=challenges,
            )
        )


def _connect_udp(request: http.Request) -> tuple[str, int] | None:
    """The target of a request to proxy UDP."""
    if request.method != "GET" or "upgrade" not in request.headers:
        return None
    headers = tuple((name.lower(), value) for name, value in request.headers.items(multi=True))
    return connect_udp_target(RequestHead("GET", request.path, request.http_version, headers, 0))
