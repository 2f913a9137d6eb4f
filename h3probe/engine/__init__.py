"""The engine: events in, moments and records out. The same one runs live, on a capture file and in a test.

It has no clock, no file and no socket: time comes in with the events, and whoever drives it prints what it gives.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from h3probe import __version__
from h3probe.diagnose.conclusion import conclude
from h3probe.diagnose.expectation import Account
from h3probe.diagnose.rule import CaptureFacts
from h3probe.engine.ending import Ending
from h3probe.engine.settled import Settled
from h3probe.engine.silence import Silence
from h3probe.engine.stories import Circumstances, Stories
from h3probe.engine.teller import Teller
from h3probe.events import (
    CaptureEnded,
    ConnectionOwner,
    Counted,
    Dropped,
    Frame,
    RunBegan,
    RunEnded,
    Secrets,
    SocketOwner,
    TimePassed,
    ToldAltSvc,
    ToldAsked,
    ToldExchange,
    Uncounted,
    Unreadable,
)
from h3probe.filters import Filters
from h3probe.record_builder import RecordBuilder
from h3probe.records import AnyRecord, CaptureRecord, ExchangeRecord, SummaryRecord
from h3probe.track.clock import NS
from h3probe.track.kept import KeptConnections
from h3probe.track.mark import Mark
from h3probe.track.tracker import Tracker
from h3probe.wire.link_names import link_type_name
from h3probe.wire.packet import TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from h3probe.diagnose.missing import Missing
    from h3probe.diagnose.story import Story, Vantage
    from h3probe.events import Event, Told
    from h3probe.records import ExpectationRecord, HttpVersion, Moment, StoryOutline
    from h3probe.track.tracker import Connection, Progress
    from h3probe.wire.packet import Transported

Output = AnyRecord | object
SETTLED_AT_ONCE = TOLD_AT_ONCE = 1_000
# How often, in the capture's time, a live run looks for stories that are over.
CONCLUDE_NS = 5 * NS


@dataclass(slots=True)
class Engine:
    """Explains a stream of events.

    Feed it events with `feed`, and take what it has to say with `take_moments` and the records that `feed`,
    and at the end `finish`, return.

    Attributes:
        source: File names, interfaces or relays, for the first record.
        format: The capture's format, for the first record.
        filters: What is to be reported.
        vantage: Where from; a relay and a proxy do not see what goes past them.
        wants_command: Whether only a command's traffic is wanted.
        client_over: Whether the client whose traffic is wanted has ended.
        tells_opened: Whether somebody takes new connections with `take_opened`.
        behind_proxy: The command that was given a proxy, so that its silence means something.
        alone: The command that has a network of its own, likewise.
        conditions: What was changed on purpose on the way, in words; verdicts name it.
        swallows_icmp: What is on the way and lets no ICMP error come back; None where they do.
        is_java: Whether that command is Java; None where its name does not tell.
        expects: The version that every exchange is expected to be of; None for no expectation.
        expectations: Whether that is so, an origin each; there once all is settled.
        outlines: Where the outlines of the stories go, likewise; None for nowhere.
        packs: Whether connections that are over may be packed when there are too many to be kept; otherwise the oldest
            are forgotten. Whoever explains a capture alone can wait for its end with what they come to.
        on_decrypted: Told of what decrypted traffic tells of.
        tracker: Decodes and follows.
    """

    source: str
    format: str | None
    filters: Filters = field(default_factory=Filters)
    vantage: Vantage = "wire"
    wants_command: bool = False
    tells_opened: bool = False
    client_over: bool = False
    behind_proxy: str | None = None
    alone: str | None = None
    conditions: Sequence[str] = ()
    swallows_icmp: str | None = None
    is_java: bool | None = None
    expects: HttpVersion | None = None
    expectations: list[ExpectationRecord] = field(default_factory=list)
    outlines: list[StoryOutline] | None = None
    packs: bool = False
    on_decrypted: Callable[[Told], None] | None = None
    tracker: Tracker = field(default_factory=Tracker)
    counts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    damaged: bool = False
    dropped: Counter[str] = field(default_factory=Counter)
    uncounted: int = 0
    _builder: RecordBuilder = field(init=False)
    _teller: Teller = field(init=False)
    _settled: Settled = field(init=False)
    _kept: KeptConnections = field(default_factory=KeptConnections)
    _opened: list[Connection] = field(default_factory=list)
    _first: Mark | None = None
    _announced: bool = False
    _accounts: Counter[Account] = field(default_factory=Counter)
    _dropped: int = 0
    _conclude_at_ns: int = 0

    def __post_init__(self) -> None:
        self._builder = RecordBuilder(self.tracker.clock)
        self._teller = Teller(self._builder, self.tracker.clock)
        self._settled = Settled(self._builder, self.filters, self._kept)

    @property
    def exit_status(self) -> int:
        """1 when a finding was a problem or an expectation was not met, else 0."""
        return 1 if self._teller.problem or not self.as_expected else 0

    @property
    def as_expected(self) -> bool:
        """Whether no expectation has come to nothing, as far as is settled."""
        return all(expectation.met for expectation in self.expectations)

    def feed(self, event: Event | Transported) -> list[AnyRecord]:  # noqa: C901 - a case for each event
        """Take one event, or what a frame was decoded to; return the records that are settled by it."""
        match event:
            case UdpDatagram() | TcpSegment():
                self._first = self._first or Mark(event.frame, event.time_ns)
                self.tracker.follow(event, event.time_ns)
            case Frame():
                self._first = self._first or Mark(event.number, event.time_ns)
                self.tracker.feed(event)
            case Counted():
                self.tracker.count(event)
            case SocketOwner():
                self.tracker.attribute(event)
            case Dropped():
                self.dropped[event.reason] += event.count
            case Uncounted():
                self.uncounted += event.count
            case Unreadable():
                self.unreadable.append(event.reason)
                self.damaged = self.damaged or event.damaged
            case Secrets():
                self.tracker.add_secrets(event)
            case ToldExchange() | ToldAltSvc() | ToldAsked():
                self.tracker.feed_told(event)
            case RunBegan() | ConnectionOwner() | TimePassed() | RunEnded() | CaptureEnded():
                pass  # Whoever plays a run back sees to these.
            case _:
                self.tracker.feed_proxy(event)
        if self.tracker.quiet and (self.filters.pending is None or not self._settled.waits):
            return []
        return self._collect(self.tracker.take())

    def announce(self) -> list[AnyRecord]:
        """Return the first record, once; the time of the first packet must be known, or there is none."""
        if self._announced:
            return []
        self._announced = True
        clock = self.tracker.clock
        record = CaptureRecord(
            id="capture-1",
            at=0.0,
            time=None if clock.start_ns is None else clock.rfc3339(clock.start_ns),
            schema=self._builder.schema,
            h3probe=__version__,
            source=self.source,
            format=self.format,
        )
        return self._counted([record])

    def advance(self, now_ns: int) -> list[AnyRecord]:
        """Let time pass without a packet; return the records that are settled by it, findings included.

        Args:
            now_ns: The time now, by the clock that stamps the packets.
        """
        if self.tracker.clock.start_ns is None:
            return []
        self.tracker.clock.see(now_ns)
        self.tracker.sweep(now_ns)
        records = self._collect(self.tracker.take())
        if self._settled.news and now_ns >= self._conclude_at_ns:
            self._settled.news = False
            self._conclude_at_ns = now_ns + CONCLUDE_NS
            self._teller.conditions = self.conditions
            for story in self.stories():
                if story.settled:
                    records += self._counted(self._teller.conclusions(conclude(story).so_far))
        return records

    def connection(self, connection_id: str | None) -> Connection | None:
        """Return a connection by its id, None when it is not kept."""
        return self._kept.get(connection_id or "")

    def take_opened(self) -> list[Connection]:
        """Return the connections that are new since the last call."""
        opened, self._opened = self._opened, []
        return opened

    def take_moments(self) -> list[Moment]:
        """Return what happened since the last call, for the timeline."""
        return [m for m in self.tracker.timeline.take() if self._shown(m)]

    def _shown(self, moment: Moment) -> bool:
        connection = self._kept.peek(moment.connection or "")
        if connection is None:
            return True
        if self.filters.ports is not None and connection.server.port not in self.filters.ports:
            return False
        return self.filters.origin(connection) is not False

    def settle(self) -> Iterator[list[AnyRecord]]:
        """Settle all connections, some at a time, where a source has ended that had many; `finish` is still to come."""
        self.filters.pending = None
        while self.tracker.settle(SETTLED_AT_ONCE):
            yield self._collect(self.tracker.take())

    def finish(self, *, truncated: bool = False, dropped: int | None = None) -> list[AnyRecord]:
        """Settle everything; return what was still to be said, the verdicts and the summary.

        Args:
            truncated: The source could not be read to its end.
            dropped: Packets lost before they were seen, where the source knows.
        """
        return [*chain.from_iterable(self.ending(truncated=truncated, dropped=dropped))]

    def ending(self, *, truncated: bool = False, dropped: int | None = None) -> Iterator[list[AnyRecord]]:
        """The same, some at a time: of a large capture it is more than there should be at once."""
        self.tracker.finish()
        self.filters.pending = None
        yield self.announce() + self._collect(self.tracker.take())
        records = self._diagnose(truncated=truncated, dropped=dropped or 0)
        while some := list(islice(records, TOLD_AT_ONCE)):
            yield self._counted(some)
        yield self._counted([self._summary(truncated=truncated, dropped=dropped)])

    def _collect(self, progress: Progress) -> list[AnyRecord]:
        self._keep(progress.opened)
        if not progress.tells and not self._settled.waits:
            return []
        if self.on_decrypted is not None:
            for event in progress.decrypted:
                self.on_decrypted(event)
        records = self._settled.records(progress)
        if not records:
            return records
        return self.announce() + self._counted(records)

    def _counted(self, records: list[AnyRecord]) -> list[AnyRecord]:
        self.counts.update(record.type for record in records)
        if self.expects is not None:
            seen = [r for r in records if isinstance(r, ExchangeRecord)]
            self._accounts.update(Account(r.origin, r.version, r.status is not None) for r in seen)
        return records

    def _keep(self, opened: list[Connection]) -> None:
        packs = self.packs and self._by_wire_alone
        for connection in opened:
            if packed := self._kept.put(connection, packs=packs):
                self.tracker.told.let_go(packed)
        if self.tells_opened:
            self._opened += opened

    @property
    def _by_wire_alone(self) -> bool:
        """Whether nothing but packets tells of connections: what else does may tell of several clients' at once."""
        tracker = self.tracker
        return tracker.decrypter is None and not tracker.told.facts.exchanges and tracker.proxy.facts.ready is None

    def stories(self) -> list[Story]:
        """Return the stories of all connections kept, as far as they were asked about."""
        return self._stories.of(list(self._kept))[0]

    @property
    def _stories(self) -> Stories:
        return Stories(self.tracker, self.filters, self._kept, self._circumstances)

    @property
    def _circumstances(self) -> Circumstances:
        return Circumstances(
            vantage=self.vantage,
            of_command=self.wants_command,
            client_over=self.client_over,
            behind_proxy=self.behind_proxy,
            alone=self.alone,
            is_java=self.is_java,
            swallows_icmp=self.swallows_icmp,
            live=self.format == "live",
            lossy=self._lossy,
        )

    @property
    def _lossy(self) -> bool:
        """Whether packets were lost before they were seen, by what was told on the way or at the end."""
        return self._dropped > 0 or any(self.dropped.values())

    def _diagnose(self, *, truncated: bool, dropped: int) -> Iterator[AnyRecord]:
        self._teller.conditions = self.conditions
        self._dropped = dropped
        ending = Ending(self._teller, self.filters, self.expects, outlines=self.outlines)
        stories = self._stories
        for connections in self._kept.by_client(self.tracker.hosts.identity):
            ending.add(connections, *stories.of(connections))
        facts = self._facts(ending.missing, truncated=truncated)
        of_capture = ending.of_capture(facts)
        if self.expects is not None:
            complete = not (facts.truncated or facts.forgotten or facts.left or facts.unreadable or self._lossy)
            self.expectations = ending.expectations(self.expects, self._accounts, complete=complete)
        silence = Silence(self._teller, self.tracker, self.filters, stories.run)
        return chain(ending.records(), of_capture, ending.verdicts(silence), self.expectations)

    def _facts(self, missing: Missing, *, truncated: bool) -> CaptureFacts:
        return CaptureFacts(
            truncated=truncated,
            damaged=self.damaged,
            unreadable=self.unreadable,
            dropped=[(number, reason) for reason, number in self.dropped.items()],
            malformed=self.tracker.decoder.malformed,
            closed=self.tracker.decoder.closed,
            forgotten=self._kept.evicted,
            left=self.tracker.evicted,
            missing=missing,
            rests=self.tracker.tcp.rests,
            first=self._first,
            proxy_died=self.tracker.proxy.facts.died,
        )

    def _summary(self, *, truncated: bool, dropped: int | None) -> SummaryRecord:
        clock, tracker = self.tracker.clock, self.tracker
        known = sum(self.dropped.values()) if self.dropped else None
        counts = Counter(self.counts)
        counts["summary"] += 1
        return SummaryRecord(
            id="summary-1",
            at=clock.at(clock.now_ns),
            time=clock.time(),
            packets=tracker.packets,
            link_types=[link_type_name(n) for n in sorted(tracker.decoder.link_types)],
            truncated=truncated,
            dropped=known if known is not None else dropped,
            malformed=tracker.decoder.malformed,
            evicted=max(tracker.evicted, self._kept.evicted),
            records=dict(sorted(counts.items())),
            uncounted=self.uncounted,
            exit_status=self.exit_status,
        )
