"""What a report shows, worked out from records and moments. No layout and no HTML: that is the template's.

Origins with problems come first. Everything is bounded: a capture of a hundred thousand connections gives a report of
a few megabytes, and what is left out of it is counted where it would have stood.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from h3probe.diagnose.clients import known_clients
from h3probe.records import (
    AltSvcRecord,
    CaptureRecord,
    DnsRecord,
    ExchangeRecord,
    ExpectationRecord,
    FindingRecord,
    IcmpRecord,
    QuicRecord,
    RaceRecord,
    SummaryRecord,
    TcpRecord,
    TunnelRecord,
    VerdictRecord,
)
from h3probe.text import count, seconds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from h3probe.records import AnyRecord, Moment, Severity, StoryOutline, Transport

ORIGINS_DRAWN = 20
"""Origins with a waterfall; the others are a line each."""
ORIGINS_AT_ONCE = 6
"""Beyond so many, those without a problem are a line each as well, where another one has one."""
ORIGINS_LISTED = 500
LANES = 24
"""Connections of one origin that are drawn, those that a finding is about first."""
MARKERS = 24
"""Things that happened on one connection."""
FINDINGS = 30
EXCHANGES = 100
PACKETS = 300
"""Packets whose fields are shown."""
GRADES: tuple[Severity, ...] = ("problem", "notice", "info")

Tone = Literal["problem", "notice", "good", "plain"]
MarkerKind = Literal["start", "again", "step", "ready", "bad", "icmp", "end"]
Outcome = Literal["ready", "failed", "open"]

OUTCOMES = {
    "established": "ready",
    "unanswered": "no answer",
    "refused": "refused",
    "stalled": "stalled: answered, and not finished",
    "closed": "closed before it was ready",
    "version-negotiation": "no version in common",
    "reset": "reset before it was ready",
    "mid-stream": "began before the capture did",
    None: "no outcome seen",
}
FAILED = frozenset({"unanswered", "refused", "stalled", "closed", "version-negotiation", "reset"})


class Explanation(Protocol):
    """What there is to say about captures, as `h3probe.run.explaining.Explained` holds it."""

    @property
    def all_records(self) -> Sequence[AnyRecord]:
        """In the order in which they were settled."""

    @property
    def all_moments(self) -> Sequence[Moment]:
        """In the order in which they became known."""

    @property
    def notes(self) -> Sequence[str]:
        """What is no result."""

    @property
    def stories(self) -> Sequence[StoryOutline]:
        """Which connections belong together."""


@dataclass(frozen=True, slots=True)
class Marker:
    """One thing that happened on a connection."""

    at: float
    kind: MarkerKind
    text: str
    frame: int | None


@dataclass(frozen=True, slots=True)
class Wait:
    """A span of time that was lost, or spent on something that did not work out.

    Attributes:
        begin: Seconds since the first packet.
        end: The same.
        text: What for.
    """

    begin: float
    end: float
    text: str

    @property
    def length(self) -> str:
        """How long."""
        return seconds(self.end - self.begin)


@dataclass(frozen=True, slots=True)
class Part:
    """A wait as a part of the whole, both in per cent of it."""

    x: float
    width: float
    wait: Wait


@dataclass(frozen=True, slots=True)
class Lane:
    """One connection.

    Attributes:
        id: Of its record.
        transport: `quic` or `tcp`.
        client: The client's address and port.
        server: The server's, or the proxy's.
        who: The client's process or software, where known.
        outcome: In words.
        state: What of it decides the drawing.
        begin: Its first packet, seconds.
        ready: When it could carry a request.
        end: When it ended, or was given up; None while it lives.
        tunnel: What was asked of a proxy on it.
        relayed: Whether it is a proxy's own, on the client's behalf.
        note: The timer that ended it, or what it carried.
        markers: What happened on it, in order of time.
    """

    id: str
    transport: Transport
    client: str
    server: str
    who: str | None
    outcome: str
    state: Outcome
    begin: float
    ready: float | None
    end: float | None
    tunnel: str | None
    relayed: bool
    note: str | None
    markers: tuple[Marker, ...]


@dataclass(frozen=True, slots=True)
class Hop:
    """A stop on the way from the client to the server.

    Attributes:
        role: `client`, `proxy`, `on the way` or `server`.
        names: Who it is, a line each.
    """

    role: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """How one transport fared between client and server.

    Attributes:
        transport: `QUIC`, `TCP`, `CONNECT`.
        works: Whether something got through; None where that was not seen.
        text: In words.
    """

    transport: str
    works: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Network:
    """The way that an origin's traffic took.

    Attributes:
        hops: The stops.
        ways: What is between one and the next.
        past: What went past a proxy among them.
    """

    hops: tuple[Hop, ...]
    ways: tuple[tuple[Way, ...], ...]
    past: tuple[Way, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict, and how grave it is."""

    record: VerdictRecord
    tone: Tone
    rules: tuple[str, ...]

    @property
    def versions(self) -> str:
        """`2 exchanges over HTTP/3`, and so on."""
        parts = (f"{count(number, 'exchange')} over {name}" for name, number in (self.record.versions or {}).items())
        return ", ".join(parts)


