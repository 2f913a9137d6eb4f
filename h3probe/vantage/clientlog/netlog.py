"""Chromium's NetLog (`--log-net-log=FILE`, or chrome://net-export): JSON with an event to a line.

    {"constants": {"logEventTypes": {"QUIC_SESSION": 227, …}, "timeTickOffset": "1764508…", …},
    "events": [
    {"phase":1,"source":{"id":12,"start_time":"81","type":1},"time":"83","type":2,"params":{…}},
    …
    ]}

The numbers of event types differ between versions; the constants name them. A browser that still runs, or was killed,
leaves the end out: lines are read one by one, and what is no event is passed over.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from h3probe.events import ToldAltSvc, ToldExchange
from h3probe.track.table import BoundedTable
from h3probe.vantage.clientlog.netlog_sources import BOUND, LIMIT, NetLogSources, Source
from h3probe.vantage.clientlog.wallclock import EpochClock, WallClock
from h3probe.vantage.clientlog.words import LONGEST_ERROR, LONGEST_URL, origin_and_url

if TYPE_CHECKING:
    from h3probe.events import Told
    from h3probe.vantage.clientlog.netlog_sources import Params

# The constants alone are some 60 kB on one line.
LONGEST_EVENT: Final = 4 << 20
MS: Final = 1_000_000
END: Final = 2
ALT_SVC_LINES: Final = 16
LONGEST_FIELD: Final = 4_096
LONGEST_METHOD: Final = 64
VERSIONS: Final = {
    "HTTP_TRANSACTION_SEND_REQUEST_HEADERS": "HTTP/1.1",
    "HTTP_TRANSACTION_HTTP2_SEND_REQUEST_HEADERS": "HTTP/2",
    "HTTP_TRANSACTION_QUIC_SEND_REQUEST_HEADERS": "HTTP/3",
}
_STATUS: Final = re.compile(r"HTTP/\d(?:\.\d)? (\d{3})")
_DECODER: Final = json.JSONDecoder()


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
        self._requests: BoundedTable[int, _Request] = BoundedTable(LIMIT)
        self._sources = NetLogSources()
        self._told: list[Told] = []

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
        elif name == "URL_REQUEST_START_JOB":
            self._start(number, time_ns, params)
        elif name == "HTTP_TRANSACTION_READ_RESPONSE_HEADERS":
            self._headers(number, time_ns, params)
        elif name == "REQUEST_ALIVE" and value.get("phase") == END:
            self._ended(number, time_ns, params)
        elif name != BOUND or number in self._requests:  # The controller says so of the request, too.
            self._sources.event(name, number, params)
        return True

    def _start(self, number: int, time_ns: int, params: Params) -> None:
        url, method = params.get("url"), params.get("method")
        if isinstance(url, str):  # The end of the event has no parameters.
            method = method[:LONGEST_METHOD] if isinstance(method, str) else ""
            self._requests.put(number, _Request(url[:LONGEST_URL], method, time_ns))

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
        carrier = self._sources.carrier(number) or Source()
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
        self._tell(request, parts, time_ns, carrier, status=int(found[1]), broken=self._sources.broken(number))

    def _ended(self, number: int, time_ns: int, params: Params) -> None:
        request = self._requests.pop(number)
        code = params.get("net_error")
        if request is not None and not request.told and isinstance(code, int) and code != 0:
            parts = origin_and_url(request.url)
            name = str(self._constants.errors.get(code, code))
            if parts is not None:
                carrier = self._sources.failed(number, name) or Source()
                self._tell(request, parts, time_ns, carrier, error=f"net::{name}"[:LONGEST_ERROR])
        self._sources.forget(number)

    def _tell(  # noqa: PLR0913 - what an exchange is made of
        self,
        request: _Request,
        parts: tuple[str, str],
        time_ns: int,
        carrier: Source,
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
