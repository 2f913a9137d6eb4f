from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from h3probe.engine import Engine
from h3probe.events import Dropped, Endpoint, Event, Frame, Process, SocketOwner, Uncounted, Unreadable
from h3probe.filters import Filters
from h3probe.records import AnyRecord, FindingRecord, SummaryRecord
from h3probe.show.ndjson import to_json
from h3probe.show.schema import json_schema
from h3probe.track.kept import KeptConnections
from tests.diagnose.scenario import JDK, ROUTER, Network, explain, nanoseconds

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cache
def validator() -> jsonschema.Draft202012Validator:
    """The output contract."""
    return jsonschema.Draft202012Validator(json_schema())


def validate(records: list[AnyRecord]) -> None:
    """Check that every record is what the schema describes, and that references lead somewhere."""
    ids = {record.id for record in records}
    for record in records:
        line: dict[str, Any] = json.loads(to_json(record))
        validator().validate(line)
        for reference in [line.get("connection"), *line.get("connections", ())]:
            assert reference is None or reference in ids, line


def busy() -> Network:
    """A network in which everything happens that the engine knows records for."""
    network = Network()
    network.dns(0.0, "example.org", "198.51.100.1")
    network.https_record(0.001, "example.org", "h3", "h2")
    quic = network.quic(software=JDK)
    quic.initials(0.1, 1.1)
    quic.unreachable(1.2, code=(3, 13), sender=ROUTER)
    quic.close(2.85, 0xC, b"gives up \x1b[1m")
    tcp = network.tcp(software=JDK)
    tcp.connects(0.15)
    network.owns(0.2, tcp, 4711, "java")
    proxied = network.tcp(server="192.0.2.3", port=8888, sni="other.example")
    proxied.asks_proxy(3.0, "other.example:443")
    proxied.proxy_answers(3.1, 200)
    proxied.gets_ready(3.2)
    network.quic(sni="third.example", server="198.51.100.3").connects(4.0)
    reported, proxy = network.tcp(server="192.0.2.3", port=8899, sni="fourth.example"), network.proxy()
    proxy.carries(reported, 4.5, "fourth.example")
    proxy.exchange(4.6, reported, origin="https://fourth.example:443", intercepted=True)
    proxy.alt_svc(4.7, reported, 'h3=":443"', origin="https://fourth.example:443")
    network.lost(5.0, 2)
    network.unreadable(5.1, "a block of no known kind")
    return network


def test_every_kind_of_record_keeps_to_the_contract() -> None:
    """All records of a busy capture validate, and cover every kind that one capture gives."""
    explained = busy().explain(truncated=True, expects="HTTP/3")
    validate(explained.records)
    kinds = {record.type for record in explained.records}
    assert kinds == {record.type for record in get_args(AnyRecord)} - {"difference"}


def test_the_first_and_the_last_record_frame_the_others() -> None:
    """`capture` comes first with the first packet's time, `summary` last with the counts."""
    explained = busy().explain()
    first, summary = explained.records[0], explained.summary
    assert (first.type, first.at, first.time) == ("capture", 0.0, "2026-05-28T20:26:40.000000000Z")
    assert summary.packets == len(busy().sent)
    assert summary.records == Counter(record.type for record in explained.records)
    assert summary.link_types == ["RAW"]
    assert summary.dropped == 2
    assert summary.malformed == summary.evicted == 0


def test_an_empty_source_is_no_error() -> None:
    """No event at all: first and last record, and status 0."""
    explained = explain([])
    validate(explained.records)
    assert [record.type for record in explained.records] == ["capture", "summary"]
    assert explained.summary.exit_status == 0


@pytest.mark.parametrize(
    ("event", "words"), [(Dropped(3, "the ring was full"), "3 packets"), (Unreadable("block 2"), "block 2")]
)
def test_losses_without_a_packet_are_told(event: Event, words: str) -> None:
    """A source that gave nothing but trouble says so, in valid records."""
    explained = explain([event], truncated=True)
    validate(explained.records)
    assert words in explained.the("incomplete-capture").summary


