"""What the proxy reports.

A `connection` is one that a client made to the proxy (for UDP: one 4-tuple), named by an id
that is unique in one run of it; `client` and `proxy` are its two ends as they appear on the wire. The clients of a
transparent proxy know nothing of it, and neither do their packets: `proxy` is then the server that was connected to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from h3probe.events.wire import Endpoint  # noqa: TC001 - whoever reads events from lines looks at the annotations

Transport = Literal["tcp", "udp"]
ProxyMode = Literal["regular", "upstream", "reverse", "transparent"]


@dataclass(frozen=True, slots=True)
class ProxyReady:
    """The proxy accepts connections: its sockets listen.

    Attributes:
        time_ns: When they did.
        mode: What it is to its clients.
        listening: Where; in mode `reverse` each for TCP and for UDP.
        intercepts: Whether it terminates TLS, for some hosts at least.
        mitmproxy: The version of mitmproxy.
        h3probe: The version of h3probe's add-on.
    """

    time_ns: int
    mode: ProxyMode
    listening: tuple[Endpoint, ...]
    intercepts: bool
    mitmproxy: str
    h3probe: str


@dataclass(frozen=True, slots=True)
class TunnelAsked:
    """A client asked the proxy for a tunnel (RFC 9110, 9.3.6; RFC 9298).

    Attributes:
        time_ns: When the request's head was complete.
        id: The tunnel's, unique in one run of the proxy.
        connection: On which it was asked for.
        client: The client's end of that connection.
        proxy: The proxy's end.
        host: The target as asked for, an IPv6 address without brackets.
        port: The target's port.
        method: How it was asked for.
    """

    time_ns: int
    id: str
    connection: str
    client: Endpoint
    proxy: Endpoint
    host: str
    port: int
    method: Literal["CONNECT", "connect-udp"]


@dataclass(frozen=True, slots=True)
class TunnelAnswered:
    """The proxy answered a request for a tunnel.

    Attributes:
        time_ns: When.
        id: The tunnel's.
        status: What the client got.
        seconds: Since it was asked for.
        by: Who decided: `proxy` is h3probe's own, `upstream` the one behind it.
        error: Why there is no tunnel, in plain words; None where there is one.
        challenges: The authentication schemes that a 407 names (`Basic`, `Negotiate`).
    """

    time_ns: int
    id: str
    status: int
    seconds: float
    by: Literal["proxy", "upstream"]
    error: str | None = None
    challenges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OnwardConnection:
    """The proxy's own connection, to a target or to the proxy behind it, or the failure to make one.

    On the wire it is nobody's but the proxy's: it says nothing of the client.

    Attributes:
        time_ns: When it was there, or failed.
        connection: The client's connection that it serves.
        transport: TCP or UDP.
        target: `host:port`, as the proxy was told.
        local: The proxy's end; None when it failed.
        remote: The other end; None when it failed.
        seconds: What TCP's handshake took; None for UDP, which has none, and where it failed.
        error: Why it failed.
        client: The client's end of the connection that it serves.
        proxy: The proxy's end of that.
    """

    time_ns: int
    connection: str
    transport: Transport
    target: str
    local: Endpoint | None = None
    remote: Endpoint | None = None
    seconds: float | None = None
    error: str | None = None
    client: Endpoint | None = None
    proxy: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class ClientHelloSeen:
    """A client's ClientHello, read as it went by: in a tunnel, or on a connection to a reverse proxy.

    Attributes:
        time_ns: When its last byte came.
        connection: On which.
        client: The client's end.
        proxy: The proxy's end.
        transport: `tcp` for TLS, `udp` for QUIC.
        tunnel: In which tunnel, None on a connection to a reverse proxy.
        sni: The name asked for.
        alpn: The protocols offered.
        ja4: The client's fingerprint.
        ech: Whether it is the outer hello of Encrypted Client Hello, or imitates one.
        quic_version: The version's number, for QUIC.
        dcid: The client's first destination connection ID, for QUIC.
        scid: Its source connection ID, for QUIC.
    """

    time_ns: int
    connection: str
    client: Endpoint
    proxy: Endpoint
    transport: Transport
    tunnel: str | None
    sni: str | None
    alpn: tuple[str, ...]
    ja4: str
    ech: bool = False
    quic_version: int | None = None
    dcid: bytes | None = None
    scid: bytes | None = None


@dataclass(frozen=True, slots=True)
class ConnectionEnded:
    """A client's connection to the proxy is over.

    Attributes:
        time_ns: When.
        connection: Which.
        client: The client's end.
        proxy: The proxy's end.
        transport: TCP or UDP.
        tunnel: The tunnel that was open on it, None where none was.
        sent: Bytes from the client: of the tunnel where there is one, else of the connection.
        received: Bytes to the client, likewise.
        seconds: Since the connection was accepted.
        closed_by: Who ended it first; `idle` for UDP, which just stops.
        after_hello: Bytes from the client behind its ClientHello; None where there was none.
        terminated: Whether TLS to the server it was for was terminated, so that every exchange on it is reported.
    """

    time_ns: int
    connection: str
    client: Endpoint
    proxy: Endpoint
    transport: Transport
    tunnel: str | None
    sent: int
    received: int
    seconds: float
    closed_by: Literal["client", "server", "proxy", "idle"]
    after_hello: int | None = None
    terminated: bool = False


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """A request in plain text for the proxy to forward (RFC 9112, 3.2.2); its `Exchange` follows.

    Attributes:
        time_ns: When its head was complete.
        connection: On which.
        client: The client's end.
        proxy: The proxy's end.
        method: As sent.
        url: Without user information; the values of its query left out.
    """

    time_ns: int
    connection: str
    client: Endpoint
    proxy: Endpoint
    method: str
    url: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response, as the proxy passed them on.

    Attributes:
        time_ns: When the request began.
        connection: On which.
        client: The client's end.
        proxy: The proxy's end.
        origin: `https://host:port`, of the server that answered.
        method: As sent.
        url: Without user information; the values of its query left out.
        status: None when there was no response.
        version: What the client spoke: `HTTP/1.1`, `HTTP/2`, `HTTP/3`.
        server_version: What the server spoke; None without a response.
        answered_ns: When the response's head came.
        ended_ns: When the response was over, or failed.
        error: Why there is no response, or no whole one.
        intercepted: Whether TLS was terminated to see it, which may change what a client does.
        distrusted: Whether there is no response because the proxy does not believe the server's certificate.
    """

    time_ns: int
    connection: str
    client: Endpoint
    proxy: Endpoint
    origin: str
    method: str
    url: str
    status: int | None
    version: str
    server_version: str | None
    answered_ns: int | None
    ended_ns: int
    error: str | None = None
    intercepted: bool = False
    distrusted: bool = False


