"""Chromium's NetLog (`--log-net-log=FILE`, or chrome://net-export): JSON with an event to a line.

    {"constants": {"logEventTypes": {"QUIC_SESSION": 227, …}, "timeTickOffset": "1764508…", …},
    "events": [
    {"phase":1,"source":{"id":12,"start_time":"81","type":1},"time":"83","type":2,"params":{…}},
    …
    ]}

The numbers of event types differ between versions; the constants name them. A browser that still runs, or was killed,
leaves the end out: lines are read one by one, and what is no event is passed over. What the events mean is documented
in Chromium's net/log/net_log_event_type_list.h; which source refers to which was seen in logs of Chromium 156:

    URL_REQUEST -> HTTP_STREAM_JOB_CONTROLLER, which knows the alternative -> HTTP_STREAM_JOB, one for each way
    HTTP_STREAM_JOB -> HTTP2_SESSION or SSL_CONNECT_JOB -> SOCKET
    HTTP_STREAM_JOB -> QUIC_SESSION_POOL_DIRECT_JOB -> QUIC_SESSION, its UDP_SOCKET -> UDP_CLIENT_SOCKET -> that job

A request is bound to the job that carries it; one that fails is bound to none.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from h3probe.events import Endpoint, ToldAltSvc, ToldExchange
from h3probe.track.table import BoundedTable
from h3probe.vantage.clientlog.wallclock import EpochClock, WallClock
from h3probe.vantage.clientlog.words import LONGEST_ERROR, LONGEST_URL, origin_and_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Told

# The constants alone are some 60 kB on one line.
LONGEST_EVENT: Final = 4 << 20
LIMIT: Final = 8_192
MS: Final = 1_000_000
END: Final = 2
ALT_SVC_LINES: Final = 16
LONGEST_FIELD: Final = 4_096
LONGEST_METHOD: Final = 64
JOBS_LIMIT: Final = 8
# From a request to its session, and on to the socket, there are this many steps at most.
CHAIN: Final = 6
VERSIONS: Final = {
    "HTTP_TRANSACTION_SEND_REQUEST_HEADERS": "HTTP/1.1",
    "HTTP_TRANSACTION_HTTP2_SEND_REQUEST_HEADERS": "HTTP/2",
    "HTTP_TRANSACTION_QUIC_SEND_REQUEST_HEADERS": "HTTP/3",
}
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
_STATUS: Final = re.compile(r"HTTP/\d(?:\.\d)? (\d{3})")
_ENDPOINT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|(\d{1,3}(?:\.\d{1,3}){3})):(\d{1,5})$")
_DECODER: Final = json.JSONDecoder()

Params = dict[str, Any]


@dataclass(slots=True)
class _Source:
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


@dataclass(slots=True)
class _Request:
    """A request under way; a redirect begins another one on the same source."""

    url: str
    method: str
    began_ns: int
    version: str | None = None
    told: bool = False


@dataclass(slots=True)
class _Constants:
    """What the numbers of this log mean."""

    events: dict[int, str] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    offset_ms: int = 0


class NetLog:
    """Reads such a log line by line.

    Attributes:
        clock: Has nothing to add: the log's times are the epoch's.
        begun: Whether the constants were read, without which nothing that follows means anything.
    """

    def __init__(self) -> None:
        self.clock: WallClock = EpochClock()
        self.begun = False
        self._constants = _Constants()
        self._sources: BoundedTable[int, _Source] = BoundedTable(LIMIT)
        self._requests: BoundedTable[int, _Request] = BoundedTable(LIMIT)
        self._told: list[Told] = []
        self._takers: dict[str, Callable[[int, int, Params], None]] = {
            "URL_REQUEST_START_JOB": self._start,
            "HTTP_TRANSACTION_READ_RESPONSE_HEADERS": self._headers,
            "TCP_CONNECT_ATTEMPT": self._addresses,
            "TCP_CONNECT": self._addresses,
            "QUIC_SESSION_PACKET_RECEIVED": self._addresses,
            "UDP_CONNECT": self._udp_connect,
            "UDP_LOCAL_ADDRESS": self._udp_bound,
            "QUIC_SESSION_CREATED": self._session,
            "HTTP_STREAM_JOB_CONTROLLER_BOUND": self._controller,
            "HTTP_STREAM_REQUEST_STARTED_JOB": self._job,
            "HTTP_STREAM_JOB_CONTROLLER_ALT_SVC_FOUND": self._alternative,
            **dict.fromkeys(BEHIND, self._behind),
        }

    @staticmethod
    def recognises(line: str) -> bool:
        """Whether only such a log begins so."""
        start = line[:256].lstrip("\ufeff \t")
        return start.startswith("{") and '"constants"' in start

    def line(self, line: str, now_ns: int | None = None) -> bool:
        """Take a line, without its end.

        Args:
            line: An event, the constants, or what stands around them.
            now_ns: Not looked at: events have their own times.

        Returns:
            Whether it was one of the two.
        """
        del now_ns
        text = line.strip().rstrip(",")
        if not text.startswith("{"):
            return False
        # The constants' line opens the object that all the events are in; a log may also be one line as a whole.
        value = _object(text + "}") or _object(text) if self.recognises(text) else _object(text)
        if value is None:
            return False
        if isinstance(value.get("constants"), dict):
            self.begun = True
            self._constants = _constants(value["constants"])
            events = value.get("events")
            for event in events if isinstance(events, list) else ():
                self._event(event)
            return True
        return self._event(value)

    def take(self) -> list[Told]:
        """Return what has been told since the last call."""
        told, self._told = self._told, []
        return told

    def finish(self, now_ns: int | None = None) -> None:
        """Take note that the log has ended; what was not answered is not told."""

    def _event(self, value: object) -> bool:
        if not isinstance(value, dict):
            return False
        source, params = value.get("source"), value.get("params")
        number = source.get("id") if isinstance(source, dict) else None
        kind, time_ms = value.get("type"), _integer(value.get("time"))
        if not isinstance(number, int) or not isinstance(kind, int) or time_ms is None:
            return False
        name = self._constants.events.get(kind, "")
        time_ns = (self._constants.offset_ms + time_ms) * MS
        params = params if isinstance(params, dict) else {}
        if name in VERSIONS:
            request = self._requests.get(number)
            if request is not None:
                request.version = VERSIONS[name]
        elif name == "REQUEST_ALIVE" and value.get("phase") == END:
            self._ended(number, time_ns, params)
        elif name in self._takers:
            self._takers[name](number, time_ns, params)
        return True

    def _source(self, number: int) -> _Source:
        known = self._sources.get(number)
        if known is None:
            known = _Source()
            self._sources.put(number, known)
        return known

    def _start(self, number: int, time_ns: int, params: Params) -> None:
        url, method = params.get("url"), params.get("method")
        if isinstance(url, str):  # The end of the event has no parameters.
            method = method[:LONGEST_METHOD] if isinstance(method, str) else ""
            self._requests.put(number, _Request(url[:LONGEST_URL], method, time_ns))

    def _behind(self, number: int, time_ns: int, params: Params) -> None:
        del time_ns
        other = _dependency(number, params)
        if other is not None:
            self._source(number).behind = other

    def _controller(self, number: int, time_ns: int, params: Params) -> None:
        del time_ns
        other = _dependency(number, params)
        if other is not None and number in self._requests:  # The controller says so of the request, too.
            self._source(number).controller = other

    def _job(self, number: int, time_ns: int, params: Params) -> None:
        del time_ns
        other, known = _dependency(number, params), self._source(number)
        if other is not None and len(known.jobs) < JOBS_LIMIT:
            known.jobs.append(other)

    def _alternative(self, number: int, time_ns: int, params: Params) -> None:
        del time_ns
        self._source(number).broken = params.get("is_broken") is True

    def _udp_connect(self, number: int, time_ns: int, params: Params) -> None:
        del time_ns
        known = self._source(number)
        known.remote = _endpoint(params.get("address")) or known.remote  # The end of the event has none.

    def _udp_bound(self, number: int, time_ns: int, params: Params) -> None:
        """Take a UDP socket's own address: the session that is made next by whoever made the socket has it."""
        del time_ns
        known = self._source(number)
        known.local = _endpoint(params.get("address"))
        client = self._sources.get(known.behind) if known.behind is not None else None
        if client is not None and client.behind is not None:
            self._source(client.behind).socket = number

    def _session(self, number: int, time_ns: int, params: Params) -> None:
        self._behind(number, time_ns, params)
        other, made = _dependency(number, params), self._source(number).socket
        socket = self._sources.get(made) if made is not None else None
        if other is not None and socket is not None:
            session = self._source(other)
            session.local, session.remote = session.local or socket.local, session.remote or socket.remote

    def _addresses(self, number: int, time_ns: int, params: Params) -> None:
        del time_ns
        local = _endpoint(params.get("local_address") or params.get("self_address") or params.get("source_address"))
        remote = _endpoint(params.get("remote_address") or params.get("peer_address"))
        known = self._source(number)
        known.local = local or known.local
        known.remote = remote or known.remote

    def _failed(self, number: int, error: str) -> _Source | None:
        """What a request failed on: bound to nothing, it has failed with its only QUIC attempt where it says so."""
        known = self._sources.get(number)
        if known is None or known.behind is not None or not error.startswith("ERR_QUIC"):
            return self._carrier(number)
        controller = self._sources.get(known.controller) if known.controller is not None else None
        carriers = [self._carrier(job) for job in controller.jobs] if controller is not None else []
        tried = {carrier.local: carrier for carrier in carriers if carrier is not None}
        return next(iter(tried.values())) if len(tried) == 1 else None

    def _broken(self, number: int) -> bool:
        """Whether the alternative that a request could have used is marked broken."""
        known = self._sources.get(number)
        controller = self._sources.get(known.controller) if known is not None and known.controller is not None else None
        return controller is not None and controller.broken

    def _carrier(self, number: int) -> _Source | None:
        """What carries a request: the first source behind it that has an address of its own."""
        at: int | None = number
        for _ in range(CHAIN):
            known = self._sources.get(at) if at is not None else None
            if known is None or known.local is not None:
                return known
            at = known.behind
        return None

    def _headers(self, number: int, time_ns: int, params: Params) -> None:
        request = self._requests.get(number)
        head = params.get("headers")
        parts = origin_and_url(request.url) if request is not None else None
        if request is None or parts is None or not isinstance(head, list):
            return
        texts = [line for line in head[:1024] if isinstance(line, str)]
        found = _STATUS.match(texts[0]) if texts else None
        if found is None:
            return
        carrier = self._carrier(number) or _Source()
        lines = [line[:LONGEST_FIELD] for line in texts if line[:8].lower() == "alt-svc:"][:ALT_SVC_LINES]
        alt_svc = [line.partition(":")[2].strip() for line in lines]
        if alt_svc:
            self._told.append(
                ToldAltSvc(
                    time_ns,
                    "client-log",
                    parts[0],
                    tuple(alt_svc),
                    client=carrier.local,
                    server=carrier.remote,
                    within_ns=MS,
                )
            )
        request.told = True
        self._tell(request, parts, time_ns, carrier, status=int(found[1]), broken=self._broken(number))

    def _ended(self, number: int, time_ns: int, params: Params) -> None:
        request = self._requests.pop(number)
        code = params.get("net_error")
        if request is not None and not request.told and isinstance(code, int) and code != 0:
            parts = origin_and_url(request.url)
            name = str(self._constants.errors.get(code, code))
            if parts is not None:
                carrier = self._failed(number, name) or _Source()
                self._tell(request, parts, time_ns, carrier, error=f"net::{name}"[:LONGEST_ERROR])
        self._sources.pop(number)

    def _tell(  # noqa: PLR0913 - what an exchange is made of
        self,
        request: _Request,
        parts: tuple[str, str],
        time_ns: int,
        carrier: _Source,
        *,
        status: int | None = None,
        error: str | None = None,
        broken: bool = False,
    ) -> None:
        self._told.append(
            ToldExchange(
                time_ns=time_ns,
                known_from="client-log",
                origin=parts[0],
                method=request.method,
                url=parts[1],
                version=request.version if status is not None else None,
                status=status,
                local_port=carrier.local.port if carrier.local is not None else None,
                client=carrier.local,
                server=carrier.remote,
                began_ns=request.began_ns,
                error=error,
                within_ns=MS,
                broken=broken,
            )
        )


