"""What a report shows, and in which order."""

from __future__ import annotations

import pytest

from h3probe.records import Close, IcmpRecord, RaceRecord, StoryOutline, TunnelRecord
from h3probe.show.report.model import LANES, MARKERS, ORIGINS_DRAWN, PACKETS, Origin, make_report

from .samples import STALE, TIME, explanation, finding, moment, quic, recorded, tcp, verdict


def origin_of(*records: object, **more: object) -> Origin:
    """The only origin of an explanation."""
    (origin,) = make_report(explanation(*records, **more)).origins  # type: ignore[arg-type]
    return origin


def test_what_was_lost_is_where_it_was_lost() -> None:
    """From the first Initial to the SYN of the fallback; the figure is the finding's."""
    (origin,) = make_report(recorded(STALE)[0]).origins
    (loss,) = origin.losses
    assert origin.lost == pytest.approx(30.0, abs=0.01)
    assert (loss.begin, loss.end) == (origin.lanes[2].begin, origin.lanes[3].begin)
    assert origin.tone == "problem"
    (part,) = origin.parts
    assert part.width == pytest.approx(90.7, abs=0.1)


def test_a_cost_that_the_connections_do_not_add_up_to_is_not_drawn() -> None:
    """The figure stays; where it lies on the axis is not guessed."""
    origin = origin_of(quic(), tcp(2, 12.0), finding(), verdict())
    assert origin.lost == 30.0
    assert origin.losses == []


def test_seconds_count_once() -> None:
    """Findings about the same connection may be about the same wait; about different ones they add up."""
    same = origin_of(quic(), finding(cost=30.0), finding(2, cost=20.0, connections=["quic-1"]), verdict())
    other = origin_of(quic(), quic(2), finding(cost=30.0), finding(2, cost=20.0, connections=["quic-2"]), verdict())
    assert (same.lost, other.lost) == (30.0, 50.0)


def test_the_timer_of_a_known_client_has_its_name() -> None:
    """With the close that says so; without a close of the client's, or with another client, there is no name."""
    assert origin_of(quic(), verdict()).lanes[0].note == "JDK 26 HttpClient: 30 s until it gives up QUIC"
    assert origin_of(quic(close=None), verdict()).lanes[0].note is None
    assert origin_of(quic(client_guess=None), verdict()).lanes[0].note is None
    wordless = Close(12, "APPLICATION_ERROR", "", "client")
    assert origin_of(quic(ended_at=12.0, close=wordless), verdict()).lanes[0].note is None


def test_what_carried_the_first_request_is_said_where_it_is_known() -> None:
    """On the connection that a race record names, and with where that is known from."""
    race = RaceRecord("race-1", 0.0, TIME, "example.org:443", "10.0.0.1", "quic-1", "tcp-1", 0.02, None, 0.1, "tcp",
                      None, "tcp", "inferred")  # fmt: skip
    lanes = origin_of(quic(client_guess=None), tcp(), race, verdict()).lanes
    assert [lane.note for lane in lanes] == [None, "carried the first request (inferred)"]


def test_origins_with_problems_come_first() -> None:
    """The worst first; among many, those about which there is nothing to say are a line each."""
    told = explanation(verdict(1), finding(1, severity="notice", cost=None))
    for n in range(30):
        told.all_records.append(verdict(n + 2, f"host{n}.example:443", rules=[]))
    told.all_records += [verdict(99, "worst.example:443"), finding(9, origin="worst.example:443")]
    report = make_report(told)
    assert [origin.label for origin in report.origins] == ["worst.example:443", "example.org:443"]
    assert [origin.tone for origin in report.origins] == ["problem", "notice"]
    assert len(report.folded) == 30


def test_many_origins_without_a_problem_are_folded() -> None:
    """A few stand open; many are brief, since nothing is wrong with any of them."""
    few, many = explanation(verdict(rules=[])), explanation(verdict(rules=[]))
    many.all_records += [verdict(n, f"host{n}.example:443", rules=[]) for n in range(2, 12)]
    assert [make_report(few).is_brief(origin) for origin in make_report(few).origins] == [False]
    assert {make_report(many).is_brief(origin) for origin in make_report(many).origins} == {True}


