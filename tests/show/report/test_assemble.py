"""A report assembled: what is shown, and in which order."""

from __future__ import annotations

import pytest

from h3probe.records import StoryOutline
from h3probe.show.report.assemble import LANES, ORIGINS_DRAWN, PACKETS, make_report
from h3probe.show.report.lanes import MARKERS

from .samples import STALE, explanation, finding, moment, origin_of, quic, recorded, tcp, verdict


def test_what_was_lost_is_where_it_was_lost() -> None:
    """From the first Initial to the SYN of the fallback; the figure is the finding's."""
    (origin,) = make_report(recorded(STALE)[0]).origins
    (loss,) = origin.losses
    assert origin.lost == pytest.approx(30.0, abs=0.01)
    assert (loss.begin, loss.end) == (origin.lanes[2].begin, origin.lanes[3].begin)
    assert origin.tone == "problem"


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


def test_what_is_no_problem_cost_nothing() -> None:
    """Milliseconds that a finding of no weight tells of are no loss to be shown in large letters."""
    origin = origin_of(quic(), tcp(2, 30.0), finding(severity="info"), verdict())
    assert (origin.lost, origin.losses) == (None, [])


def test_of_several_clients_it_is_said_whose_time_it_was() -> None:
    """The hatched span lies over the lanes of all of them."""
    other = tcp(9, client="10.0.0.7:1")
    alone = origin_of(quic(), tcp(2, 30.0), finding(), verdict())
    beside = origin_of(quic(), tcp(2, 30.0), other, finding(), verdict())
    assert [loss.text for loss in alone.losses] == ["lost waiting for QUIC"]
    assert [loss.text for loss in beside.losses] == ["lost waiting for QUIC, by 10.0.0.1"]


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


def test_findings_about_the_capture_stand_by_themselves() -> None:
    """What is about no origin is about the capture; its packets are shown as well."""
    report = make_report(explanation(finding(origin=None)))
    assert [record.origin for record in report.about_capture] == [None]
    assert list(report.packets) == [1]
    assert report.origins == []
