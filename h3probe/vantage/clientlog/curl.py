"""What `curl -v` prints, better with `--trace-ids --trace-time`: each line may have a time and two numbers before it.

    13:15:04.951398 [0-0] * Established connection to localhost (::1 port 4433) from ::1 port 33267
    13:15:04.951457 [0-0] > GET / HTTP/3
    13:15:04.951946 [0-0] < HTTP/3 200

Without the numbers requests must not overlap (curl -Z): what cannot be told apart is not told.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from h3probe.events import Endpoint, ToldAltSvc, ToldExchange
from h3probe.track.clock import NS
from h3probe.track.table import BoundedTable
from h3probe.vantage.clientlog.lines import LONGEST_LINE
from h3probe.vantage.clientlog.wallclock import WallClock, http_date
from h3probe.vantage.clientlog.words import LONGEST_ERROR, origin_and_url

if TYPE_CHECKING:
    from h3probe.events import Told

VERSIONS: Final = {"1.0": "HTTP/1.0", "1.1": "HTTP/1.1", "2": "HTTP/2", "3": "HTTP/3"}
LIMIT: Final = 4_096
# Where only the responses' dates tell the time.
DATES_WITHIN_NS: Final = 60 * NS
ALT_SVC_LINES: Final = 16

_LINE: Final = re.compile(r"(?:(\d\d:\d\d:\d\d\.\d{6}) )?(?:\[(\d{1,9}|x)-(\d{1,9}|x)\] )?([*<>{}]) ?(.*)$")
_AT: Final = r"([0-9A-Fa-f:.]{2,45})(?:%\S+)? port (\d{1,5})"
_ESTABLISHED: Final = re.compile(rf"(?:Established connection|Connected) to (\S+) \({_AT}\)(?: from {_AT})?")
_OPENED: Final = re.compile(r"\[HTTP/[23]\] \[\d+\] OPENED stream for (\S+)")
_REQUEST: Final = re.compile(r"([A-Z]{1,20}) (\S+) HTTP/(\d(?:\.\d)?)$")
_STATUS: Final = re.compile(r"HTTP/(\d(?:\.\d)?) (\d{3})")
_FAILED: Final = re.compile(r"curl: \((\d{1,3})\) (.*)")
_TLS: Final = re.compile(r"SSL (?:connection using|Trust Anchors)|ALPN: curl offers|TLSv1")
_PLACE: Final = re.compile(r"Host (\S+:\d{1,5}) was resolved")


@dataclass(slots=True)
class _Connection:
    """A connection by its number."""

    client: Endpoint | None = None
    server: Endpoint | None = None


@dataclass(slots=True)
class _Transfer:
    """A transfer by its number: the request that is under way on it.

    Its response may be printed before it, when both passed in one turn of curl's loop: `answered_ns` is when, then.
    """

    connection: _Connection | None = None
    began_ns: int | None = None
    method: str | None = None
    target: str = ""
    host: str | None = None
    opened: str | None = None
    tls: bool = False
    version: str | None = None
    status: int | None = None
    alt_svc: list[str] = field(default_factory=list)
    overlapping: int = 0
    answered_ns: int | None = None


class CurlLog:
    """Reads such a log line by line.

    Attributes:
        clock: The times of the log itself; used where no other time is given.
    """

    def __init__(self) -> None:
        self.clock = WallClock(24)
        self._dated = False
        self._live_ns: int | None = None
        self._connections: BoundedTable[str, _Connection] = BoundedTable(LIMIT)
        self._transfers: BoundedTable[str, _Transfer] = BoundedTable(LIMIT)
        self._latest = "0"
        self._told: list[Told] = []

    @staticmethod
    def recognises(line: str) -> bool:
        """Whether only such a log has such a line."""
        found = _LINE.match(line)
        if found is None:
            return False
        mark, text = found[4], found[5]
        return (mark == "*" and (_ESTABLISHED.match(text) is not None or text.startswith("  Trying "))) or (
            mark in "<>" and (_REQUEST.match(text) is not None or _STATUS.match(text) is not None)
        )

    def line(self, line: str, now_ns: int | None = None) -> bool:
        """Take a line, without its end.

        Args:
            line: What it says.
            now_ns: When it was read, where that is when it was written; the log's own clock is used otherwise.

        Returns:
            Whether the line is the log's own.
        """
        self._live_ns = now_ns
        line = line[:LONGEST_LINE]
        found = _LINE.match(line)
        if found is None:
            failed = _FAILED.match(line)
            if failed is not None:
                self._fail(failed[2])
            return False
        if found[1] is not None:
            self.clock.face(found[1])
        transfer, connection = found[2], found[3]
        text = found[5]
        match found[4]:
            case "*":
                self._note(transfer, connection, text)
            case ">":
                self._sent(transfer, connection, text)
            case "<":
                self._received(transfer, connection, text)
        return True

    def take(self) -> list[Told]:
        """Return what has been told since the last call."""
        told, self._told = self._told, []
        return told

    def finish(self, now_ns: int | None = None) -> None:
        """Take note that the log has ended; what was not answered is not told."""
        self._live_ns = now_ns

    @property
    def _now_ns(self) -> int:
        return self._live_ns if self._live_ns is not None else self.clock.now_ns or 0

    @property
    def _within_ns(self) -> int:
        if self._live_ns is not None:
            return 0
        return DATES_WITHIN_NS if self._dated else self.clock.within_ns

    def _transfer(self, number: str | None) -> _Transfer:
        key = number or ""
        known = self._transfers.get(key)
        if known is None:
            known = _Transfer()
            self._transfers.put(key, known)
        return known

    def _connection(self, number: str | None) -> _Connection | None:
        """The connection of a line; without numbers the latest, if it is the only one."""
        return self._connections.get(number if number is not None else self._latest)

    def _note(self, transfer: str | None, number: str | None, text: str) -> None:
        key = number if number is not None else self._latest
        established = _ESTABLISHED.match(text)
        if established is not None:
            if number is None:
                self._latest = key = str(int(self._latest) + 1)
            connection = self._connections.get(key) or _Connection()
            self._connections.put(key, connection)
            connection.server = _endpoint(established[2], established[3])
            connection.client = _endpoint(established[4], established[5])
            self._transfer(transfer).connection = connection
            return
        if text.lower().startswith(("re-using existing", "reusing existing")):
            self._begin(transfer)
            # Without numbers, the only connection there has been is the one; of several it may be any.
            sole = number is None and len(self._connections) != 1
            self._transfer(transfer).connection = None if sole else self._connection(number)
        elif text.startswith(("Host ", "  Trying ")):
            self._begin(transfer)
            place = _PLACE.match(text)
            if place is not None:
                self._transfer(transfer).host = place[1]
        elif _TLS.match(text):
            self._transfer(transfer).tls = True
        else:
            opened = _OPENED.match(text)
            if opened is not None:
                self._begin(transfer)
                self._transfer(transfer).opened = opened[1]

    def _begin(self, transfer: str | None) -> None:
        known = self._transfer(transfer)
        if known.began_ns is None:
            known.began_ns = self._now_ns

    def _sent(self, transfer: str | None, number: str | None, text: str) -> None:
        known = self._transfer(transfer)
        request = _REQUEST.match(text)
        if request is not None and known.method is None:
            self._begin(transfer)
            known.method, known.target = request[1], request[2]
            if number is not None:
                known.connection = self._connections.get(number) or known.connection
            known.host = None
        elif request is not None and transfer is None:
            known.overlapping = max(known.overlapping, 1) + 1  # Whose response comes next cannot be told.
        elif known.host is None and text.lower().startswith("host: "):
            known.host = text[6:].strip()
        elif not text and known.answered_ns is not None:
            self._answered(transfer, known, known.answered_ns)

    def _received(self, transfer: str | None, number: str | None, text: str) -> None:
        known = self._transfer(transfer)
        status = _STATUS.match(text)
        if status is not None:
            known.version, known.status = VERSIONS.get(status[1]), int(status[2])
            known.alt_svc.clear()
            if number is not None:
                known.connection = self._connections.get(number) or known.connection
            return
        name, _, value = text.partition(": ")
        match name.lower():
            case "alt-svc":
                if len(known.alt_svc) < ALT_SVC_LINES:
                    known.alt_svc.append(value)
            case "date":
                self._date(value)
            case "" if known.status is not None and known.status >= 200 and known.method is None and known.began_ns:
                known.answered_ns = self._now_ns
            case "" if known.status is not None:
                self._answered(transfer, known, self._now_ns)

    def _date(self, value: str) -> None:
        utc_ns = http_date(value)
        if utc_ns is None:
            return
        if self.clock.now_ns is None or self._dated:
            self._dated = True
            self.clock.now_ns = utc_ns
        self.clock.anchor(utc_ns)

    def _answered(self, transfer: str | None, known: _Transfer, at_ns: int) -> None:
        """The heads of a request and of its response, which came at this time, are complete."""
        if known.status is not None and known.status < 200:
            known.status = None
            return
        if known.overlapping > 1:
            known.overlapping -= 1
            known.status = None
            return
        self._transfers.pop(transfer or "")
        if known.overlapping:
            return
        parts = self._url(known)
        if parts is None or known.method in (None, "CONNECT"):
            if known.method == "CONNECT":
                self._transfer(transfer).began_ns = known.began_ns
            return
        connection = known.connection or _Connection()
        if known.alt_svc:
            self._told.append(
                ToldAltSvc(
                    at_ns,
                    "client-log",
                    parts[0],
                    tuple(known.alt_svc),
                    client=connection.client,
                    server=connection.server,
                    within_ns=self._within_ns,
                )
            )
        self._tell(known, parts, at_ns)

    def _tell(self, known: _Transfer, parts: tuple[str, str], at_ns: int, error: str | None = None) -> None:
        connection = known.connection or _Connection()
        self._told.append(
            ToldExchange(
                time_ns=at_ns,
                known_from="client-log",
                origin=parts[0],
                method=known.method or "",
                url=parts[1],
                version=known.version if error is None else None,
                status=known.status if error is None else None,
                local_port=connection.client.port if connection.client is not None else None,
                client=connection.client,
                server=connection.server,
                began_ns=None if self._dated and self._live_ns is None else known.began_ns,
                error=error,
                within_ns=self._within_ns,
            )
        )

    def _url(self, known: _Transfer) -> tuple[str, str] | None:
        if known.opened is not None:
            return origin_and_url(known.opened)
        if known.target.startswith(("http://", "https://")):
            return origin_and_url(known.target)
        if known.host is None:
            return None
        target = known.target if known.target.startswith("/") else "/"
        return origin_and_url(f"{'https' if known.tls else 'http'}://{known.host}{target}")

    def _fail(self, error: str) -> None:
        """The last line: the one transfer that is under way has failed; of several it may be any."""
        under_way = [t for t in self._transfers if t.began_ns is not None and t.method != "CONNECT"]
        if len(under_way) == 1 and (under_way[0].tls or under_way[0].method is not None):
            known = under_way[0]
            parts = self._url(known)
            if parts is not None:
                url = parts[1] if known.method is not None else ""
                self._tell(known, (parts[0], url), self._now_ns, error[:LONGEST_ERROR])
        self._transfers = BoundedTable(LIMIT)


def _endpoint(address: str | None, port: str | None) -> Endpoint | None:
    try:
        number = int(port or "")
        return Endpoint(ipaddress.ip_address(address or "").packed, number) if 0 < number < 65536 else None
    except ValueError:
        return None
