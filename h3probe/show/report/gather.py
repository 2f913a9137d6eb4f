"""Records and moments by what they are about: what a report is assembled from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from h3probe.records import (
    AltSvcRecord,
    DnsRecord,
    ExchangeRecord,
    FindingRecord,
    IcmpRecord,
    QuicRecord,
    RaceRecord,
    TcpRecord,
    TunnelRecord,
    VerdictRecord,
)
from h3probe.text import bare_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.records import AnyRecord, Moment, StoryOutline


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


@dataclass(slots=True)
class Gathered:
    """Records by what they are about."""

    connections: dict[str, QuicRecord | TcpRecord] = field(default_factory=dict)
    tunnels: dict[str, list[TunnelRecord]] = field(default_factory=dict)
    icmp: dict[str, list[IcmpRecord]] = field(default_factory=dict)
    moments: dict[str, list[Moment]] = field(default_factory=dict)
    verdicts: dict[str | None, list[VerdictRecord]] = field(default_factory=dict)
    findings: dict[str | None, list[FindingRecord]] = field(default_factory=dict)
    exchanges: dict[str | None, list[ExchangeRecord]] = field(default_factory=dict)
    races: dict[str, RaceRecord] = field(default_factory=dict)
    offers: dict[str | None, list[tuple[float, str]]] = field(default_factory=dict)
    stories: dict[str, list[StoryOutline]] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """All origins that something is known of, those with a verdict first."""
        named = dict.fromkeys([*self.verdicts, *self.findings, *self.exchanges, *self.stories])
        return [label for label in named if label is not None]


def gather(explanation: Explanation) -> Gathered:
    """Put each where it will be looked for."""
    found = Gathered()
    for record in explanation.all_records:
        match record:
            case QuicRecord() | TcpRecord():
                found.connections[record.id] = record
            case TunnelRecord(connection=str(connection)):
                found.tunnels.setdefault(connection, []).append(record)
            case IcmpRecord(connection=str(connection)):
                found.icmp.setdefault(connection, []).append(record)
            case RaceRecord():
                found.races[record.tcp] = found.races[record.quic] = record
            case _:
                _about_origin(found, record)
    for moment in explanation.all_moments:
        if moment.connection is not None:
            found.moments.setdefault(moment.connection, []).append(moment)
    for story in explanation.stories:
        found.stories.setdefault(story.origin, []).append(story)
    return found


def _about_origin(found: Gathered, record: AnyRecord) -> None:
    match record:
        case DnsRecord() | AltSvcRecord():
            _offer(found.offers, record)
        case VerdictRecord():
            found.verdicts.setdefault(record.origin, []).append(record)
        case FindingRecord():
            found.findings.setdefault(record.origin, []).append(record)
        case ExchangeRecord():
            found.exchanges.setdefault(record.origin, []).append(record)
        case _:
            pass


def _offer(offers: dict[str | None, list[tuple[float, str]]], record: DnsRecord | AltSvcRecord) -> None:
    """Note what a server or its DNS offers, under the origin's name, and under the host's for DNS."""
    if isinstance(record, AltSvcRecord):
        offers.setdefault(record.origin, []).append((record.at, f"Alt-Svc: {record.value} (seen at: {record.seen_at})"))
        return
    port = "" if record.port is None else f", port {record.port}"
    text = f"DNS HTTPS record of {record.name}: {', '.join(record.alpn) or 'no protocols'}{port}"
    offers.setdefault(bare_name(record.name), []).append((record.at, text))
