"""What the client's own log, or decrypted traffic, tells of, joined with the connections on the wire.

A log names no packets. What it does name (a port, an address, a connection ID, a time) must leave one connection, and
nothing that is known of that connection may speak against it: a log may be another run's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from h3probe.events import ToldAsked, ToldExchange
from h3probe.text import bare_name, clean, seconds
from h3probe.track.clock import NS
from h3probe.track.mark import Mark
from h3probe.track.table import BoundedTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.events import Told, ToldAltSvc
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.timeline import Timeline

    Connection = QuicConnection | TcpConnection
    _ByPort = BoundedTable[tuple[Literal["quic", "tcp"], int], list[Connection]]

LIMIT = 20_000
PORTS_LIMIT = 50_000
# Connections from one port that are kept apart, the latest ones.
PER_PORT = 64
# What a log's line takes to be written, and read.
DELAY_NS = NS // 2
# How far apart a client's time and the capture's may be at most, on a machine with too much to do.
SLACK_NS = 2 * NS
# How often, in the capture's time, what waits for its connection is looked at.
RETRY_NS = NS // 4
# A time told to no more than a second says nothing of what took less than a few.
COARSE = 5


@dataclass(frozen=True, slots=True)
class ToldSighting[T: ToldExchange | ToldAltSvc]:
    """What was told of, and the connection that it is about.

    Attributes:
        told: The report.
        connection: Id of the connection; None where it is not certain.
    """

    told: T
    connection: str | None


@dataclass(slots=True)
class ToldFacts:
    """What was told of so far.

    Attributes:
        exchanges: Requests and responses, in the order in which they were told.
        alt_svc: Alt-Svc lines.
        asked: Requests of which no more is told than that they were to be HTTP/3.
    """

    exchanges: list[ToldSighting[ToldExchange]] = field(default_factory=list)
    alt_svc: list[ToldSighting[ToldAltSvc]] = field(default_factory=list)
    asked: list[ToldAsked] = field(default_factory=list)


class ToldTracker:
    """Joins what is told with connections, once all that could be meant have been seen.

    Args:
        timeline: Where lines for people go.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        # Made when something is told: most captures have nobody who tells.
        self._by_port: _ByPort | None = None
        self._latest: deque[Connection] = deque()
        self._waiting: list[ToldExchange | ToldAltSvc] = []
        self._retry_ns = 0
        self._new: ToldFacts | None = None
        self.facts = ToldFacts()

    def opened(self, connection: Connection) -> None:
        """Take note of a new connection."""
        self._latest.append(connection)
        if self._by_port is not None:
            self._sort(self._by_port, connection)
        if len(self._latest) > LIMIT:
            gone = self._latest.popleft()
            same = None if self._by_port is None else self._by_port.peek((gone.transport, gone.client.port))
            if same and same[0] is gone:
                del same[0]

    def let_go(self, connections: Iterable[Connection]) -> None:
        """Keep connections no longer: where nobody has told of any of them, nobody will."""
        gone = {connection.id for connection in connections}
        self._latest = deque(connection for connection in self._latest if connection.id not in gone)

    @staticmethod
    def _sort(by_port: _ByPort, connection: Connection) -> None:
        key = (connection.transport, connection.client.port)
        same = by_port.get(key)
        if same is None:
            same = []
            by_port.put(key, same)
        same.append(connection)
        del same[:-PER_PORT]

    def feed(self, told: Told) -> None:
        """Take a report; it is joined a little later."""
        if self._by_port is None:
            self._by_port = BoundedTable(PORTS_LIMIT)
            for connection in self._latest:
                self._sort(self._by_port, connection)
        if isinstance(told, ToldAsked):
            if len(self.facts.asked) < LIMIT:
                self.facts.asked.append(told)
        elif len(self._waiting) < LIMIT:
            self._waiting.append(told)

    def advance(self, now_ns: int) -> None:
        """Join what is old enough for all its packets to have been seen.

        Args:
            now_ns: The capture's time.
        """
        if not self._waiting or now_ns < self._retry_ns:
            return
        self._retry_ns = now_ns + RETRY_NS
        ripe = [told for told in self._waiting if told.time_ns + told.within_ns + DELAY_NS <= now_ns]
        if ripe:
            self._waiting = [told for told in self._waiting if told.time_ns + told.within_ns + DELAY_NS > now_ns]
            self._join(ripe)

    @property
    def busy(self) -> bool:
        """Whether there is something to join, or to take."""
        return bool(self._waiting) or self._new is not None

    def finish(self) -> None:
        """Join the rest."""
        waiting, self._waiting = self._waiting, []
        self._join(waiting)

    def take(self) -> ToldFacts | None:
        """Return what has been joined, or found to join nothing, since the last call; None where that is nothing."""
        new, self._new = self._new, None
        return new

    def _join(self, reports: Iterable[ToldExchange | ToldAltSvc]) -> None:
        new = self._new = self._new or ToldFacts()
        for told in reports:
            connection = self._find(told)
            name = connection.id if connection is not None else None
            if isinstance(told, ToldExchange):
                sighting = ToldSighting(told, name)
                new.exchanges.append(sighting)
                if len(self.facts.exchanges) < LIMIT:
                    self.facts.exchanges.append(sighting)
                if connection is not None:
                    self._name(connection, told.origin)
                    self._say(connection, told)
            else:
                seen = ToldSighting(told, name)
                new.alt_svc.append(seen)
                if len(self.facts.alt_svc) < LIMIT:
                    self.facts.alt_svc.append(seen)

    @staticmethod
    def _name(connection: Connection, origin: str) -> None:
        """Remember a connection's host by its first exchange; not where it may be a proxy's, or an alternative's."""
        host, _, port = origin.lower().partition("://")[2].rpartition(":")
        if connection.told_host is None and str(connection.server.port) == port:
            connection.told_host = clean(host.strip("[]"), 255)

    def _find(self, told: ToldExchange | ToldAltSvc) -> Connection | None:
        """Return the one connection that a report can be about, None where there is none, or more than one."""
        port = told.client.port if told.client is not None else told.local_port
        if port is None or self._by_port is None:
            return None
        version = told.version if isinstance(told, ToldExchange) else None
        transports: list[Literal["quic", "tcp"]] = ["quic", "tcp"]
        if version is not None:
            transports = ["quic"] if version == "HTTP/3" else ["tcp"]
        fitting = [c for t in transports for c in self._by_port.get((t, port)) or () if _fits(told, c)]
        scid = told.scid if isinstance(told, ToldExchange) else None
        if scid is not None:
            fitting = [c for c in fitting if c.transport == "quic" and c.client_scid == scid]
        return fitting[0] if len(fitting) == 1 else None

    def _say(self, connection: Connection, told: ToldExchange) -> None:
        took = took_seconds(told)
        after = f" after {seconds(took)}" if took is not None else ""
        what = "no response" if told.status is None else str(told.status)
        version = f"{clean(told.version, 16)} " if told.version else ""
        text = f"{version}{clean(told.method, 16)} {clean(told.url, 60)}: {what}{after} ({told.known_from})"
        if told.status is None and told.error:
            text += f": {clean(told.error, 80)}"
        self._timeline.say(
            connection,
            Mark(None, told.time_ns),
            text,
            transport=connection.transport,
            outgoing=False,
            weight="bad" if told.status is None else "good",
        )


