"""Tunnels asked of a proxy in the clear: CONNECT (RFC 9110, 9.3.6) and connect-udp (RFC 9298)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from h3probe.errors import DecodeError
from h3probe.text import clean
from h3probe.wire.http1 import connect_target, connect_udp_target, parse_request_head, parse_response_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.track.mark import Mark

# A client that is refused with 407 asks again on the same connection; more than this is no client.
TUNNELS_PER_CONNECTION = 16
# As of `UpstreamTrouble`.
Trouble = Literal["refused", "unreachable", "silent", "garbage", "slow"]
SWITCHING_PROTOCOLS = 101


@dataclass(slots=True)
class Tunnel:
    """One tunnel asked for.

    Attributes:
        id: Unique in this output.
        host: The target's host as asked for, an IPv6 address without brackets.
        port: The target's port.
        method: How it was asked for.
        asked: When.
        status: The proxy's answer.
        answered: When that came.
        client_start: Where the tunnelled bytes begin in the client's stream.
        server_start: Where they begin in the server's.
        by_upstream: Whether the answer is that of a proxy behind the one asked.
        upstream: That proxy's `host:port`, where it was named.
        trouble: What that proxy did not do.
        error: Why there is no tunnel, as far as the proxy says.
        waited: Seconds until the answer, by the proxy's own clock.
        on_wire: Whether its request was read from packets.
        reported: Whether the proxy reported it.
        entered: Whether TLS began in it without an answer that was seen.
    """

    id: str
    host: str
    port: int
    method: Literal["CONNECT", "connect-udp"]
    asked: Mark
    status: int | None = None
    answered: Mark | None = None
    client_start: int = 0
    server_start: int = 0
    by_upstream: bool = False
    upstream: str | None = None
    trouble: Trouble | None = None
    error: str | None = None
    waited: float | None = None
    on_wire: bool = False
    reported: bool = False
    entered: bool = False

    @property
    def target(self) -> str:
        """`host:port`, an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def open(self) -> bool:
        """Whether the proxy agreed: 2xx to CONNECT, 101 to an upgrade."""
        if self.status is None:
            return False
        return self.status == SWITCHING_PROTOCOLS if self.method == "connect-udp" else 200 <= self.status < 300


@dataclass(slots=True)
class Tunnels:
    """The exchanges on one connection to a proxy, one after the other until a tunnel opens.

    Attributes:
        asked: The tunnels, in order.
        over: Whether no further request is looked for: a tunnel is open, or this is another protocol.
    """

    asked: list[Tunnel] = field(default_factory=list)
    over: bool = False
    _client_position: int = 0
    _server_position: int = 0
    _waiting: bool = False
    _pending: Tunnel | None = None

    @property
    def open(self) -> Tunnel | None:
        """The tunnel that is open."""
        return self.asked[-1] if self.asked and self.asked[-1].open else None

    @property
    def pending(self) -> Tunnel | None:
        """The tunnel that was asked for and not answered yet."""
        return self._pending if self._waiting else None

    def feed_client(self, stream: bytes, server_length: int, mark: Mark, new_id: Callable[[], str]) -> Tunnel | None:
        """Read the client's bytes; return a tunnel that was just asked for.

        Args:
            stream: All of the client's bytes so far.
            server_length: How many of the server's there are.
            mark: The segment that brought the newest.
            new_id: Gives the tunnel its id.
        """
        if self.over or self._waiting:
            return None
        try:
            head = parse_request_head(stream[self._client_position :])
            if head is None:
                return None
            target, method = connect_target(head), "CONNECT"
            if target is None:
                target, method = connect_udp_target(head), "connect-udp"
        except DecodeError:
            self.over = True
            return None
        if target is None or len(self.asked) >= TUNNELS_PER_CONNECTION:
            self.over = True
            return None
        self._client_position += head.head_length
        self._server_position = max(self._server_position, server_length)
        self._waiting = True
        host = clean(target[0], 255)
        known = next((t for t in self.asked if not t.on_wire and (t.host, t.port) == (host, target[1])), None)
        if known is not None:  # The proxy reported it before its packets were read.
            known.asked, known.on_wire, known.client_start = mark, True, self._client_position
            self._pending = known
            return None
        tunnel = Tunnel(new_id(), host, target[1], method, mark, client_start=self._client_position)  # type: ignore[arg-type]
        tunnel.on_wire = True
        self._pending = tunnel
        self.asked.append(tunnel)
        return tunnel

    def report(self, tunnel: Tunnel) -> Tunnel:
        """Take a tunnel that the proxy reports; return the one read from packets where it is the same."""
        same = (tunnel.host, tunnel.port, tunnel.method)
        known = next((t for t in self.asked if not t.reported and (t.host, t.port, t.method) == same), None)
        if known is None:
            known = tunnel
            if len(self.asked) < TUNNELS_PER_CONNECTION:
                self.asked.append(tunnel)
        known.reported = True
        return known

    def feed_server(self, stream: bytes, mark: Mark) -> Tunnel | None:
        """Read the proxy's bytes; return the tunnel that they answered, with its status set."""
        tunnel = self._pending
        if self.over or not self._waiting or tunnel is None:
            return None
        while True:
            try:
                head = parse_response_head(stream[self._server_position :])
            except DecodeError:
                self.over = True
                return None
            if head is None:
                return None
            self._server_position += head.head_length
            if head.status >= 200 or head.status == SWITCHING_PROTOCOLS:
                break
        tunnel.status, tunnel.answered = head.status, mark
        tunnel.server_start = self._server_position
        self._waiting = False
        self.over = tunnel.open
        return tunnel
