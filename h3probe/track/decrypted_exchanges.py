"""Requests and responses of one decrypted connection, each with the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from h3probe.events import ToldAltSvc, ToldExchange
from h3probe.track.table import BoundedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Endpoint, Told
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.wire.http_fields import Request, Response

    Connection = QuicConnection | TcpConnection

Version = Literal["HTTP/1.1", "HTTP/2", "HTTP/3"]

# Requests of one connection that wait for their response, and responses that were captured ahead of their request.
PENDING_LIMIT = 1024
CLOSED = "the connection ended before the response came"


class Exchanges:
    """Pairs what the two directions of a connection say.

    Args:
        connection: The connection.
        version: What it speaks.
        tell: Takes each event.
    """

    __slots__ = ("_client", "_early", "_pending", "_scid", "_server", "_tell", "_version")

    def __init__(self, connection: Connection, version: Version, tell: Callable[[Told], None]) -> None:
        self._client: Endpoint = connection.client
        self._server: Endpoint = connection.server
        self._scid = connection.client_scid if connection.transport == "quic" else None
        self._version = version
        self._tell = tell
        self._pending: BoundedTable[int, tuple[Request, int]] = BoundedTable(PENDING_LIMIT)
        self._early: BoundedTable[int, tuple[Response, int]] = BoundedTable(PENDING_LIMIT)

    @property
    def pending(self) -> bool:
        """Whether a request waits for its response."""
        return bool(self._pending)

    @property
    def missed(self) -> bool:
        """Whether a response came whose request was not seen."""
        return bool(self._early)

    def request(self, request: Request, time_ns: int) -> None:
        """Take the head of a request, and when it was whole."""
        early = self._early.pop(request.stream)
        self._pending.put(request.stream, (request, time_ns))
        if early is not None:
            self.response(*early)

    def response(self, response: Response, time_ns: int) -> None:
        """Take the head of a response, and when it was whole; interim ones are passed over (RFC 9110, 15.2)."""
        if response.status < 200 and response.status != 101:
            return
        pending = self._pending.pop(response.stream)
        if pending is None:
            self._early.put(response.stream, (response, time_ns))
            return
        request, began_ns = pending
        self._exchange(request, began_ns, time_ns, status=response.status)
        if response.alt_svc and request.method != "CONNECT":
            self._tell(
                ToldAltSvc(
                    time_ns=time_ns,
                    known_from="decrypted",
                    origin=request.origin,
                    lines=response.alt_svc,
                    local_port=self._client.port,
                    client=self._client,
                    server=self._server,
                )
            )

    def failed(self, stream: int, time_ns: int, error: str) -> None:
        """A stream ended: its request, where one waits, gets no response."""
        pending = self._pending.pop(stream)
        if pending is not None:
            self._exchange(*pending, time_ns, error=error)

    def ended(self, time_ns: int, error: str = CLOSED) -> None:
        """The connection ended: no request that waits gets a response."""
        for request, began_ns in self._pending:
            self._exchange(request, began_ns, time_ns, error=error)
            self._pending.pop(request.stream)

    def _exchange(
        self, request: Request, began_ns: int, time_ns: int, *, status: int | None = None, error: str | None = None
    ) -> None:
        if request.method == "CONNECT":
            return  # A tunnel, not an exchange.
        self._tell(
            ToldExchange(
                time_ns=time_ns,
                known_from="decrypted",
                origin=request.origin,
                method=request.method,
                url=request.url,
                version=self._version,
                status=status,
                local_port=self._client.port,
                client=self._client,
                server=self._server,
                began_ns=began_ns,
                error=error,
                scid=self._scid,
            )
        )
