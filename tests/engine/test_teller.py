"""Records of conclusions."""

from __future__ import annotations

from h3probe.engine import Engine
from h3probe.records import FindingRecord
from tests.diagnose.scenario import JDK, Network
from tests.engine.test_engine import live


def test_a_story_that_goes_on_is_not_told_twice() -> None:
    """An attempt that was reported when its story was over is not reported again with the next one of its kind."""
    network = Network()
    for at in (0.0, 200.0):
        quic = network.quic(software=JDK)
        quic.initials(at, at + 1.0)
        quic.close(at + 2.75, 0xC)
    records = live(network, 400)
    told = [c for r in records if isinstance(r, FindingRecord) and r.rule == "quic-unanswered" for c in r.connections]
    assert len(told) == len(set(told))


def test_advice_names_what_was_asked_for() -> None:
    """A firewall of h3probe's own making is nobody's to be asked about."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    engine = Engine("any", "live", conditions=["UDP blocked silently"])
    records = [record for event in network.events() for record in engine.feed(event)] + engine.finish()
    advice = [record.advice for record in records if isinstance(record, FindingRecord)]
    assert advice
    assert all(each.startswith("UDP blocked silently, as asked for here. Without that: ") for each in advice)