@dataclass(frozen=True, slots=True)
class AltSvcSeen:
    """The Alt-Svc lines of a response (RFC 7838, 3).

    Attributes:
        time_ns: When the response's head came.
        connection: The client's connection.
        client: The client's end of it.
        origin: `https://host:port`.
        lines: As the server sent them, in order.
        passed_on: As the client got them; differs only where a reverse proxy put itself in.
        directly: Whether the proxy had asked the server itself, past the one behind it, from which there were none.
    """

    time_ns: int
    connection: str
    client: Endpoint
    origin: str
    lines: tuple[str, ...]
    passed_on: tuple[str, ...]
    directly: bool = False


@dataclass(frozen=True, slots=True)
class CaRejected:
    """A client refused the proxy's certificate.

    Attributes:
        time_ns: When.
        connection: Which one failed.
        client: The client's end.
        host: The host whose certificate was shown.
        transport: `tcp` for TLS, `udp` for QUIC.
        alert: The TLS alert's name (RFC 8446, 6.2); None when the client closed the connection without one, as soon as
            it had the certificate, and no client had accepted one of this host before.
        let_alone: Whether the host is passed through untouched from the next connection on.
    """

    time_ns: int
    connection: str
    client: Endpoint
    host: str
    transport: Transport
    alert: str | None
    let_alone: bool = True


@dataclass(frozen=True, slots=True)
class UpstreamTrouble:
    """The proxy behind this one did not do what it was asked for.

    Attributes:
        time_ns: When that was known.
        connection: The client's connection.
        tunnel: For which tunnel, None for a plain request.
        upstream: `host:port`.
        kind: `refused` (a status other than 2xx), `unreachable` (no connection, or no TLS), `silent` (closed without
            an answer), `garbage` (no HTTP), `slow` (no answer yet; one may follow).
        seconds: Since it was asked.
        text: In plain words.
        status: Its answer.
        challenges: The authentication schemes that a 407 names.
    """

    time_ns: int
    connection: str
    tunnel: str | None
    upstream: str
    kind: Literal["refused", "unreachable", "silent", "garbage", "slow"]
    seconds: float
    text: str
    status: int | None = None
    challenges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyLog:
    """A line of mitmproxy's own log.

    Attributes:
        time_ns: When.
        level: Its urgency.
        text: What it says; credentials left out.
    """

    time_ns: int
    level: Literal["debug", "info", "warning", "error"]
    text: str


@dataclass(frozen=True, slots=True)
class ProxyDied:
    """The proxy's process ended, and nobody had asked for it.

    Attributes:
        time_ns: When that was noticed.
        exit_status: As a shell has it: 128 + n for signal n.
        last_words: The last lines it printed.
    """

    time_ns: int
    exit_status: int
    last_words: tuple[str, ...] = ()


ProxyEvent = (
    ProxyReady
    | TunnelAsked
    | TunnelAnswered
    | OnwardConnection
    | ClientHelloSeen
    | ConnectionEnded
    | PlainRequest
    | Exchange
    | AltSvcSeen
    | CaRejected
    | UpstreamTrouble
    | ProxyLog
    | ProxyDied
)
