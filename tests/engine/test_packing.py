"""What is said does not depend on how many connections fit into memory."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from h3probe.engine import Engine
from h3probe.filters import Filters
from h3probe.records import FindingRecord, VerdictRecord
from h3probe.track import kept as kept_module
from h3probe.track.kept import KeptConnections
from h3probe.track.tcp import TcpConnection
from tests.diagnose.scenario import CURL, JDK, Network

if TYPE_CHECKING:
    from h3probe.records import AnyRecord, HttpVersion

SPREAD = 4000.0
"""Seconds from one client's turn to its next: what it did before is over by then."""


def office() -> Network:
    """Some clients that come back, each with troubles of its own."""
    network = Network()
    for turn in range(3):
        for number in range(4):
            at, client = turn * SPREAD + number * 20, f"192.0.2.{10 + number}"
            if number == 0:
                network.quic(client=client, software=JDK).initials(at, at + 1, at + 3, at + 7)
                network.tcp(client=client, software=JDK).connects(at + 0.1)
            elif number == 1:
                network.quic(client=client, sni="site.example", software=CURL).connects(at)
            elif number == 2:
                quic = network.quic(client=client, sni="site.example", software=CURL)
                quic.initials(at)
                quic.unreachable(at + 0.001)
                network.tcp(client=client, sni="site.example", software=CURL).connects(at + 0.2)
            else:
                proxied = network.tcp(client=client, server="192.0.2.3", port=8888, sni="far.example")
                proxied.asks_proxy(at, "far.example:443")
                proxied.proxy_answers(at + 0.1, 200)
                proxied.gets_ready(at + 0.2)
                onward = network.tcp(client="192.0.2.3", sni="far.example", hello_of=proxied)
                onward.connects(at + 0.3)
    return network


def explain(
    kept: KeptConnections, expects: HttpVersion | None, origins: frozenset[str] | None
) -> tuple[Engine, list[AnyRecord]]:
    """Explain it."""
    engine = Engine("test", "pcap", Filters(origins), expects=expects, outlines=[], packs=True, _kept=kept)
    return engine, [r for event in office().events() for r in engine.feed(event)] + engine.finish()


def concluded(engine: Engine, records: list[AnyRecord]) -> list[tuple[str, ...]]:
    """The verdicts, findings and expectations, whatever their order and their numbers."""
    found: list[tuple[str, ...]] = []
    for record in records:
        if isinstance(record, VerdictRecord):
            found.append((str(record.origin), record.client, record.sentence, *record.rules))
        elif isinstance(record, FindingRecord):
            found.append((record.rule, record.severity, record.summary, *record.connections))
    found += [(e.origin or "", str(e.met), e.reason) for e in engine.expectations]
    return sorted(found)


def outlines(engine: Engine) -> list[tuple[str, bool, tuple[str, ...]]]:
    """The stories, whatever their order."""
    return sorted((o.origin, o.relayed, o.connections) for o in engine.outlines or ())


@pytest.mark.parametrize("expects", [None, "HTTP/3"])
@pytest.mark.parametrize("origins", [None, frozenset({"far.example", "absent.example"})])
def test_packed_or_not(
    monkeypatch: pytest.MonkeyPatch, expects: HttpVersion | None, origins: frozenset[str] | None
) -> None:
    """Where most connections had to be packed, the same is said of them, and nothing was forgotten."""
    monkeypatch.setattr(kept_module, "AT_ONCE", 3)
    packed = KeptConnections(20, 9)
    few, said_of_few = explain(packed, expects, origins)
    every, said_of_every = explain(KeptConnections(1000), expects, origins)
    assert concluded(few, said_of_few) == concluded(every, said_of_every)
    assert outlines(few) == outlines(every)
    assert few.exit_status == every.exit_status
    assert packed.evicted == 0
    verdicts, others = (
        [record for record in said if isinstance(record, VerdictRecord)] for said in (said_of_few, said_of_every)
    )
    assert [verdict.origin for verdict in verdicts] == [verdict.origin for verdict in others]
    assert len({verdict.id for verdict in verdicts}) == len(verdicts) > 0


def test_an_engine_that_does_not_pack_forgets() -> None:
    """Live, and where logs tell of connections, the table's limit is what it was."""
    kept = KeptConnections(9)
    engine = Engine("test", "pcap", _kept=kept)
    for event in office().events():
        engine.feed(event)
    engine.finish()
    assert kept.evicted == 12


def test_what_only_its_story_can_decide_about_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of connections without a name takes no more memory when a name is asked for."""
    monkeypatch.setattr(kept_module, "AT_ONCE", 3)
    network = Network()
    for number in range(200):
        refused = network.tcp(client="192.0.2.10", server="198.51.100.1", sni=None)
        refused.syn(number * 400.0)
        refused.refuse(number * 400.0 + 0.1)
    held = []
    for origins in (None, frozenset({"absent.example"})):
        before = _connections_alive()
        engine = Engine("test", "pcap", Filters(origins), packs=True, _kept=KeptConnections(20, 9))
        for event in network.events():
            engine.feed(event)
        held.append(_connections_alive() - before)
        del engine
    assert held[1] <= held[0] < 100


def _connections_alive() -> int:
    gc.collect()
    return sum(isinstance(each, TcpConnection) for each in gc.get_objects())
