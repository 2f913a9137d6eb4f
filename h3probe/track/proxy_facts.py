"""What the proxy reports beside connections, in the shape in which a diagnosis reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.track.table import BoundedTable

if TYPE_CHECKING:
    from h3probe.events import AltSvcSeen, CaRejected, Endpoint, Exchange, ProxyDied, ProxyReady, UpstreamTrouble

# The most that is kept of anything.
LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class ExchangeSighting:
    """A request and its response, and what carried them.

    Attributes:
        exchange: The proxy's report.
        connection: Id of the connection, None where it is not known.
    """

    exchange: Exchange
    connection: str | None


@dataclass(frozen=True, slots=True)
class AltSvcSighting:
    """Alt-Svc lines, and the connection on which they came.

    Attributes:
        seen: The proxy's report.
        connection: Id of the connection, None where it is not known.
    """

    seen: AltSvcSeen
    connection: str | None


@dataclass(frozen=True, slots=True)
class FailedLeg:
    """A connection that the proxy could not make; which port it tried from is not known.

    Attributes:
        target: `host:port`, as the proxy was told.
        began_ns: When it was asked to, or a little before.
        ended_ns: When it gave up.
        error: Why.
        connection: Id of the client's connection that it was for, None where it is not known.
        to_upstream: Whether it was to lead to the proxy behind.
    """

    target: str
    began_ns: int
    ended_ns: int
    error: str
    connection: str | None
    to_upstream: bool


@dataclass(slots=True)
class ProxyFacts:
    """What the proxy's reports say beside connections.

    Attributes:
        ready: The proxy's start.
        exchanges: Requests and responses.
        alt_svc: Alt-Svc lines seen.
        rejected: Clients that did not take its certificate.
        trouble: What the proxy behind it did not do, with the id of the client's connection.
        died: Its end, when nobody had asked for it.
        legs: Its own ends of the connections that it made for clients.
        failed_legs: Those that it could not make, over TCP.
    """

    ready: ProxyReady | None = None
    exchanges: list[ExchangeSighting] = field(default_factory=list)
    alt_svc: list[AltSvcSighting] = field(default_factory=list)
    rejected: list[tuple[str | None, CaRejected]] = field(default_factory=list)
    trouble: list[tuple[str | None, UpstreamTrouble]] = field(default_factory=list)
    died: ProxyDied | None = None
    legs: BoundedTable[Endpoint, bool] = field(default_factory=lambda: BoundedTable(LIMIT))
    failed_legs: list[FailedLeg] = field(default_factory=list)
