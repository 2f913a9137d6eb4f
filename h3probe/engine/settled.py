"""What is told as soon as it is settled: of connections, and of what was seen and told about them.

Where only some processes are wanted it waits until its connection's process is known, or will not be known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.diagnose.origin import origin_of_url
from h3probe.track.told import ToldFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import ToldAltSvc, ToldExchange
    from h3probe.filters import Filters
    from h3probe.record_builder import RecordBuilder
    from h3probe.records import AnyRecord
    from h3probe.track.kept import KeptConnections
    from h3probe.track.proxy_facts import AltSvcSighting, ExchangeSighting
    from h3probe.track.told import ToldSighting
    from h3probe.track.tracker import Connection, IcmpSighting, Progress


@dataclass(slots=True)
class Settled:
    """Makes the records of it, and keeps what waits.

    Attributes:
        builder: Makes each.
        filters: What is to be reported.
        kept: The connections by their ids.
        news: Whether a connection was settled since somebody set this to false.
    """

    builder: RecordBuilder
    filters: Filters
    kept: KeptConnections
    news: bool = False
    _waiting: list[Connection] = field(default_factory=list)
    _waiting_icmp: list[IcmpSighting] = field(default_factory=list)
    _waiting_exchanges: list[ExchangeSighting] = field(default_factory=list)
    _waiting_alt_svc: list[AltSvcSighting] = field(default_factory=list)
    _waiting_told: list[ToldSighting[ToldExchange]] = field(default_factory=list)
    _waiting_told_alt_svc: list[ToldSighting[ToldAltSvc]] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether something waits until its connection's process is known."""
        return bool(
            self._waiting
            or self._waiting_icmp
            or self._waiting_exchanges
            or self._waiting_alt_svc
            or self._waiting_told
            or self._waiting_told_alt_svc
        )

    def records(self, progress: Progress) -> list[AnyRecord]:
        """The records of what a step of the tracker's brought, as far as they are to be told now."""
        records: list[AnyRecord] = [
            self.builder.dns(sighting) for sighting in progress.dns if self.filters.name(sighting.binding.name)
        ]
        for icmp in self._ripe(self._waiting_icmp, progress.icmp, lambda icmp: self._about(icmp.connection)):
            about = self._about(icmp.connection)
            if about is not None and self.filters.connection(about) and self.filters.origin(about) is not False:
                records.append(self.builder.icmp(icmp))
        records += self._seen_by_proxy(progress)
        records += self._told_of(progress)
        for connection in self._ripe(self._waiting, progress.settled, lambda connection: connection):
            self.news = True
            if not self.filters.connection(connection):
                continue
            if self.filters.origin(connection):  # Where it does not tell, its story decides, at the end.
                records += self.builder.connection(connection)
        return records

    def _seen_by_proxy(self, progress: Progress) -> list[AnyRecord]:
        """The records of exchanges and Alt-Svc lines."""
        exchanges = self._ripe(self._waiting_exchanges, progress.exchanges, lambda s: self._about(s.connection))
        alt_svc = self._ripe(self._waiting_alt_svc, progress.alt_svc, lambda s: self._about(s.connection))
        return [
            *(self.builder.exchange(s) for s in exchanges if self._wanted(s.connection, s.exchange.origin)),
            *(self.builder.alt_svc(s.seen) for s in alt_svc if self._wanted(s.connection, s.seen.origin)),
        ]

    def _told_of(self, progress: Progress) -> list[AnyRecord]:
        """The records of what the client's log, or decrypted traffic, tells."""
        if progress.told is None and not (self._waiting_told or self._waiting_told_alt_svc):
            return []
        told, about = progress.told or ToldFacts(), self._about
        exchanges = self._ripe(self._waiting_told, told.exchanges, lambda s: about(s.connection))
        alt_svc = self._ripe(self._waiting_told_alt_svc, told.alt_svc, lambda s: about(s.connection))
        return [
            *(self.builder.told(s) for s in exchanges if self._wanted(s.connection, s.told.origin)),
            *(self.builder.told_alt_svc(s.told) for s in alt_svc if self._wanted(s.connection, s.told.origin)),
        ]

    def _wanted(self, connection_id: str | None, origin: str) -> bool:
        connection = self._about(connection_id)
        known = connection is None or self.filters.connection(connection)
        return known and self.filters.named(origin_of_url(origin))

    def _about(self, connection_id: str | None) -> Connection | None:
        return self.kept.get(connection_id or "")

    def _ripe[T](self, waiting: list[T], new: list[T], about: Callable[[T], Connection | None]) -> list[T]:
        """What is to be told now; the rest waits until its connection's process is known, or will not be known."""
        pending = self.filters.pending
        if pending is None and not waiting:
            return new
        ripe: list[T] = []
        still: list[T] = []
        for each in (*waiting, *new):
            connection = about(each)
            (still if pending is not None and connection is not None and pending(connection) else ripe).append(each)
        waiting[:] = still
        return ripe
