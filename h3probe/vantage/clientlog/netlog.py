"""Chromium's NetLog (`--log-net-log=FILE`, or chrome://net-export): JSON with an event to a line.

    {"constants": {"logEventTypes": {"QUIC_SESSION": 227, …}, "timeTickOffset": "1764508…", …},
    "events": [
    {"phase":1,"source":{"id":12,"start_time":"81","type":1},"time":"83","type":2,"params":{…}},
    …
    ]}

The numbers of event types differ between versions; the constants name them. A browser that still runs, or was killed,
leaves the end out: lines are read one by one, and what is no event is passed over. What the events mean is documented
in Chromium's net/log/net_log_event_type_list.h.
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
from h3probe.vantage.clientlog.words import LONGEST_ERROR, origin_and_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Told

# The constants alone are some 60 kB on one line.
LONGEST_EVENT: Final = 4 << 20
LIMIT: Final = 8_192
MS: Final = 1_000_000
END: Final = 2
ALT_SVC_LINES: Final = 16
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
)
_STATUS: Final = re.compile(r"HTTP/\d(?:\.\d)? (\d{3})")
_ENDPOINT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|(\d{1,3}(?:\.\d{1,3}){3})):(\d{1,5})$")
_DECODER: Final = json.JSONDecoder()

Params = dict[str, Any]


@dataclass(slots=True)
class _Source:
    """What is known of one of the log's sources: a job, a session, a socket."""

    local: Endpoint | None = None
    remote: Endpoint | None = None
    behind: int | None = None


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
    """

    def __init__(self) -> None:
        self.clock: WallClock = EpochClock()
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
            self._requests.put(number, _Request(url, method if isinstance(method, str) else "", time_ns))

    def _behind(self, number: int, time_ns: int, params: Params) -> None:
        del time_ns
        other = params.get("source_dependency")
        other = other.get("id") if isinstance(other, dict) else None
        if isinstance(other, int) and other != number:
            self._source(number).behind = other

    def _addresses(self, number: int, time_ns: int, params: Params) -> None:
        del time_ns
        local = _endpoint(params.get("local_address") or params.get("self_address") or params.get("source_address"))
        remote = _endpoint(params.get("remote_address") or params.get("peer_address"))
        known = self._source(number)
        known.local = local or known.local
        known.remote = remote or known.remote

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
        lines = params.get("headers")
        parts = origin_and_url(request.url) if request is not None else None
        if request is None or parts is None or not isinstance(lines, list):
            return
        texts = [line for line in lines[:1024] if isinstance(line, str)]
        found = _STATUS.match(texts[0]) if texts else None
        if found is None:
            return
        carrier = self._carrier(number) or _Source()
        alt_svc = [line.partition(":")[2].strip() for line in texts if line[:8].lower() == "alt-svc:"][:ALT_SVC_LINES]
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
        self._tell(request, parts, time_ns, carrier, status=int(found[1]))

    def _ended(self, number: int, time_ns: int, params: Params) -> None:
        request = self._requests.pop(number)
        code = params.get("net_error")
        carrier = self._carrier(number) or _Source()
        self._sources.pop(number)
        if request is None or request.told or not isinstance(code, int) or code == 0:
            return
        parts = origin_and_url(request.url)
        if parts is not None:
            error = f"net::{self._constants.errors.get(code, code)}"[:LONGEST_ERROR]
            self._tell(request, parts, time_ns, carrier, error=error)

    def _tell(  # noqa: PLR0913 - what an exchange is made of
        self,
        request: _Request,
        parts: tuple[str, str],
        time_ns: int,
        carrier: _Source,
        *,
        status: int | None = None,
        error: str | None = None,
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
            )
        )


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