def _dependency(number: int, params: Params) -> int | None:
    """The other source that an event names."""
    other = params.get("source_dependency")
    other = other.get("id") if isinstance(other, dict) else None
    return other if isinstance(other, int) and other != number else None


def _object(text: str) -> Params | None:
    """The object that a text begins with; the last event's line may close the list as well."""
    try:
        value, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _constants(value: Params) -> _Constants:
    return _Constants(
        _numbered(value.get("logEventTypes")),
        _numbered(value.get("netError")),
        _integer(value.get("timeTickOffset")) or 0,
    )


def _numbered(names: object) -> dict[int, str]:
    if not isinstance(names, dict):
        return {}
    return {number: name for name, number in list(names.items())[:LIMIT] if isinstance(number, int)}


def _integer(value: object) -> int | None:
    """A number, or the digits of one in a string; nothing beyond what a time can be."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    return value if isinstance(value, int) and abs(value) < 1 << 53 else None


def _endpoint(text: object) -> Endpoint | None:
    found = _ENDPOINT.match(text[:80]) if isinstance(text, str) else None
    if found is None or not 0 < int(found[3]) < 65536:
        return None
    try:
        return Endpoint(ipaddress.ip_address(found[1] or found[2]).packed, int(found[3]))
    except ValueError:
        return None
