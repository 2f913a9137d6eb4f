"""A report assembled from what there is to say.

Origins with problems come first. Everything is bounded: a capture of a hundred thousand connections gives a report of
a few megabytes, and what is left out of it is counted where it would have stood.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.records import CaptureRecord, ExpectationRecord, QuicRecord, SummaryRecord, TcpRecord
from h3probe.show.report.gather import gather
from h3probe.show.report.lanes import make_lane
from h3probe.show.report.model import ORIGINS_AT_ONCE, Origin, PacketRef, Report, Verdict, Wait
from h3probe.show.report.network import make_network

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from h3probe.records import FindingRecord, Severity
    from h3probe.show.report.gather import Explanation, Gathered
    from h3probe.show.report.model import Tone

ORIGINS_DRAWN = 20
"""Origins with a waterfall; the others are a line each."""
ORIGINS_LISTED = 500
LANES = 24
"""Connections of one origin that are drawn, those that a finding is about first."""
FINDINGS = 30
EXCHANGES = 100
PACKETS = 300
"""Packets whose fields are shown."""
GRADES: tuple[Severity, ...] = ("problem", "notice", "info")
TONES: tuple[Tone, ...] = ("problem", "notice", "good", "plain")
GRAVE = frozenset({"problem", "notice"})
ROUNDING = 0.02
"""How much of a cost its connections may be off, and still be where it was spent."""


def make_report(explanation: Explanation) -> Report:
    """Work out what to show."""
    records = gather(explanation)
    origins = sorted((_outline(records, label, n) for n, label in enumerate(records.labels, 1)), key=_gravity)
    drawn = [origin for origin in origins if origin.verdicts or origin.findings][:ORIGINS_DRAWN]
    # In a browser's capture of a day, origins about which there is nothing to say would hide the others.
    grave = [origin for origin in drawn if origin.tone in GRAVE]
    if grave and len(origins) > ORIGINS_AT_ONCE:
        drawn = grave
    numbers = {origin.number for origin in drawn}
    rest = [origin for origin in origins if origin.number not in numbers]
    for origin in drawn:
        _fill(origin, records)
    about_capture = _worst_first(records.findings.get(None, ()))[:FINDINGS]
    expected = sorted(_all(explanation, ExpectationRecord), key=lambda expectation: expectation.met)
    return Report(
        capture=next(iter(_all(explanation, CaptureRecord)), None),
        summary=next(iter(_all(explanation, SummaryRecord)), None),
        origins=drawn,
        folded=rest[:ORIGINS_LISTED],
        folded_hidden=max(len(rest) - ORIGINS_LISTED, 0),
        about_capture=about_capture,
        expectations=expected[:ORIGINS_LISTED],
        notes=list(explanation.notes)[:FINDINGS],
        packets=_packets(drawn, about_capture),
    )


def _all[R](explanation: Explanation, kind: type[R]) -> list[R]:
    return [record for record in explanation.all_records if isinstance(record, kind)]


def _outline(records: Gathered, label: str, number: int) -> Origin:
    """What the list of all origins says of one."""
    origin = Origin(number, label)
    findings = _worst_first(records.findings.get(label, ()))
    origin.findings, origin.findings_hidden = findings[:FINDINGS], max(len(findings) - FINDINGS, 0)
    grades = {finding.rule: finding.severity for finding in reversed(findings)}  # the gravest of each rule
    for record in records.verdicts.get(label, ()):
        rules = tuple(rule for rule in record.rules if rule in grades)
        origin.verdicts.append(Verdict(record, _tone({grades[rule] for rule in rules}, record.versions), rules))
    tones = [verdict.tone for verdict in origin.verdicts]
    origin.tone = min(tones, key=TONES.index, default=_tone(set(grades.values()), None))
    costs = [finding.cost for finding in _costly(findings) if finding.cost is not None]
    origin.waits, origin.lost = len(costs), sum(costs) or None
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


def _costly(findings: Iterable[FindingRecord]) -> list[FindingRecord]:
    """The findings whose costs add up; two about the same connection may be about the same seconds."""
    found: list[FindingRecord] = []
    counted: set[str] = set()
    for finding in sorted(findings, key=lambda finding: -(finding.cost or 0.0)):
        if finding.cost and finding.severity in GRAVE and counted.isdisjoint(finding.connections):
            found.append(finding)
            counted.update(finding.connections)
    return found


def _fill(origin: Origin, records: Gathered) -> None:
    """Add what is drawn."""
    stories = records.stories.get(origin.label, ())
    relayed = {i for story in stories if story.relayed for i in story.connections}
    ids = dict.fromkeys(i for story in stories for i in story.connections)
    known = [records.connections[i] for i in ids if i in records.connections]
    about = Counter(i for finding in origin.findings for i in finding.connections)
    known.sort(key=lambda record: (not about[record.id], record.at))
    origin.lanes_hidden = max(len(known) - LANES, 0)
    shown = sorted(known[:LANES], key=lambda record: record.at)
    origin.lanes = [make_lane(record, records, relayed=record.id in relayed) for record in shown]
    by_id = {record.id: record for record in shown}
    waits = (_wait(finding, by_id) for finding in _costly(origin.findings))
    origin.losses = sorted((wait for wait in waits if wait is not None), key=lambda wait: wait.begin)
    clients = {lane.client.rpartition(":")[0] for lane in origin.lanes if not lane.relayed}
    if len(clients) > 1:
        origin.losses = [replace(wait, text=f"{wait.text}, by {wait.client}") for wait in origin.losses]
    exchanges = sorted(records.exchanges.get(origin.label, ()), key=lambda exchange: exchange.at)
    origin.exchanges, origin.exchanges_hidden = exchanges[:EXCHANGES], max(len(exchanges) - EXCHANGES, 0)
    host = origin.label.rpartition(":")[0].lower()
    origin.offers = [*records.offers.get(host, ()), *records.offers.get(origin.label, ())][:EXCHANGES]
    origin.network = make_network(origin, known, relayed, records)


def _wait(finding: FindingRecord, shown: Mapping[str, QuicRecord | TcpRecord]) -> Wait | None:
    """Where a finding's cost lies on the axis; None where its connections do not add up to it."""
    about = [shown[i] for i in finding.connections if i in shown]
    quic = [record for record in about if isinstance(record, QuicRecord)]
    if not finding.cost or not quic:
        return None
    begin = min(record.at for record in quic)
    end = min((record.at for record in about if isinstance(record, TcpRecord) and record.at > begin), default=None)
    if end is None:
        end = max((record.ended_at for record in quic if record.ended_at is not None), default=begin)
    if abs(end - begin - finding.cost) > ROUNDING * finding.cost:
        return None
    return Wait(begin, end, "lost waiting for QUIC", quic[0].client.rpartition(":")[0])


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
