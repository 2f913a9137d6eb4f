"""What a report shows. No layout and no HTML: that is the template's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from h3probe.text import count, seconds

if TYPE_CHECKING:
    from h3probe.records import (
        CaptureRecord,
        ExchangeRecord,
        ExpectationRecord,
        FindingRecord,
        SummaryRecord,
        Transport,
        VerdictRecord,
    )

ORIGINS_AT_ONCE = 6
"""Beyond so many, those without a problem are folded, or a line each where another one has one."""

Tone = Literal["problem", "notice", "good", "plain"]
MarkerKind = Literal["start", "again", "step", "ready", "bad", "icmp", "end"]
Outcome = Literal["ready", "failed", "open"]


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
        client: The address of the client whose time it was.
    """

    begin: float
    end: float
    text: str
    client: str

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
        outcome: In words.
        state: What of it decides the drawing.
        begin: Its first packet, seconds.
        ready: When it could carry a request.
        end: When it ended, or was given up; None while it lives.
        tunnel: What was asked of a proxy on it.
        relayed: Whether it is a proxy's own, on the client's behalf.
        note: The timer that ended it, or what it carried.
        markers: What happened on it, in order of time.
        markers_hidden: How much of that is left out.
    """

    id: str
    transport: Transport
    client: str
    server: str
    outcome: str
    state: Outcome
    begin: float
    ready: float | None
    end: float | None
    tunnel: str | None
    relayed: bool
    note: str | None
    markers: tuple[Marker, ...]
    markers_hidden: int


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
        findings_hidden: How many are not shown.
        lanes: Connections, in the order in which they began.
        lanes_hidden: How many are not drawn.
        losses: Where time was lost.
        waits: How many findings say what they cost.
        lost: Seconds that they add up to; None where nothing can be said.
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
    waits: int = 0
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