def test_an_origin_without_a_verdict_is_a_line() -> None:
    """Connections that deserve no verdict are no story of their own."""
    told = explanation(tcp(), verdict())
    told.stories.append(StoryOutline("10.0.0.9:8888", relayed=False, connections=("tcp-9",)))
    report = make_report(told)
    assert [origin.label for origin in report.origins] == ["example.org:443"]
    assert [origin.label for origin in report.folded] == ["10.0.0.9:8888"]


def test_everything_has_a_limit() -> None:
    """Origins, connections, what happened on each, and packets; connections with a finding are kept."""
    records = [tcp(n, n / 10) for n in range(200)]
    moments = tuple(moment("tcp-3", n / 100, "x", frame=n) for n in range(500))
    told = explanation(*records, quic(7, 100.0), verdict(), finding(connections=["quic-7"]), moments=moments)
    told.all_records += [finding(n, origin=f"host{n}.example:443", cost=None) for n in range(2, 60)]
    report = make_report(told)
    assert len(report.origins) == ORIGINS_DRAWN
    first = report.origins[0]
    assert len(first.lanes) == LANES
    assert first.lanes_hidden == 201 - LANES
    assert "quic-7" in {lane.id for lane in first.lanes}
    assert all(len(lane.markers) <= MARKERS for lane in first.lanes)
    assert len(report.packets) <= PACKETS


def test_markers_have_a_shape_each() -> None:
    """Begun, sent again, refused by ICMP, failed; ready, closed."""
    happened = (
        moment("quic-1", 0.0, "Initial", weight="start"),
        moment("quic-1", 1.0, "Initial again"),
        moment("quic-1", 1.1, "ICMP port unreachable", transport="icmp", weight="bad", outgoing=False),
        moment("quic-1", 30.0, "CONNECTION_CLOSE", weight="bad"),
        moment("tcp-1", 0.1, "TCP ready", weight="good"),
        moment("tcp-1", 5.0, "closed by the client, FIN"),
    )
    lanes = origin_of(quic(), tcp(ended_at=5.0), verdict(), moments=happened).lanes
    assert [m.kind for m in lanes[0].markers] == ["start", "again", "icmp", "bad"]
    assert [m.kind for m in lanes[1].markers] == ["ready", "end"]


def test_the_way_names_who_refused() -> None:
    """Beside a refusal stands who sent the ICMP error."""
    icmp = IcmpRecord("icmp-1", 0.0, TIME, 3, 13, "prohibited", "10.0.0.254", "quic-1", 2)
    network = origin_of(quic(outcome="refused", close=None), icmp, tcp(), verdict()).network
    assert network is not None
    (ways,) = network.ways
    assert [(way.transport, way.works, way.text) for way in ways] == [
        ("QUIC", False, "refused, says 10.0.0.254"),
        ("TCP", True, "ready"),
    ]


def test_the_way_through_a_proxy_has_three_stops() -> None:
    """What the client asked, what the proxy did, and what went past it stand apart."""
    asked = TunnelRecord("tunnel-1", 0.0, TIME, "10.0.0.1:50000", "10.0.0.5:3128", "example.org:443", "CONNECT", 407,
                         None, None, 0, None, None, "tcp-1", None)  # fmt: skip
    onward = tcp(2, client="10.0.0.5:1234")
    network = origin_of(quic(), tcp(server="10.0.0.5:3128"), onward, asked, verdict(), relayed=("tcp-2",)).network
    assert network is not None
    assert [hop.role for hop in network.hops] == ["client", "proxy", "server"]
    assert [(way.transport, way.works, way.text) for ways in network.ways for way in ways] == [
        ("CONNECT", False, "answered 407"),
        ("TCP", True, "ready"),
    ]
    assert [(way.transport, way.works) for way in network.past] == [("QUIC", False)]


def test_findings_about_the_capture_stand_by_themselves() -> None:
    """What is about no origin is about the capture; its packets are shown as well."""
    report = make_report(explanation(finding(origin=None)))
    assert [record.origin for record in report.about_capture] == [None]
    assert list(report.packets) == [1]
    assert report.origins == []
