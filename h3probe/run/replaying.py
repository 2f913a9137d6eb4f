"""A run played back: what was noted of it beside its packets, given to the engine as the run itself gave it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from h3probe.events import ConnectionOwner, RunBegan, RunEnded, TimePassed
from h3probe.run.attribution import PATIENCE_S, protocol_of
from h3probe.track.clock import NS
from h3probe.track.table import BoundedTable

if TYPE_CHECKING:
    from h3probe.engine import Engine
    from h3probe.events import Endpoint, Event
    from h3probe.records import AnyRecord
    from h3probe.run.attribution import Attribution
    from h3probe.track.tracker import Connection
    from h3probe.wire.packet import Transported

KEPT = 50_000
PATIENCE_NS = round(PATIENCE_S * NS)
OF_RUNS = (RunBegan, ConnectionOwner, TimePassed, RunEnded)


def run_began(engine: Engine, attribution: Attribution | None) -> RunBegan:
    """Note what a run that is about to begin is told, so that `Replay` can tell it again."""
    filters = engine.filters
    return RunBegan(
        time_ns=time.time_ns(),
        source=engine.source,
        format="relay" if engine.format == "relay" else "live",
        vantage=engine.vantage,
        local=() if attribution is None else tuple(sorted(attribution.local)),
        narrowed=attribution is not None and attribution.narrowed,
        of_command=engine.wants_command,
        since_ns=0 if attribution is None else attribution.since_ns,
        alone=engine.alone,
        behind_proxy=engine.behind_proxy,
        is_java=engine.is_java,
        conditions=tuple(engine.conditions),
        swallows_icmp=engine.swallows_icmp,
        origins=None if filters.origins is None else tuple(sorted(filters.origins)),
        ports=None if filters.ports is None else tuple(sorted(filters.ports)),
        expects=engine.expects,
    )


class Replay:
    """Feeds an engine events, those of a run's own among them.

    Args:
        engine: Explains; what was asked of it goes before what was asked of the run.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._began: RunBegan | None = None
        self._local: frozenset[bytes] = frozenset()
        self._connections: BoundedTable[tuple[int, Endpoint, int], Connection] = BoundedTable(KEPT)
        self._owners: BoundedTable[str, ConnectionOwner] = BoundedTable(KEPT)

    def feed(self, event: Event | Transported) -> list[AnyRecord]:
        """Take an event, and return the records that are settled by it."""
        if isinstance(event, OF_RUNS):
            return self._of_run(event)
        records = self._engine.feed(event)
        if self._began is not None:
            for opened in self._engine.take_opened():
                self._connections.put((protocol_of(opened), opened.client, opened.first.time_ns), opened)
        return records

    def _of_run(self, event: RunBegan | ConnectionOwner | TimePassed | RunEnded) -> list[AnyRecord]:
        match event:
            case RunBegan():
                self._begin(event)
            case ConnectionOwner():
                self._owned(event)
            case TimePassed():
                return self._engine.advance(event.time_ns)
            case RunEnded():
                self._engine.client_over = event.client_over
                return self._engine.advance(event.time_ns)
        return []

    def _begin(self, event: RunBegan) -> None:
        self._began, engine = event, self._engine
        filters = engine.filters
        self._local = frozenset(event.local)
        engine.tells_opened = True
        engine.format, engine.vantage = event.format, event.vantage
        engine.alone, engine.behind_proxy, engine.is_java = event.alone, event.behind_proxy, event.is_java
        engine.conditions, engine.swallows_icmp = event.conditions, event.swallows_icmp
        engine.wants_command = event.of_command
        engine.expects = engine.expects or event.expects
        if filters.origins is None and filters.ports is None:
            filters.origins = None if event.origins is None else frozenset(event.origins)
            filters.ports = None if event.ports is None else frozenset(event.ports)
        if event.format != "relay":  # which stands between, and whose own addresses are on both sides
            engine.tracker.hosts.local = self._local
        filters.wanted, filters.pending = self._wanted, self._pending

    def _owned(self, event: ConnectionOwner) -> None:
        connection = self._connections.get((event.protocol, event.local, event.time_ns))
        if connection is not None:
            connection.process = event.process
            self._owners.put(connection.id, event)

    def _wanted(self, connection: Connection) -> bool:
        """As `Attribution.wanted`."""
        if self._began is None or not self._began.narrowed:
            return True
        owner = self._owners.get(connection.id)
        if owner is not None:
            return owner.wanted
        client = connection.client
        return connection.first.time_ns >= self._began.since_ns and (client.host in self._local or client.is_loopback)

    def _pending(self, connection: Connection) -> bool:
        """As `Attribution.pending`, by the run's own time."""
        return (
            connection.id not in self._owners
            and self._engine.tracker.clock.now_ns - connection.first.time_ns < PATIENCE_NS
        )
