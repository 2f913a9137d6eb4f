"""What a client's own log tells, and decrypted traffic shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from h3probe.events.wire import Endpoint  # noqa: TC001 - whoever reads events from lines looks at the annotations


@dataclass(frozen=True, slots=True)
class ToldExchange:
    """A request and its response, as the client's own log tells of them, or as decrypted traffic shows them.

    Attributes:
        time_ns: When it was told of; of decrypted traffic, when the response's head came.
        known_from: Who tells.
        origin: `https://host:port`.
        method: As sent; empty where it is not told.
        url: Without user information, the values of its query left out; empty where it is not told.
        version: `HTTP/1.1`, `HTTP/2`, `HTTP/3`; None where it is not told (a request that failed).
        status: None when there was no response.
        local_port: The client's port; None where it is not told.
        client: The client's end; None where only the port is told.
        server: The server's end; likewise.
        began_ns: When the request began; None where that is not told.
        error: Why there is no response: the client's own words.
        within_ns: How far off the times may be; some logs tell whole seconds only.
        scid: The source connection ID of the client's first Initial, where QUIC carried it, or was to.
        broken: Whether the client says that it has given up an HTTP/3 alternative for now: QUIC to it failed before.
    """

    time_ns: int
    known_from: Literal["client-log", "decrypted"]
    origin: str
    method: str
    url: str
    version: str | None = None
    status: int | None = None
    local_port: int | None = None
    client: Endpoint | None = None
    server: Endpoint | None = None
    began_ns: int | None = None
    error: str | None = None
    within_ns: int = 0
    scid: bytes | None = None
    broken: bool = False


@dataclass(frozen=True, slots=True)
class ToldAltSvc:
    """The Alt-Svc lines of a response, as the client's own log tells of them, or as decrypted traffic shows them.

    Attributes:
        time_ns: When it was told of.
        known_from: Who tells.
        origin: `https://host:port`.
        lines: As the server sent them, in order.
        local_port: The client's port; None where it is not told.
        client: The client's end; None where only the port is told.
        server: The server's end; likewise.
        within_ns: How far off the time may be.
    """

    time_ns: int
    known_from: Literal["client-log", "decrypted"]
    origin: str
    lines: tuple[str, ...]
    local_port: int | None = None
    client: Endpoint | None = None
    server: Endpoint | None = None
    within_ns: int = 0


@dataclass(frozen=True, slots=True)
class ToldAsked:
    """A request of which the client's own log tells that it was to be HTTP/3, and then nothing more.

    It may have gone on over TCP, of which such a log need not tell.

    Attributes:
        time_ns: When.
        origin: `https://host:port`.
        within_ns: How far off the time may be.
    """

    time_ns: int
    origin: str
    within_ns: int = 0


Told = ToldExchange | ToldAltSvc | ToldAsked
