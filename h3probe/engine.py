"""The engine: events in, moments and records out. The same one runs live, on a capture file and in a test.

It has no clock, no file and no socket: time comes in with the events, and whoever drives it prints what it gives.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from h3probe import __version__
from h3probe.diagnose.conclusion import conclude
from h3probe.diagnose.expectation import Account, judge
from h3probe.diagnose.grouping import Beside, add_proxy_facts, origin_of_url, tell_stories
from h3probe.diagnose.rule import CaptureFacts
from h3probe.diagnose.rules import CATALOGUE
from h3probe.diagnose.told import add_told_facts
from h3probe.diagnose.untried import URI_ONLY, untried_origins
from h3probe.diagnose.verdict import client_text, deserves_verdict
from h3probe.diagnose.words import past_proxy
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
    Unreadable,
)
from h3probe.filters import Filters
from h3probe.record_builder import RecordBuilder
from h3probe.records import (
    AnyRecord,
    CaptureRecord,
    ExchangeRecord,
    ExpectationRecord,
    SummaryRecord,
    VerdictRecord,
)
from h3probe.text import count as number_of
from h3probe.track.clock import NS
from h3probe.track.mark import Mark
from h3probe.track.table import BoundedTable
from h3probe.track.told import ToldFacts
from h3probe.track.tracker import Tracker
from h3probe.wire.link import link_type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from h3probe.diagnose.conclusion import Conclusion
    from h3probe.diagnose.rule import Finding
    from h3probe.diagnose.story import Story, Vantage
    from h3probe.events import Event, Told
    from h3probe.records import HttpVersion, Moment
    from h3probe.track.proxied import AltSvcSighting, ExchangeSighting
    from h3probe.track.told import ToldSighting
    from h3probe.track.tracker import Connection, IcmpSighting, Progress

Output = AnyRecord | object
# Connections kept for the diagnosis; what had to be forgotten is counted and said.
KEPT_CONNECTIONS = 20_000
UNOWNED = "Owner not known"
SILENT = "Nothing was sent to this origin: no QUIC packet, no TCP connection and no CONNECT to it."
SILENT_BEHIND_PROXY = "Nothing was sent: no CONNECT to the proxy, no QUIC packet, no TCP connection."
NOT_KNOWN_TO_BE_ITS = (
    "No CONNECT to the proxy, and no QUIC packet and no TCP connection that is known to be the command's; the owner of "
    "{} on this host is not known."
)
SILENT_ALONE = "It asked for nothing: no QUIC packet and no TCP connection in its network."
ASKED_DNS = "It asked for names, {}and for nothing else: no QUIC packet and no TCP connection in its network."
# By whether the command is Java.
HINTS = {True: f" With JDK 26 {URI_ONLY}", None: f" If it is a JDK 26 client, {URI_ONLY}", False: ""}
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
    on_decrypted: Callable[[Told], None] | None = None
    tracker: Tracker = field(default_factory=Tracker)
    counts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    _builder: RecordBuilder = field(init=False)
    _kept: BoundedTable[str, Connection] = field(default_factory=lambda: BoundedTable(KEPT_CONNECTIONS))
    _opened: list[Connection] = field(default_factory=list)
    _first: Mark | None = None
    _announced: bool = False
    _problem: bool = False
    _accounts: Counter[Account] = field(default_factory=Counter)
    _finding_ids: count[int] = field(default_factory=lambda: count(1))
    _told: set[tuple[str, ...]] = field(default_factory=set)
    _undecided: list[Connection] = field(default_factory=list)
    _waiting: list[Connection] = field(default_factory=list)
    _waiting_icmp: list[IcmpSighting] = field(default_factory=list)
    _waiting_exchanges: list[ExchangeSighting] = field(default_factory=list)
    _waiting_alt_svc: list[AltSvcSighting] = field(default_factory=list)
    _waiting_told: list[ToldSighting[ToldExchange]] = field(default_factory=list)
    _waiting_told_alt_svc: list[ToldSighting[ToldAltSvc]] = field(default_factory=list)
    _settled_since: bool = False
    _conclude_at_ns: int = 0

    def __post_init__(self) -> None:
        self._builder = RecordBuilder(self.tracker.clock)

    @property
    def exit_status(self) -> int:
        """1 when a finding was a problem or an expectation was not met, else 0."""
        return 1 if self._problem or not self.as_expected else 0

    @property
    def as_expected(self) -> bool:
        """Whether no expectation has come to nothing, as far as is settled."""
        return all(expectation.met for expectation in self.expectations)

    def feed(self, event: Event) -> list[AnyRecord]:  # noqa: C901 - a case for each event
        """Take one event; return the records that are settled by it."""
        match event:
            case Frame():
                if self._first is None:
                    self._first = Mark(event.number, event.time_ns)
                self.tracker.feed(event)
            case Counted():
                self.tracker.count(event)
            case SocketOwner():
                self.tracker.attribute(event)
            case Dropped():
                self.dropped[event.reason] += event.count
            case Unreadable():
                self.unreadable.append(event.reason)
            case Secrets():
                self.tracker.add_secrets(event)
            case ToldExchange() | ToldAltSvc() | ToldAsked():
                self.tracker.feed_told(event)
            case RunBegan() | ConnectionOwner() | TimePassed() | RunEnded() | CaptureEnded():
                pass  # Whoever plays a run back sees to these.
            case _:
                self.tracker.feed_proxy(event)
        if self.tracker.quiet and not self._waits:
            return []
        return self._collect(self.tracker.take())

    @property
    def _waits(self) -> bool:
        """Whether something waits until its connection's process is known."""
        return bool(
            self._waiting
            or self._waiting_icmp
            or self._waiting_exchanges
            or self._waiting_alt_svc
            or self._waiting_told
            or self._waiting_told_alt_svc
        )

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
        if self._settled_since and now_ns >= self._conclude_at_ns:
            self._settled_since = False
            self._conclude_at_ns = now_ns + CONCLUDE_NS
            for story in self.stories():
                if story.settled:
                    records += self._counted(self._conclusions(conclude(story)))
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

    def finish(self, *, truncated: bool = False, dropped: int | None = None) -> list[AnyRecord]:
        """Settle everything; return what was still to be said, the verdicts and the summary.

        Args:
            truncated: The source ended in the middle of a packet.
            dropped: Packets lost before they were seen, where the source knows.
        """
        self.tracker.finish()
        self.filters.pending = None
        records = self.announce() + self._collect(self.tracker.take())
        records += self._counted(self._diagnose(truncated=truncated, dropped=dropped or 0))
        return records + self._counted([self._summary(truncated=truncated, dropped=dropped)])

    def _collect(self, progress: Progress) -> list[AnyRecord]:
        for connection in progress.opened:
            self._kept.put(connection.id, connection)
            if self.tells_opened:
                self._opened.append(connection)
        records: list[AnyRecord] = [
            self._builder.dns(sighting) for sighting in progress.dns if self.filters.name(sighting.binding.name)
        ]
        for icmp in self._ripe(self._waiting_icmp, progress.icmp, lambda icmp: self.connection(icmp.connection)):
            about = self.connection(icmp.connection)
            if about is not None and self.filters.connection(about) and self.filters.origin(about) is not False:
                records.append(self._builder.icmp(icmp))
        records += self._seen_by_proxy(progress)
        records += self._told_of(progress)
        for connection in self._ripe(self._waiting, progress.settled, lambda connection: connection):
            self._settled_since = True
            if not self.filters.connection(connection):
                continue
            match self.filters.origin(connection):
                case True:
                    records += self._builder.connection(connection)
                case None:
                    self._undecided.append(connection)  # Its story decides, at the end.
        if not records:
            return records
        return self.announce() + self._counted(records)

    def _seen_by_proxy(self, progress: Progress) -> list[AnyRecord]:
        """The records of exchanges and Alt-Svc lines."""
        exchanges = self._ripe(self._waiting_exchanges, progress.exchanges, lambda s: self.connection(s.connection))
        alt_svc = self._ripe(self._waiting_alt_svc, progress.alt_svc, lambda s: self.connection(s.connection))
        return [
            *(self._builder.exchange(s) for s in exchanges if self._wanted(s.connection, s.exchange.origin)),
            *(self._builder.alt_svc(s.seen) for s in alt_svc if self._wanted(s.connection, s.seen.origin)),
        ]

    def _told_of(self, progress: Progress) -> list[AnyRecord]:
        """The records of what the client's log, or decrypted traffic, tells."""
        if self.on_decrypted is not None:
            for event in progress.decrypted:
                self.on_decrypted(event)
        if progress.told is None and not (self._waiting_told or self._waiting_told_alt_svc):
            return []
        told, about = progress.told or ToldFacts(), self.connection
        exchanges = self._ripe(self._waiting_told, told.exchanges, lambda s: about(s.connection))
        alt_svc = self._ripe(self._waiting_told_alt_svc, told.alt_svc, lambda s: about(s.connection))
        return [
            *(self._builder.told(s) for s in exchanges if self._wanted(s.connection, s.told.origin)),
            *(self._builder.told_alt_svc(s.told) for s in alt_svc if self._wanted(s.connection, s.told.origin)),
        ]

    def _wanted(self, connection_id: str | None, origin: str) -> bool:
        connection = self.connection(connection_id)
        known = connection is None or self.filters.connection(connection)
        return known and self.filters.named(origin_of_url(origin))

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

    def _counted(self, records: list[AnyRecord]) -> list[AnyRecord]:
        self.counts.update(record.type for record in records)
        if self.expects is not None:
            seen = [r for r in records if isinstance(r, ExchangeRecord)]
            self._accounts.update(Account(r.origin, r.version, r.status is not None) for r in seen)
        return records

    def stories(self) -> list[Story]:
        """Return the stories of all connections kept."""
        connections = [c for c in self._kept if self.filters.connection(c)]
        names = {}
        for connection in connections:
            name = self.tracker.names.name_of(connection.server.host)
            if name is not None:
                names[connection.server.host] = name
        # A filter by port hides connections, and must not hide that there were any.
        wanted = self.filters.wanted
        ports = self.filters.ports
        others = [c for c in self._kept if ports and c.server.port not in ports and (wanted is None or wanted(c))]
        strangers = [c for c in self._kept if wanted is not None and not wanted(c)]
        facts = self.tracker.proxy.facts
        beside = Beside(others, strangers, facts)
        told = tell_stories(connections, self.tracker.clock, names, self.tracker.hosts.identity, beside)
        stories = [story for story in told if self.filters.story(story)]
        for story in stories:
            clients = {c.client.host for c in story.connections}
            add_proxy_facts(story, facts, self.tracker.names)
            story.of_command = self.wants_command
            story.vantage = self.vantage
            story.swallows_icmp = self.swallows_icmp
            if self.alone is not None and all(c.process is None for c in story.connections):
                story.client = self.alone  # which of its processes it was is not known; that it was one of them is
            story.over = self.client_over
            story.lacks = frozenset() if self.format == "live" else self.tracker.lacks
            story.unowned = self.wants_command and not any(c.process is not None for c in story.connections)
            ends = {(c.client.host, c.server) for c in story.connections}
            # A command's connections are younger than the watch.
            story.tcp_before = not self.wants_command and any(self.tracker.tcp.was_before(*end) for end in ends)
            story.one_sided = bool(clients) and not any(self.tracker.hears(host) for host in clients)
        add_told_facts(stories, self.tracker.told.facts)
        return stories

    def _diagnose(self, *, truncated: bool, dropped: int) -> list[AnyRecord]:
        records: list[AnyRecord] = []
        verdicts: list[AnyRecord] = []
        stories = self.stories()
        told = {c.id for story in stories for c in story.connections}
        for connection in self._undecided:
            if connection.id in told:
                records += self._builder.connection(connection)
        conclusions = [conclude(story) for story in stories]
        for number, conclusion in enumerate(conclusions, 1):
            records += self._conclusions(conclusion)
            if conclusion.sentence is not None:
                verdicts.append(self._verdict(conclusion, conclusion.sentence, number))
        facts = self._facts(truncated=truncated)
        for rule in CATALOGUE.values():
            if rule.check_capture is not None:
                records += [self._finding_record(finding, None) for finding in rule.check_capture(facts)]
        verdicts += self._nothing_sent(stories)
        if self.expects is not None:
            lost = dropped or any(number for number, _ in facts.dropped)
            self.expectations = self._expectations(
                conclusions, self.expects, complete=not (facts.truncated or facts.evicted or facts.unreadable or lost)
            )
        return [*records, *verdicts, *self.expectations]

    def _expectations(
        self, conclusions: list[Conclusion], expected: HttpVersion, *, complete: bool
    ) -> list[ExpectationRecord]:
        clock = self.tracker.clock
        absent = [
            origin
            for origin in sorted(self.filters.origins or ())
            if not any(Filters(frozenset({origin})).story(c.story) for c in conclusions if c.sentence is not None)
            and not any(Filters(frozenset({origin})).named(account.origin or "") for account in self._accounts)
        ]
        return [
            ExpectationRecord(
                id=f"expectation-{number}",
                at=clock.at(clock.now_ns),
                time=clock.time(),
                origin=judged.origin,
                expected=expected,
                met=judged.met,
                versions=judged.versions,
                reason=judged.reason,
            )
            for number, judged in enumerate(judge(conclusions, self._accounts, expected, absent, complete=complete), 1)
        ]

    def _conclusions(self, conclusion: Conclusion) -> list[AnyRecord]:
        """The races and findings of a story that were not told yet."""
        story = conclusion.story
        races = [race for race in conclusion.races if self._first_time(("race", race.quic.id, race.tcp.id))]
        findings = [finding for finding in conclusion.findings if self._first_time(finding.key)]
        return [
            *(self._builder.race(story, race) for race in races),
            *(self._finding_record(finding, story) for finding in findings),
        ]

    def _first_time(self, key: tuple[str, ...]) -> bool:
        if key in self._told:
            return False
        self._told.add(key)
        return True

    def _finding_record(self, finding: Finding, story: Story | None) -> AnyRecord:
        if story is not None and story.unowned:
            # Whether the command had anything to do with it is not known: it is no problem of the command's.
            finding = replace(finding, severity="info", summary=f"{UNOWNED}: {finding.summary}")
        if self.conditions:
            asked = f"{'; '.join(self.conditions)}, as asked for here."
            finding = replace(finding, advice=f"{asked[:1].upper()}{asked[1:]} Without that: {finding.advice}")
        self._problem = self._problem or finding.severity == "problem"
        return self._builder.finding(finding, story, next(self._finding_ids))

    def _verdict(self, conclusion: Conclusion, sentence: str, number: int) -> AnyRecord:
        clock, story = self.tracker.clock, conclusion.story
        return VerdictRecord(
            id=f"verdict-{number}",
            at=clock.at(clock.now_ns),
            time=clock.time(),
            origin=story.label,
            client=f"{client_text(story)}, owner not known" if story.unowned else client_text(story),
            versions=None if past_proxy(story) else story.versions,
            sentence=f"{sentence}{self._conditions()}",
            rules=conclusion.rules,
        )

    def _nothing_sent(self, stories: list[Story]) -> list[AnyRecord]:
        """Say so of an origin that was asked for by name, or of a command behind the proxy, when nothing was sent."""
        told = [story for story in stories if deserves_verdict(story)]
        wanted = self.filters.wanted
        sent = [c for c in self._kept if wanted is None or wanted(c)]
        unowned = [c for c in sent if c.process is None] if self.wants_command else []
        of_one = self.wants_command or self.alone is not None or self.behind_proxy is not None
        untried = self._untried(stories, silent=of_one and not sent and self.vantage == "wire")
        if untried and not sent:
            return untried
        asked = self.tracker.proxy.facts.exchanges or any(_at_proxy(connection) for connection in sent)
        if len(unowned) == len(sent) and self.behind_proxy is not None and not asked:
            sentence = SILENT_BEHIND_PROXY + HINTS[self.is_java] if self.vantage == "wire" else self._unseen("")
            if unowned:
                sentence = NOT_KNOWN_TO_BE_ITS.format(number_of(len(unowned), "other connection"))
            return [self._silence(None, self.behind_proxy, sentence, len(stories) + 1)]
        if not sent and not self.tracker.proxy.facts.exchanges and self.alone is not None:
            names = self.tracker.names
            silent = ASKED_DNS.format("" if names.answered else "got no answer, ") if names.asked else SILENT_ALONE
            return [self._silence(None, self.alone, f"{silent}{self._conditions()}", 1)]
        hidden = [c for c in sent if not self.filters.connection(c)]
        absent = [
            origin
            for origin in sorted(self.filters.origins or ())
            if not any(Filters(frozenset({origin})).story(story) for story in told)
            and not any(_may_be_to(origin, connection) for connection in hidden)
        ]
        sentence = SILENT if self.vantage == "wire" else self._unseen(" for this origin")
        first = len(stories) + len(untried) + 1
        return [*untried, *(self._silence(o, "any", sentence, n) for n, o in enumerate(absent, first))]

    def _untried(self, stories: list[Story], *, silent: bool) -> list[AnyRecord]:
        """What the client's own log tells of requests that it did not even try, an origin each."""
        sentences = untried_origins(self.tracker.told.facts, {story.origin for story in stories}, silent=silent)
        client = self.alone or self.behind_proxy or "any"
        return [
            self._silence(origin, client, f"{sentence}{self._conditions()}", number)
            for number, (origin, sentence) in enumerate(sentences.items(), len(stories) + 1)
        ]

    def _unseen(self, what: str) -> str:
        past = "what went past it, if anything, is not seen without sniffing"
        return f"Nothing came to the {self.vantage}{what}; {past}."

    def _conditions(self) -> str:
        return f" In force: {'; '.join(self.conditions)}." if self.conditions else ""

    def _silence(self, origin: str | None, client: str, sentence: str, number: int) -> VerdictRecord:
        clock = self.tracker.clock
        return VerdictRecord(
            id=f"verdict-{number}",
            at=clock.at(clock.now_ns),
            time=clock.time(),
            origin=origin,
            client=client,
            versions=None,
            sentence=sentence,
            rules=[],
        )

    def _facts(self, *, truncated: bool) -> CaptureFacts:
        return CaptureFacts(
            truncated=truncated,
            unreadable=self.unreadable,
            dropped=[(number, reason) for reason, number in self.dropped.items()],
            malformed=self.tracker.decoder.malformed,
            evicted=max(self.tracker.evicted, self._kept.evicted),
            connections=[c for c in self._kept if self.filters.connection(c)],
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
            exit_status=self.exit_status,
        )


def _may_be_to(origin: str, connection: Connection) -> bool:
    """Whether a connection that a filter hides may have been to an origin that was asked for."""
    only = Filters(frozenset({origin}))
    tunnels = connection.tunnels.asked if connection.transport == "tcp" and connection.tunnels is not None else []
    return only.origin(connection) is not False or any(only.named(tunnel.target.lower()) for tunnel in tunnels)


def _at_proxy(connection: Connection) -> bool:
    """Whether a connection leads to a proxy, by what was asked on it or by the proxy's own word."""
    return connection.transport == "tcp" and (connection.tunnels is not None or connection.reported)