def test_what_was_not_counted_weakens_nothing() -> None:
    """Packets of transfers that were not counted are in the summary, and are neither lost nor a finding."""
    network = Network()
    network.quic()
    explained = explain([*network.events(), Uncounted(30, "more came"), Uncounted(4, "more came")])
    validate(explained.records)
    assert (explained.summary.uncounted, explained.summary.dropped) == (34, None)
    assert "incomplete-capture" not in {
        record.rule for record in explained.records if isinstance(record, FindingRecord)
    }


def test_the_exit_status_follows_the_problems() -> None:
    """1 with a finding of severity problem, 0 with notices and information."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0, 3.0)
    tcp = network.tcp()
    tcp.connects(0.1)
    explained = network.explain()
    assert {f.severity for f in explained.findings} == {"notice"}
    assert explained.engine.exit_status == explained.summary.exit_status == 0
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0, 3.0)
    network.tcp().connects(5.0)
    explained = network.explain()
    assert explained.engine.exit_status == explained.summary.exit_status == 1


def test_the_sources_own_count_of_losses_is_used() -> None:
    """Where no event tells of losses, the number that the source gives at its end does."""
    summary = Engine("eth0", "live").finish(dropped=7)[-1]
    assert isinstance(summary, SummaryRecord)
    assert summary.dropped == 7


def live(network: Network, until: float, filters: Filters | None = None) -> list[AnyRecord]:
    """Run an engine as a live vantage point does: time passes without packets, too."""
    engine = Engine("eth0", "live", filters or Filters())
    events = network.events()
    records: list[AnyRecord] = []
    second = 0
    while second <= until:
        while events and (not isinstance(events[0], Frame) or events[0].time_ns <= nanoseconds(second)):
            records += engine.feed(events.pop(0))
        records += engine.advance(nanoseconds(second))
        second += 1
    return records + engine.finish()


def test_what_a_later_packet_may_disprove_is_told_at_the_end() -> None:
    """A tunnel that has rested for long had no QUIC beside it, until QUIC leaves after all."""
    network = Network()
    tcp = network.tcp(server="192.0.2.3", port=3128)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.05, 200)
    tcp.gets_ready(0.06)
    tcp.exchanges(0.2)
    tcp.fin(1.0)
    tcp.fin(1.1, by="server")
    other = network.tcp(client="192.0.2.99", sni="other.example")  # with whose end the stories so far are looked at
    other.connects(70.0)
    other.fin(71.0)
    other.fin(71.1, by="server")
    rules = [record.rule for record in live(network, 100) if isinstance(record, FindingRecord)]
    assert rules == ["proxy-downgrade"]
    network.quic().connects(90.0)
    rules = [record.rule for record in live(network, 100) if isinstance(record, FindingRecord)]
    assert rules == ["proxy-bypass"]


def test_time_that_passes_before_the_first_packet_is_nothing() -> None:
    """A live run that waits for its first packet says nothing, and starts its clock with that packet."""
    engine = Engine("eth0", "live")
    assert engine.advance(nanoseconds(-100)) == []
    network = Network()
    network.quic().connects(0.0)
    for event in network.events():
        engine.feed(event)
    first = engine.finish()[0]
    assert first.time == "2026-05-28T20:26:40.000000000Z"


def kinds(records: list[AnyRecord]) -> Counter[str]:
    """How many records of each kind."""
    return Counter(record.type for record in records)


def test_connections_can_be_asked_for() -> None:
    """New ones are handed out once, and found by their ids."""
    network = Network()
    network.quic().connects(0.0)
    engine = Engine("test", "pcap", tells_opened=True)
    for event in network.events():
        engine.feed(event)
    (opened,) = engine.take_opened()
    assert engine.take_opened() == []
    assert engine.connection(opened.id) is opened
    assert engine.connection("quic-99") is None
    assert engine.connection(None) is None


def test_what_had_to_be_forgotten_is_counted() -> None:
    """A table that is full forgets the oldest and says how many."""
    network = Network()
    for number in range(6):
        network.quic(sni=f"site{number}.example").connects(float(number))
    engine = Engine("test", "pcap", _kept=KeptConnections(4))
    records = [record for event in network.events() for record in engine.feed(event)] + engine.finish()
    summary = records[-1]
    assert isinstance(summary, SummaryRecord)
    assert summary.evicted == 2
    assert kinds(records)["quic"] == 6
    assert kinds(records)["verdict"] == 4
    assert any(isinstance(r, FindingRecord) and r.rule == "incomplete-capture" for r in records)


LINK_TYPES = st.sampled_from([0, 1, 9, 12, 101, 108, 113, 228, 229, 276, 9999])
TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(nanoseconds(0), nanoseconds(100))
FRAMES = st.builds(
    lambda number, time_ns, link, data, more: Frame(number, time_ns, link, data, len(data) + more),
    st.integers(1, 1000),
    TIMES,
    LINK_TYPES,
    st.binary(max_size=120),
    st.integers(0, 2000),
)
OWNERS = st.builds(
    SocketOwner,
    TIMES,
    st.sampled_from([6, 17, 1]),
    st.builds(Endpoint, st.sampled_from([bytes(4), bytes(16)]), st.integers(0, 65535)),
    st.builds(Process, st.integers(0, 2**22), st.text(max_size=15)),
)
EVENTS = FRAMES | OWNERS | st.builds(Dropped, st.integers(0, 2**40), st.text(max_size=20))


@SETTINGS
@given(st.lists(EVENTS | st.builds(Unreadable, st.text(max_size=20)), max_size=12))
@example([Unreadable("\x1b")])
@example([Dropped(0, "")])
def test_any_events_give_a_whole_answer(events: list[Event]) -> None:
    """Whatever comes in, nothing is raised, the summary is last and right, and every record is valid."""
    explained = explain(events)
    validate(explained.records)
    assert explained.summary.packets == sum(isinstance(event, Frame) for event in events)


BUSY = [event for event in busy().events() if isinstance(event, Frame)]


@SETTINGS
@given(st.data())
def test_damaged_traffic_gives_a_whole_answer(data: st.DataObject) -> None:
    """Real packets, bent: bytes changed, ends cut off, frames lost, repeated and swapped."""
    frames = list(BUSY)
    for _ in range(data.draw(st.integers(1, 6))):
        index = data.draw(st.integers(0, len(frames) - 1))
        victim = frames[index]
        match data.draw(st.sampled_from(["flip", "cut", "drop", "repeat", "swap", "late"])):
            case "flip" if victim.data:
                place = data.draw(st.integers(0, len(victim.data) - 1))
                flipped = victim.data[place] ^ data.draw(st.integers(1, 255))
                changed = victim.data[:place] + bytes([flipped]) + victim.data[place + 1 :]
                frames[index] = Frame(victim.number, victim.time_ns, victim.link_type, changed, victim.length)
            case "cut":
                short = victim.data[: data.draw(st.integers(0, len(victim.data)))]
                frames[index] = Frame(victim.number, victim.time_ns, victim.link_type, short, victim.length)
            case "drop" if len(frames) > 1:
                del frames[index]
            case "repeat":
                frames.insert(data.draw(st.integers(0, len(frames))), victim)
            case "swap":
                other = data.draw(st.integers(0, len(frames) - 1))
                frames[index], frames[other] = frames[other], victim
            case _:
                delayed = victim.time_ns + data.draw(st.integers(-(10**11), 10**11))
                frames[index] = Frame(victim.number, delayed, victim.link_type, victim.data, victim.length)
    explained = explain(frames)
    validate(explained.records)
    assert explained.summary.packets == len(frames)
    for finding in explained.findings:
        assert finding.summary.isprintable()
        assert all(row.what.isprintable() for row in finding.evidence)


@SETTINGS
@given(st.integers(0, len(BUSY)), st.integers(0, len(BUSY)))
def test_any_part_of_a_capture_gives_a_whole_answer(one: int, other: int) -> None:
    """A capture that starts late or ends early never claims a connection that failed and did not."""
    explained = explain(BUSY[min(one, other) : max(one, other)])
    validate(explained.records)
    for verdict in explained.verdicts:
        if verdict.origin == "third.example:443":
            assert not verdict.sentence.startswith("No connection")
    assert not [finding for finding in explained.findings if finding.origin == "third.example:443"]
