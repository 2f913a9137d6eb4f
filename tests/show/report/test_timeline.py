"""What happened in order: the waterfall as a table."""

from __future__ import annotations

from h3probe.show.report.assemble import make_report
from h3probe.show.report.timeline import ROWS, make_timeline

from .samples import STALE, explanation, moment, quic, recorded, tcp, verdict


def test_rows_are_in_order_and_time_is_named() -> None:
    """All connections in one order of time; time that passed is named, and as lost where it was."""
    (origin,) = make_report(recorded(STALE)[0]).origins
    rows, _ = make_timeline(origin)
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    assert {row.transport for row in rows} == {"quic", "tcp"}
    later = [(row.later, row.later_lost) for row in rows if row.later]
    assert ("889 ms", False) in later
    assert ("7.99 s", True) in later
    assert [row.lost_begins for row in rows if row.lost_begins] == ["30.0 s lost waiting for QUIC"]


def test_the_timer_stands_where_it_ended() -> None:
    """The row of the close names the client's timer."""
    (origin,) = make_report(recorded(STALE)[0]).origins
    notes = [row.note for row in make_timeline(origin)[0] if row.note]
    assert notes == [f"JDK 26 HttpClient: {wait} s until it gives up QUIC" for wait in ("2.75", "30")]


def test_many_rows_are_cut() -> None:
    """A busy origin does not make an endless table."""
    connections = [tcp(n, n / 100) for n in range(60)]
    moments = tuple(moment(c.id, c.at + k / 1000, "x") for c in connections for k in range(20))
    (origin,) = make_report(explanation(quic(), *connections, verdict(), moments=moments)).origins
    rows, hidden = make_timeline(origin)
    assert len(rows) == ROWS
    assert len(rows) + hidden == 1200 - origin.lanes_hidden * 20