@dataclass(slots=True)
class Origin:
    """All about one origin.

    Attributes:
        number: From 1; anchors in the document are made of it.
        label: `host:port`, or the server's address.
        tone: The worst that was found.
        verdicts: One for each client.
        findings: The gravest first.
        lanes: Connections, in the order in which they began.
        lanes_hidden: How many are not drawn.
        losses: Where time was lost.
        lost: Seconds lost in all; None where that cannot be said.
        exchanges: Requests and responses.
        exchanges_hidden: How many are not listed.
        offers: What DNS and Alt-Svc said of HTTP/3.
        network: The way there.
    """

    number: int
    label: str
    tone: Tone = "plain"
    verdicts: list[Verdict] = field(default_factory=list)
    findings: list[FindingRecord] = field(default_factory=list)
    findings_hidden: int = 0
    lanes: list[Lane] = field(default_factory=list)
    lanes_hidden: int = 0
    losses: list[Wait] = field(default_factory=list)
    lost: float | None = None
    exchanges: list[ExchangeRecord] = field(default_factory=list)
    exchanges_hidden: int = 0
    offers: list[tuple[float, str]] = field(default_factory=list)
    network: Network | None = None

    @property
    def end(self) -> float:
        """The last thing that is drawn, seconds."""
        times = [t for lane in self.lanes for t in (lane.begin, lane.ready, lane.end, *(m.at for m in lane.markers))]
        times += [wait.end for wait in self.losses]
        times += [e.at + (e.took or 0.0) for e in self.exchanges]
        return max((t for t in times if t is not None), default=0.0)

    @property
    def parts(self) -> list[Part]:
        """The losses, as parts of the whole time."""
        begin, whole = self.begin, self.end - self.begin
        return [
            Part(round(100 * (w.begin - begin) / whole, 2), round(100 * (w.end - w.begin) / whole, 2), w)
            for w in self.losses
        ]

    @property
    def begin(self) -> float:
        """The first thing that is drawn, seconds."""
        return min([lane.begin for lane in self.lanes] + [e.at for e in self.exchanges], default=0.0)


@dataclass(frozen=True, slots=True)
class PacketRef:
    """A packet that is shown.

    Attributes:
        at: Seconds since the first packet.
        what: What it is shown for.
    """

    at: float
    what: str


@dataclass(slots=True)
class Report:
    """The whole of it.

    Attributes:
        capture: What was looked at.
        summary: The figures.
        origins: Those that are drawn, the worst first.
        folded: Those that are a line each.
        folded_hidden: Those that are only counted.
        about_capture: Findings about the capture itself.
        expectations: What was expected, where something was.
        notes: What is no result.
        packets: The packets whose fields are shown, by number.
    """

    capture: CaptureRecord | None
    summary: SummaryRecord | None
    origins: list[Origin]
    folded: list[Origin]
    folded_hidden: int
    about_capture: list[FindingRecord]
    expectations: list[ExpectationRecord]
    notes: list[str]
    packets: dict[int, PacketRef]

    def is_brief(self, origin: Origin) -> bool:
        """Whether an origin is folded: one of many, and nothing is wrong with it."""
        return len(self.origins) > ORIGINS_AT_ONCE and origin.tone not in {"problem", "notice"}


