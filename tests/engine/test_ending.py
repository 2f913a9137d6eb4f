"""What is said at the end."""

from __future__ import annotations

from h3probe.records import AnyRecord, FindingRecord, VerdictRecord
from tests.diagnose.scenario import JDK, Network
from tests.engine.test_engine import busy, live, validate


def test_findings_come_when_their_story_is_over() -> None:
    """A live run does not wait for its end to say what it found, and says it once."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    tcp = network.tcp(software=JDK)
    tcp.connects(2.78)
    tcp.fin(4.0)
    records = live(network, 120)
    validate(records)
    types = [record.type for record in records]
    rules = [record.rule for record in records if isinstance(record, FindingRecord)]
    assert rules == ["fallback-delay", "quic-unanswered"]
    assert types.index("finding") < types.index("verdict") < types.index("summary")


def test_live_and_file_say_the_same() -> None:
    """The same packets give the same findings and verdicts, with the passing of time or without."""

    def said(records: list[AnyRecord]) -> set[tuple[str, str]]:
        findings = {(r.rule, r.summary) for r in records if isinstance(r, FindingRecord)}
        return findings | {(r.type, r.sentence) for r in records if isinstance(r, VerdictRecord)}

    assert said(live(busy(), 200)) == said(busy().explain().records)
