"""Chromium's NetLog: which of its sources (requests, jobs, sessions, sockets) is carried by which.

What the events mean is documented in Chromium's net/log/net_log_event_type_list.h; which source refers to which was
seen in logs of Chromium 156:

    URL_REQUEST -> HTTP_STREAM_JOB_CONTROLLER, which knows the alternative -> HTTP_STREAM_JOB, one for each way
    HTTP_STREAM_JOB -> HTTP2_SESSION or SSL_CONNECT_JOB -> SOCKET
    HTTP_STREAM_JOB -> QUIC_SESSION_POOL_DIRECT_JOB -> QUIC_SESSION, its UDP_SOCKET -> UDP_CLIENT_SOCKET -> that job

A request is bound to the job that carries it; one that fails is bound to none.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from h3probe.events import Endpoint
from h3probe.track.table import BoundedTable

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT: Final = 8_192
JOBS_LIMIT: Final = 8
# From a request to its session, and on to the socket, there are this many steps at most.
CHAIN: Final = 6
# How a request and what looks for a way name each other.
BOUND: Final = "HTTP_STREAM_JOB_CONTROLLER_BOUND"
# Events by which one source says which other one it is carried by.
BEHIND: Final = (
    "HTTP_STREAM_REQUEST_BOUND_TO_JOB",
    "HTTP_STREAM_REQUEST_BOUND_TO_QUIC_SESSION",
    "HTTP2_SESSION_POOL_FOUND_EXISTING_SESSION",
    "HTTP2_SESSION_POOL_FOUND_EXISTING_SESSION_FROM_IP_POOL",
    "HTTP2_SESSION_POOL_CREATED_NEW_SESSION",
    "HTTP2_SESSION_POOL_IMPORTED_SESSION_FROM_SOCKET",
    "HTTP2_SESSION_INITIALIZED",
    "SOCKET_POOL_BOUND_TO_SOCKET",
    "BOUND_TO_QUIC_SESSION_POOL_JOB",
    "SOCKET_ALIVE",
)
_ENDPOINT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|(\d{1,3}(?:\.\d{1,3}){3})):(\d{1,5})$")

Params = dict[str, Any]


@dataclass(slots=True)
class Source:
    """What is known of one of the log's sources: a request, a job, a session, a socket.

    Attributes:
        local: Its own address.
        remote: The server's.
        behind: The source that it is carried by, or was made by.
        controller: Of a request: what looks for a way.
        jobs: Of such a controller: the ways it tries.
        broken: Of such a controller: whether the alternative that it knows is marked broken.
        socket: Of a job that makes a QUIC session: the UDP socket that it made last.
    """

    local: Endpoint | None = None
    remote: Endpoint | None = None
    behind: int | None = None
    controller: int | None = None
    jobs: list[int] = field(default_factory=list)
    broken: bool = False
    socket: int | None = None


class NetLogSources:
    """Follows what the log says of them."""

    def __init__(self) -> None:
        self._sources: BoundedTable[int, Source] = BoundedTable(LIMIT)
        self._takers: dict[str, Callable[[int, Params], None]] = {
            "TCP_CONNECT_ATTEMPT": self._addresses,
            "TCP_CONNECT": self._addresses,
            "QUIC_SESSION_PACKET_RECEIVED": self._addresses,
            "UDP_CONNECT": self._udp_connect,
            "UDP_LOCAL_ADDRESS": self._udp_bound,
            "QUIC_SESSION_CREATED": self._session,
            BOUND: self._controller,
            "HTTP_STREAM_REQUEST_STARTED_JOB": self._job,
            "HTTP_STREAM_JOB_CONTROLLER_ALT_SVC_FOUND": self._alternative,
            **dict.fromkeys(BEHIND, self._behind),
        }

    def event(self, name: str, number: int, params: Params) -> None:
        """Take an event of a source, whatever it is called."""
        take = self._takers.get(name)
        if take is not None:
            take(number, params)

    def forget(self, number: int) -> None:
        """Take note that a request is over."""
        self._sources.pop(number)

    def _source(self, number: int) -> Source:
        known = self._sources.get(number)
        if known is None:
            known = Source()
            self._sources.put(number, known)
        return known

    def _behind(self, number: int, params: Params) -> None:
        other = _dependency(number, params)
        if other is not None:
            self._source(number).behind = other

    def _job(self, number: int, params: Params) -> None:
        other, known = _dependency(number, params), self._source(number)
        if other is not None and len(known.jobs) < JOBS_LIMIT:
            known.jobs.append(other)

    def _alternative(self, number: int, params: Params) -> None:
        self._source(number).broken = params.get("is_broken") is True

    def _udp_connect(self, number: int, params: Params) -> None:
        known = self._source(number)
        known.remote = _endpoint(params.get("address")) or known.remote  # The end of the event has none.

    def _udp_bound(self, number: int, params: Params) -> None:
        """Take a UDP socket's own address: the session that is made next by whoever made the socket has it."""
        known = self._source(number)
        known.local = _endpoint(params.get("address"))
        client = self._sources.get(known.behind) if known.behind is not None else None
        if client is not None and client.behind is not None:
            self._source(client.behind).socket = number

    def _session(self, number: int, params: Params) -> None:
        self._behind(number, params)
        other, made = _dependency(number, params), self._source(number).socket
        socket = self._sources.get(made) if made is not None else None
        if other is not None and socket is not None:
            session = self._source(other)
            session.local, session.remote = session.local or socket.local, session.remote or socket.remote

    def _addresses(self, number: int, params: Params) -> None:
        local = _endpoint(params.get("local_address") or params.get("self_address") or params.get("source_address"))
        remote = _endpoint(params.get("remote_address") or params.get("peer_address"))
        known = self._source(number)
        known.local = local or known.local
        known.remote = remote or known.remote

    def _controller(self, number: int, params: Params) -> None:
        other = _dependency(number, params)
        if other is not None:
            self._source(number).controller = other

    def failed(self, number: int, error: str) -> Source | None:
        """What a request failed on: bound to nothing, it has failed with its only QUIC attempt where it says so."""
        known = self._sources.get(number)
        if known is None or known.behind is not None or not error.startswith("ERR_QUIC"):
            return self.carrier(number)
        controller = self._sources.get(known.controller) if known.controller is not None else None
        carriers = [self.carrier(job) for job in controller.jobs] if controller is not None else []
        tried = {carrier.local: carrier for carrier in carriers if carrier is not None}
        return next(iter(tried.values())) if len(tried) == 1 else None

    def broken(self, number: int) -> bool:
        """Whether the alternative that a request could have used is marked broken."""
        known = self._sources.get(number)
        controller = self._sources.get(known.controller) if known is not None and known.controller is not None else None
        return controller is not None and controller.broken

    def carrier(self, number: int) -> Source | None:
        """What carries a request: the first source behind it that has an address of its own."""
        at: int | None = number
        for _ in range(CHAIN):
            known = self._sources.get(at) if at is not None else None
            if known is None or known.local is not None:
                return known
            at = known.behind
        return None


def _dependency(number: int, params: Params) -> int | None:
    """The other source that an event names."""
    other = params.get("source_dependency")
    other = other.get("id") if isinstance(other, dict) else None
    return other if isinstance(other, int) and other != number else None


def _endpoint(text: object) -> Endpoint | None:
    found = _ENDPOINT.match(text[:80]) if isinstance(text, str) else None
    if found is None or not 0 < int(found[3]) < 65536:
        return None
    try:
        return Endpoint(ipaddress.ip_address(found[1] or found[2]).packed, int(found[3]))
    except ValueError:
        return None