@dataclass(slots=True)
class _Records:
    """Records by what they are about."""

    connections: dict[str, QuicRecord | TcpRecord] = field(default_factory=dict)
    tunnels: dict[str, list[TunnelRecord]] = field(default_factory=dict)
    icmp: dict[str, list[IcmpRecord]] = field(default_factory=dict)
    moments: dict[str, list[Moment]] = field(default_factory=dict)
    findings: dict[str | None, list[FindingRecord]] = field(default_factory=dict)
    exchanges: dict[str | None, list[ExchangeRecord]] = field(default_factory=dict)
    races: dict[str, RaceRecord] = field(default_factory=dict)
    offers: dict[str | None, list[tuple[float, str]]] = field(default_factory=dict)


def make_report(explanation: Explanation) -> Report:
    """Work out what to show."""
    records = _sort(explanation)
    for moment in explanation.all_moments:
        if moment.connection is not None:
            records.moments.setdefault(moment.connection, []).append(moment)
    verdicts: dict[str | None, list[VerdictRecord]] = {}
    for verdict in _all(explanation, VerdictRecord):
        verdicts.setdefault(verdict.origin, []).append(verdict)
    named = [*verdicts, *records.findings, *records.exchanges, *(story.origin for story in explanation.stories)]
    labels = [label for label in dict.fromkeys(named) if label is not None]
    origins = [_outline(records, verdicts.get(label, ()), label, n) for n, label in enumerate(labels, 1)]
    origins.sort(key=_gravity)
    drawn = [origin for origin in origins if origin.verdicts or origin.findings][:ORIGINS_DRAWN]
    # In a browser's capture of a day, origins about which there is nothing to say would hide the others.
    grave = [origin for origin in drawn if origin.tone in {"problem", "notice"}]
    if grave and len(origins) > ORIGINS_AT_ONCE:
        drawn = grave
    numbers = {origin.number for origin in drawn}
    rest = [origin for origin in origins if origin.number not in numbers]
    stories: dict[str, list[StoryOutline]] = {}
    for story in explanation.stories:
        stories.setdefault(story.origin, []).append(story)
    for origin in drawn:
        _fill(origin, records, stories.get(origin.label, ()))
    about_capture = records.findings.get(None, [])
    return Report(
        capture=next(iter(_all(explanation, CaptureRecord)), None),
        summary=next(iter(_all(explanation, SummaryRecord)), None),
        origins=drawn,
        folded=rest[:ORIGINS_LISTED],
        folded_hidden=max(len(rest) - ORIGINS_LISTED, 0),
        about_capture=_worst_first(about_capture)[:FINDINGS],
        expectations=sorted(_all(explanation, ExpectationRecord), key=lambda expectation: expectation.met)[
            :ORIGINS_LISTED
        ],
        notes=list(explanation.notes)[:FINDINGS],
        packets=_packets(drawn, about_capture),
    )


def _sort(explanation: Explanation) -> _Records:
    found = _Records()
    for record in explanation.all_records:
        match record:
            case QuicRecord() | TcpRecord():
                found.connections[record.id] = record
            case TunnelRecord(connection=str(connection)):
                found.tunnels.setdefault(connection, []).append(record)
            case IcmpRecord(connection=str(connection)):
                found.icmp.setdefault(connection, []).append(record)
            case DnsRecord() | AltSvcRecord():
                _offer(found.offers, record)
            case RaceRecord():
                found.races[record.tcp] = found.races[record.quic] = record
            case FindingRecord():
                found.findings.setdefault(record.origin, []).append(record)
            case ExchangeRecord():
                found.exchanges.setdefault(record.origin, []).append(record)
    return found