def took_seconds(told: ToldExchange) -> float | None:
    """What an exchange took, None where that is not told, or told too coarsely."""
    if told.began_ns is None or told.time_ns - told.began_ns < COARSE * told.within_ns:
        return None
    return (told.time_ns - told.began_ns) / NS


def _fits(told: ToldExchange | ToldAltSvc, connection: Connection) -> bool:
    """Whether nothing that is known of a connection speaks against a report."""
    if told.client is not None and told.client != connection.client:
        return False
    if told.server is not None and told.server != connection.server:
        return False
    slack_ns = SLACK_NS + told.within_ns
    # What is told of a connection is told while it lives; what failed may have failed in silence, and a client that
    # waits sends again after twice the time.
    first_ns, last_ns = connection.first.time_ns, connection.last.time_ns
    if isinstance(told, ToldExchange) and told.status is None:
        last_ns += last_ns - first_ns
    if not first_ns - slack_ns <= told.time_ns <= last_ns + slack_ns:
        return False
    return told.server is not None or _leads_to(connection, told.origin)


def _leads_to(connection: Connection, origin: str) -> bool:
    """Whether a connection can have been made for an origin, `https://host:port`."""
    scheme, _, place = origin.lower().partition("://")
    host, _, port = place.rpartition(":")
    if connection.transport == "tcp" and connection.tunnels_asked:
        return any(tunnel.open and tunnel.target.lower() == place for tunnel in connection.tunnels_asked)
    hello = connection.hello
    name = bare_name(hello.sni) if hello is not None and hello.sni and not hello.ech else None
    if name is not None and name != host:
        return False
    if connection.transport == "tcp" and hello is None and scheme == "http" and connection.plain:
        return True  # It may be a proxy's.
    # An Alt-Svc may have led QUIC to another port; a name in the ClientHello tells that it is this origin's.
    return str(connection.server.port) == port or (connection.transport == "quic" and name == host)
