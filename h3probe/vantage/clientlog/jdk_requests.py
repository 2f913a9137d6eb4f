"""What the JDK's HttpClient says in its log of requests, and of the QUIC connections that they are on."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from h3probe.events import ToldAltSvc, ToldAsked, ToldExchange
from h3probe.track.clock import NS
from h3probe.track.table import BoundedTable
from h3probe.vantage.clientlog.wallclock import OWN_CLOCK, WallClock, iso_utc
from h3probe.vantage.clientlog.words import LONGEST_ERROR, origin_and_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Told

VERSIONS: Final = {"HTTP_1_1": "HTTP/1.1", "HTTP_2": "HTTP/2", "HTTP_3": "HTTP/3"}
# Requests under way, and QUIC connections, that are kept in mind.
LIMIT: Final = 4_096
# A request that failed over QUIC may still go on over TCP; after this long it has not.
SETTLED_NS: Final = 60 * NS

_REQUEST: Final = re.compile(r"(\S+) ([A-Z]+)$")
_RESPONSE: Final = re.compile(r"\(([A-Z]+) (\S+)\) (\d{3}) (HTTP_\d(?:_\d)?)(?: Local port:\s*(\d{1,5}))?")
_EXCHANGE: Final = r"(\S+) ([A-Z]+) #(\d{1,18})"
_ASKS: Final = re.compile(rf"getConnectionFor exchange {_EXCHANGE}")
_JOINS: Final = re.compile(rf"Waiting for connection for: {_EXCHANGE}.* for #(\d{{1,18}})")
_GETS: Final = re.compile(
    rf"Http3Connection\.createAsync: Got HttpQuicConnection for {_EXCHANGE} is: quic:(\d{{1,18}})"
)
_STARTS: Final = re.compile(
    rf"Starting HTTP/3 exchange for QuicClientConnection\((\d{{1,18}})\)/streamId=(\d{{1,19}}) \({_EXCHANGE}\)"
)
_WAITED: Final = re.compile(rf"Completing pending waiter for: {_EXCHANGE} with (.*)")
_GIVES_UP: Final = re.compile(rf"No HTTP/3 connection created for requests to .* originally created for {_EXCHANGE}")
_QUIC: Final = re.compile(r"QuicClientConnection\((\d{1,18})\):? ?(.*)")
_LOCAL: Final = re.compile(
    r"(?:connectionId: (?P<scid>(?:[0-9a-f]{2}){0,20}),.* - |- local address: )\S*:(?P<port>\d{1,5})$"
)
_CLOSING: Final = re.compile(r"entering closing state, code .*? - (?:[\w.]+(?:Exception|Error): )?(.*)")
_FAILED: Final = re.compile(r"QUIC handshake failed: (.*)")
_DEADLINE: Final = re.compile(r"started QUIC idle timeout .*Deadline\((\d{4}-\d\d-\d\dT[\d:]{8})")
_CREATES: Final = re.compile(rf"Creating connection for Exchange {_EXCHANGE}")
_WRAPPED: Final = re.compile(r"^(?:java\.util\.concurrent\.(?:Completion|Execution)Exception: )+")
# What the idle timeout is by default, near enough for a zone.
_IDLE_NS: Final = 30 * NS


@dataclass(slots=True)
class _Request:
    """A request under way; `tried` once it has more to do with a QUIC connection than to have asked for one."""

    number: int
    method: str
    url: str
    began_ns: int
    quic: int | None = None
    over_quic: bool = False
    tried: bool = False
    given_up: bool = False
    error: str | None = None
    latest_ns: int = 0


@dataclass(slots=True)
class _Quic:
    """What the log says of a QUIC connection."""

    port: int | None = None
    scid: bytes | None = None
    error: str | None = None


class JdkRequests:
    """Follows them from record to record.

    Args:
        clock: The times of the log itself.

    Attributes:
        live_ns: When the record was read, where that is when it was written; None where the log's own clock is used.
        told: What has come of it.
    """

    def __init__(self, clock: WallClock) -> None:
        self.live_ns: int | None = None
        self.told: list[Told] = []
        self._clock = clock
        self._requests: BoundedTable[int, _Request] = BoundedTable(LIMIT)
        self._sent: BoundedTable[tuple[str, str], deque[int]] = BoundedTable(LIMIT)
        self._quic: BoundedTable[int, _Quic] = BoundedTable(LIMIT)
        self._creators: BoundedTable[int, int] = BoundedTable(LIMIT)
        self._streams: BoundedTable[int, tuple[str, int | None] | None] = BoundedTable(LIMIT)
        self._settle_at_ns = 0
        self._takers: dict[str, Callable[[str], None]] = {
            "REQUEST": self._request,
            "RESPONSE": self._response,
            "HTTP3": self._http3,
            "QUIC": self._quic_line,
            "ERROR": self._error,
        }

    @property
    def now_ns(self) -> int:
        """When the record was written, as near as can be told."""
        return self.live_ns if self.live_ns is not None else self._clock.now_ns or 0

    @property
    def within_ns(self) -> int:
        """How much later that may have been."""
        return 0 if self.live_ns is not None else self._clock.within_ns

    def record(self, category: str, text: str) -> None:
        """Take what a record says, with its category."""
        take = self._takers.get(category)
        if take is not None:
            take(text)
        self._settle(self.now_ns - SETTLED_NS)

    def alt_svc(self, value: str, origin: str | None, stream: int | None) -> None:
        """Take an Alt-Svc header of a response: from that origin, or on that stream of an HTTP/3 connection."""
        port = None
        if stream is not None:
            origin, port = self._streams.pop(stream) or (None, None)
        if origin is not None:
            self.told.append(
                ToldAltSvc(self.now_ns, "client-log", origin, (value,), local_port=port, within_ns=self.within_ns)
            )

    def unsupported(self, error: str) -> None:
        """A request was refused by its client: the one that had asked for a connection and got no further."""
        likely = [r for r in self._requests if r.error is None and not (r.tried or r.given_up)]
        if len(likely) == 1:
            likely[0].error = error[:LONGEST_ERROR]

    def finish(self) -> None:
        """Take note that the log has ended: what failed and went on nowhere has failed."""
        self._settle(None)
        for request in list(self._requests):
            self._requests.pop(request.number)
            parts = origin_and_url(request.url)
            if parts is not None and not request.tried:
                self.told.append(ToldAsked(request.latest_ns, parts[0], self.within_ns))

    def _request(self, text: str) -> None:
        found = _REQUEST.match(text)
        if found is None:
            return
        key = (found[2], found[1])
        times = self._sent.get(key)
        if times is None:
            times = deque(maxlen=64)
            self._sent.put(key, times)
        times.append(self.now_ns)

    def _response(self, text: str) -> None:
        found = _RESPONSE.match(text)
        if found is None or found[1] == "CONNECT":
            return
        parts = origin_and_url(found[2])
        if parts is None:
            return
        version, port = VERSIONS.get(found[4]), int(found[5]) if found[5] else None
        began_ns, quic = self._answered(found[1], found[2], over_quic=version == "HTTP/3")
        self.told.append(
            ToldExchange(
                time_ns=self.now_ns,
                known_from="client-log",
                origin=parts[0],
                method=found[1],
                url=parts[1],
                version=version,
                status=int(found[3]),
                local_port=port if port is not None and 0 < port < 65536 else None,
                began_ns=began_ns,
                within_ns=self.within_ns,
                scid=quic.scid if quic is not None and quic.port == port else None,
            )
        )

    def _answered(self, method: str, url: str, *, over_quic: bool) -> tuple[int | None, _Quic | None]:
        """When the request began that was answered now, and on which QUIC connection it was; let go of it.

        Either is None where it may be one of several.
        """
        times = self._sent.get((method, url)) or deque()
        sent = times[0] if len(times) == 1 else None
        if times:
            times.popleft()
        same = [
            request
            for request in self._requests
            if (request.method, request.url, request.over_quic) == (method, url, over_quic)
        ]
        if not same:
            return sent, None
        # One that has failed for good was not answered; one that has given QUIC up may have been.
        best = min(map(_doubt, same))
        likely = [request for request in same if _doubt(request) == best]
        self._requests.pop(likely[0].number)
        began_ns = likely[0].began_ns if len(likely) == 1 else None
        carriers = {request.quic for request in likely}
        return began_ns, self._quic.get(likely[0].quic or 0) if over_quic and len(carriers) == 1 else None

    def _asked(self, found: re.Match[str], first: int = 1) -> _Request:
        """The request that a line names by its URL, method and number, which stand in three groups."""
        url, method, number = found[first], found[first + 1], int(found[first + 2])
        known = self._requests.get(number)
        if known is None or (known.method, known.url) != (method, url):
            known = _Request(number, method, url, self.now_ns)
            self._requests.put(number, known)
        known.latest_ns = self.now_ns
        return known

    def _http3(self, text: str) -> None:
        if (found := _ASKS.match(text)) is not None:
            self._asked(found).given_up = False
        elif (found := _JOINS.match(text)) is not None:
            request = self._asked(found)
            request.tried, request.quic = True, self._creators.get(int(found[4]))
        elif (found := _CREATES.match(text)) is not None:
            self._asked(found).tried = True
        elif (found := _GETS.match(text)) is not None:
            request = self._asked(found)
            request.tried, request.quic = True, int(found[4])
            self._creators.put(int(found[3]), int(found[4]))
        elif (found := _STARTS.match(text)) is not None:
            request = self._asked(found, 3)
            request.tried, request.over_quic, request.quic = True, True, int(found[1])
            self._streams.put(int(found[2]), self._on_stream(int(found[2]), found[3], int(found[1])))
        elif (found := _WAITED.match(text)) is not None:
            if "Exception" in found[4]:
                self._asked(found).error = _WRAPPED.sub("", found[4])[:LONGEST_ERROR]
        elif (found := _GIVES_UP.match(text)) is not None:
            waiting = self._requests.get(int(found[3]))
            if waiting is not None:
                waiting.given_up, waiting.latest_ns = True, self.now_ns
        else:
            self._quic_line(text)

    def _on_stream(self, stream: int, url: str, quic: int) -> tuple[str, int | None] | None:
        """What the response on a stream is of; None where another connection's stream has the same number."""
        parts = origin_and_url(url)
        if parts is None or stream in self._streams:
            return None
        return parts[0], self._connection(quic).port

    def _connection(self, number: int) -> _Quic:
        known = self._quic.get(number)
        if known is None:
            known = _Quic()
            self._quic.put(number, known)
        return known

    def _quic_line(self, text: str) -> None:
        found = _QUIC.search(text)
        if found is None:
            return
        local = _LOCAL.match(found[2])
        if local is not None and 0 < int(local["port"]) < 65536:
            connection = self._connection(int(found[1]))
            connection.port = int(local["port"])
            if local["scid"]:
                connection.scid = bytes.fromhex(local["scid"])
        closing = _CLOSING.match(found[2])
        if closing is not None:
            connection = self._connection(int(found[1]))
            connection.error = connection.error or closing[1][:LONGEST_ERROR]
        idle = _DEADLINE.match(found[2])
        utc_ns = iso_utc(idle[1]) if idle is not None else None
        if utc_ns is not None:
            self._clock.anchor(utc_ns - _IDLE_NS, OWN_CLOCK)

    def _error(self, text: str) -> None:
        found = _QUIC.match(text)
        failed = _FAILED.match(found[2]) if found is not None else None
        if found is not None and failed is not None:
            self._connection(int(found[1])).error = _WRAPPED.sub("", failed[1])[:LONGEST_ERROR]

    def _settle(self, before_ns: int | None) -> None:
        """Tell of requests that have failed, and of which nothing has been said since a time (None: any)."""
        if before_ns is not None:
            if before_ns < self._settle_at_ns:
                return
            self._settle_at_ns = before_ns + SETTLED_NS // 4
        for request in list(self._requests):
            if (request.error is None and not request.given_up) or (
                before_ns is not None and request.latest_ns >= before_ns
            ):
                continue
            self._requests.pop(request.number)
            parts = origin_and_url(request.url)
            if parts is None:
                continue
            quic = self._quic.get(request.quic or 0)
            error = request.error or (quic.error if quic is not None else None)
            self.told.append(
                ToldExchange(
                    time_ns=request.latest_ns,
                    known_from="client-log",
                    origin=parts[0],
                    method=request.method,
                    url=parts[1],
                    local_port=quic.port if quic is not None else None,
                    began_ns=request.began_ns,
                    error=error or "no HTTP/3 connection, and no response",
                    within_ns=self.within_ns,
                    scid=quic.scid if quic is not None else None,
                )
            )


def _doubt(request: _Request) -> int:
    """How little a request looks like one that was answered."""
    return 2 if request.error is not None else int(request.given_up)