def _all[R](explanation: Explanation, kind: type[R]) -> list[R]:
    return [record for record in explanation.all_records if isinstance(record, kind)]


def _offer(offers: dict[str | None, list[tuple[float, str]]], record: DnsRecord | AltSvcRecord) -> None:
    """Note what a server or its DNS offers, under the origin's name, and under the host's for DNS."""
    if isinstance(record, AltSvcRecord):
        offers.setdefault(record.origin, []).append((record.at, f"Alt-Svc: {record.value} (seen at: {record.seen_at})"))
        return
    port = "" if record.port is None else f", port {record.port}"
    text = f"DNS HTTPS record of {record.name}: {', '.join(record.alpn) or 'no protocols'}{port}"
    offers.setdefault(record.name.rstrip(".").lower(), []).append((record.at, text))


def _outline(records: _Records, verdicts: Iterable[VerdictRecord], label: str, number: int) -> Origin:
    """What the list of all origins says of one."""
    origin = Origin(number, label)
    findings = _worst_first(records.findings.get(label, ()))
    origin.findings, origin.findings_hidden = findings[:FINDINGS], max(len(findings) - FINDINGS, 0)
    grades = {finding.rule: finding.severity for finding in reversed(findings)}
    slugs = set(grades)
    for record in verdicts:
        behind = {grades[rule] for rule in record.rules if rule in grades}
        origin.verdicts.append(
            Verdict(record, _tone(behind, record.versions), tuple(r for r in record.rules if r in slugs))
        )
    tones = [verdict.tone for verdict in origin.verdicts]
    order: tuple[Tone, ...] = ("problem", "notice", "good", "plain")
    origin.tone = min(tones, key=order.index, default=_tone({finding.severity for finding in findings}, None))
    origin.lost = _lost(findings)
    return origin


def _tone(severities: set[Severity], versions: Mapping[str, int] | None) -> Tone:
    if "problem" in severities:
        return "problem"
    if "notice" in severities:
        return "notice"
    return "good" if versions and set(versions) == {"HTTP/3"} else "plain"


def _gravity(origin: Origin) -> tuple[int, float, bool, int]:
    """What to sort origins by: the worst first; of those that are alike, the one that lost more."""
    order = {"problem": 0, "notice": 1, "good": 2, "plain": 2}
    return order[origin.tone], -(origin.lost or 0.0), not origin.verdicts, origin.number


def _worst_first(findings: Iterable[FindingRecord]) -> list[FindingRecord]:
    return sorted(findings, key=lambda finding: GRADES.index(finding.severity))


def _lost(findings: Sequence[FindingRecord]) -> float | None:
    """Seconds lost: findings about the same connection may be about the same seconds, and count once."""
    total, counted = 0.0, set[str]()
    for finding in sorted(findings, key=lambda finding: -(finding.cost or 0.0)):
        if finding.cost and counted.isdisjoint(finding.connections):
            total += finding.cost
            counted.update(finding.connections)
    return total or None


def _fill(origin: Origin, records: _Records, stories: Sequence[StoryOutline]) -> None:
    """Add what is drawn."""
    relayed = {i for story in stories if story.relayed for i in story.connections}
    ids = dict.fromkeys(i for story in stories for i in story.connections)
    known = [records.connections[i] for i in ids if i in records.connections]
    about = Counter(i for finding in origin.findings for i in finding.connections)
    known.sort(key=lambda record: (not about[record.id], record.at))
    origin.lanes_hidden = max(len(known) - LANES, 0)
    shown = sorted(known[:LANES], key=lambda record: record.at)
    origin.lanes = [_lane(record, records, relayed=record.id in relayed) for record in shown]
    by_id = {record.id: record for record in shown}
    origin.losses = [wait for finding in origin.findings for wait in _losses(finding, by_id)]
    exchanges = sorted(records.exchanges.get(origin.label, ()), key=lambda exchange: exchange.at)
    origin.exchanges, origin.exchanges_hidden = exchanges[:EXCHANGES], max(len(exchanges) - EXCHANGES, 0)
    host = origin.label.rpartition(":")[0].lower()
    origin.offers = [*records.offers.get(host, ()), *records.offers.get(origin.label, ())][:EXCHANGES]
    origin.network = _network(origin, known, relayed, records)


def _lane(record: QuicRecord | TcpRecord, records: _Records, *, relayed: bool) -> Lane:
    tunnels = records.tunnels.get(record.id, [])
    failed = record.outcome in FAILED
    moments = sorted(records.moments.get(record.id, ()), key=lambda moment: moment.time_ns)
    if len(moments) > MARKERS:
        moments = [*moments[: MARKERS - 1], moments[-1]]
    return Lane(
        id=record.id,
        transport="quic" if isinstance(record, QuicRecord) else "tcp",
        client=record.client,
        server=record.server,
        who=_who(record),
        outcome=_outcome(record),
        state="failed" if failed else "ready" if record.ready_at is not None else "open",
        begin=record.at,
        ready=record.ready_at,
        end=record.ended_at,
        tunnel=None if not tunnels else "; ".join(_tunnel_text(tunnel) for tunnel in tunnels[:3]),
        relayed=relayed,
        note=_timer(record) if isinstance(record, QuicRecord) and failed else _carried(record, records),
        markers=tuple(Marker(m.at, _kind(m, record), m.text, m.frame) for m in moments),
    )


def _who(record: QuicRecord | TcpRecord) -> str | None:
    process = None if record.process is None else f"{record.process.name}[{record.process.pid}]"
    parts = [part for part in (process, record.client_guess) if part]
    return ", ".join(parts) or None


def _outcome(record: QuicRecord | TcpRecord) -> str:
    if record.ready_at is not None and record.outcome == "established":
        return f"ready after {seconds(record.ready_at - record.at)}"
    return OUTCOMES[record.outcome]


def _tunnel_text(tunnel: TunnelRecord) -> str:
    return f"{tunnel.method} {tunnel.target}: {'no answer seen' if tunnel.status is None else tunnel.status}"


def _kind(moment: Moment, record: QuicRecord | TcpRecord) -> MarkerKind:
    if moment.transport == "icmp":
        return "icmp"
    match moment.weight:
        case "good":
            return "ready"
        case "bad":
            return "bad"
        case "start":
            return "start"
    if moment.at == record.ended_at:
        return "end"
    repeats = isinstance(record, QuicRecord) and moment.outgoing and record.ready_at is None
    return "again" if repeats else "step"


def _timer(record: QuicRecord) -> str | None:
    """The timer of a known client that ended an attempt: it has the timer's length, and the client closed it."""
    client = next((client for client in known_clients() if client.name == record.client_guess), None)
    if client is None or record.close is None or record.close.by != "client" or record.ended_at is None:
        return None
    timer = client.timer_for(record.ended_at - record.at, record.close.reason)
    return None if timer is None else f"{client.name}: {timer.seconds:g} s until it gives up QUIC"


def _carried(record: QuicRecord | TcpRecord, records: _Records) -> str | None:
    """That a connection carried a race's first request, as far as that is known."""
    race = records.races.get(record.id)
    if race is None or race.carried is None or race.carried_known_from is None:
        return None
    kind = "quic" if isinstance(record, QuicRecord) else "tcp"
    return f"carried the first request ({race.carried_known_from})" if race.carried == kind else None


def _losses(finding: FindingRecord, shown: Mapping[str, QuicRecord | TcpRecord]) -> list[Wait]:
    """Where a finding's cost lies on the axis; nothing where its connections do not add up to it."""
    about = [shown[i] for i in finding.connections if i in shown]
    quic = [record for record in about if isinstance(record, QuicRecord)]
    tcp = [record for record in about if isinstance(record, TcpRecord)]
    if not finding.cost or not quic:
        return []
    begin = min(record.at for record in quic)
    end = min((record.at for record in tcp if record.at > begin), default=None)
    if end is None:
        end = max((record.ended_at for record in quic if record.ended_at is not None), default=begin)
    if abs(end - begin - finding.cost) > 0.02 * finding.cost:
        return []
    return [Wait(begin, end, "lost waiting for QUIC")]


def _network(
    origin: Origin, connections: Sequence[QuicRecord | TcpRecord], relayed: Container[str], records: _Records
) -> Network | None:
    """The way from the client to the server, as far as the packets show it."""
    if not connections:
        return None
    carriers = [record for record in connections if record.id in records.tunnels]
    onward = [record for record in connections if record.id in relayed and record.id not in records.tunnels]
    direct = [record for record in connections if record.id not in records.tunnels and record.id not in relayed]
    who = tuple(dict.fromkeys(verdict.record.client for verdict in origin.verdicts))[:3]
    client = Hop("client", who or (_host(connections[0].client),))
    server = Hop("server", (origin.label, *_others(origin.label, (_host(r.server) for r in (*direct, *onward)))))
    past = _ways(direct, records)
    if not carriers:
        return Network((client, server), (past or _ways(onward, records),), ())
    proxy = Hop("proxy", tuple(dict.fromkeys(record.server for record in carriers))[:3])
    asked = [tunnel for record in carriers for tunnel in records.tunnels[record.id]]
    to_proxy = tuple(
        Way(tunnel.method, None if tunnel.status is None else 200 <= tunnel.status < 300, _answer(tunnel))
        for tunnel in asked[:3]
    )
    beyond = _ways(onward, records) or (Way("TCP", None, "not seen from here"),)
    return Network((client, proxy, server), (to_proxy, beyond), past)


def _ways(connections: Sequence[QuicRecord | TcpRecord], records: _Records) -> tuple[Way, ...]:
    senders = [icmp.sender for record in connections for icmp in records.icmp.get(record.id, ())]
    return tuple(_way(connections, kind, senders) for kind in (QuicRecord, TcpRecord) if _of(connections, kind))


def _answer(tunnel: TunnelRecord) -> str:
    return "no answer seen" if tunnel.status is None else f"answered {tunnel.status}"


def _of(
    connections: Sequence[QuicRecord | TcpRecord], kind: type[QuicRecord | TcpRecord]
) -> list[QuicRecord | TcpRecord]:
    return [record for record in connections if isinstance(record, kind)]


def _way(
    connections: Sequence[QuicRecord | TcpRecord], kind: type[QuicRecord | TcpRecord], senders: Sequence[str]
) -> Way:
    mine = _of(connections, kind)
    name = "QUIC" if kind is QuicRecord else "TCP"
    outcomes = Counter(OUTCOMES[record.outcome] for record in mine)
    text = ", ".join(f"{number}× {what}" if len(mine) > 1 else what for what, number in outcomes.most_common(4))  # noqa: RUF001 - a multiplication sign is meant
    refusers = tuple(dict.fromkeys(senders))[:2] if any(record.outcome == "refused" for record in mine) else ()
    if refusers:
        text += f", says {' and '.join(refusers)}"
    decided = [record.outcome for record in mine if record.outcome not in {None, "mid-stream"}]
    works = None if not decided else "established" in decided
    return Way(name, works, text)


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _others(label: str, hosts: Iterable[str]) -> tuple[str, ...]:
    """Up to three addresses that the label does not say itself."""
    return tuple(host for host in dict.fromkeys(hosts) if host != _host(label))[:3]


def _packets(origins: Sequence[Origin], about_capture: Sequence[FindingRecord]) -> dict[int, PacketRef]:
    """The packets to show: the evidence first, then what else is drawn."""
    findings = [*(finding for origin in origins for finding in origin.findings), *about_capture]
    wanted = [(e.frame, PacketRef(e.at, e.what)) for finding in findings for e in finding.evidence]
    markers = [marker for origin in origins for lane in origin.lanes for marker in lane.markers]
    wanted += [(marker.frame, PacketRef(marker.at, marker.text)) for marker in markers]
    found: dict[int, PacketRef] = {}
    for frame, shown in wanted:
        if frame is not None and len(found) < PACKETS:
            found.setdefault(frame, shown)
    return dict(sorted(found.items()))
