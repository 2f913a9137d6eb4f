"""The waterfall of an origin as shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.records import ExchangeRecord
from h3probe.show.report.assemble import make_report
from h3probe.show.report.chart import RIGHT, Chart, make_chart
from h3probe.show.report.model import Origin

from .samples import STALE, TIME, explanation, finding, moment, quic, recorded, tcp, verdict

if TYPE_CHECKING:
    from h3probe.run.explaining import Explained


def chart_of(told: Explained) -> Chart:
    """The chart of the only origin."""
    (origin,) = make_report(told).origins
    chart = make_chart(origin)
    assert chart is not None
    return chart


def exchange(number: int, at: float, took: float | None, error: str | None = None) -> ExchangeRecord:
    """A request that was answered, if there was no error."""
    url, status = "https://example.org:443/x", 200 if error is None else None
    return ExchangeRecord(
        f"exchange-{number}",
        at,
        TIME,
        "example.org:443",
        "GET",
        url,
        status,
        "HTTP/2",
        "client-log",
        "tcp-1",
        took,
        error,
    )


def test_quic_and_tcp_stand_on_one_axis() -> None:
    """Each connection has a row, in order of time, and what happened at one time has one place in all of them."""
    chart = chart_of(recorded(STALE)[0])
    assert [row.lane.transport for row in chart.rows] == ["quic", "tcp", "quic", "tcp"]
    (shade,) = chart.shades
    assert shade.x == next(point.x for point in chart.rows[2].points)
    assert shade.x + shade.width == next(point.x for point in chart.rows[3].points)
    assert [label.text for label in chart.shade_labels] == ["30.0 s lost waiting for QUIC"]


def test_bars_tell_what_came_of_a_connection() -> None:
    """A failed attempt is one bar to its end; one that succeeded is a bar to `ready`, and another one after that."""
    chart = chart_of(recorded(STALE)[0])
    assert [[bar.kind for bar in row.bars] for row in chart.rows[:2]] == [["try-failed"], ["try-ready", "live"]]


def test_a_connection_that_lives_goes_on_beyond_the_end() -> None:
    """What has no end is drawn to the end of the axis and marked as open."""
    chart = chart_of(explanation(quic(), tcp(), verdict()))
    assert chart.rows[1].bars[-1].open_end
    assert not chart.rows[0].bars[-1].open_end
    assert chart.rows[1].bars[-1].x + chart.rows[1].bars[-1].width == chart.axis.x(30.0)


def test_requests_stand_above_the_connections() -> None:
    """Each request that is known has a bar from its beginning to its end, and its version and duration beside it."""
    records = [exchange(1, 0.1, 0.2), exchange(2, 1.0, 30.0), exchange(3, 2.0, None, "timeout")]
    chart = chart_of(explanation(tcp(), verdict(), *records))
    assert [request.label.text for request in chart.requests] == [
        "HTTP/2 200, 200 ms",
        "HTTP/2 200, 30.0 s",
        "HTTP/2 timeout",
    ]
    assert all(request.y < chart.rows[0].y for request in chart.requests)
    assert chart.requests[1].x + chart.requests[1].width == chart.axis.x(31.0)
    assert chart.requests[0].name == "GET /x"


def test_a_label_of_a_request_is_never_cut_off() -> None:
    """Where there is no room beside a bar, its label stands in it."""
    chart = chart_of(explanation(verdict(), exchange(1, 0.0, 10.0)))
    (request,) = chart.requests
    assert request.inside
    assert request.x < request.label.x < RIGHT


def test_long_texts_are_cut_and_harmless() -> None:
    """A label is of limited length, and spells control characters out, so that its width is known."""
    told = explanation(quic(), verdict(), moments=(moment("quic-1", 0.0, "a\x1b" * 300, weight="start"),))
    (label,) = chart_of(told).rows[0].labels
    assert len(label.text) <= 47
    assert "\x1b" not in label.text


def test_nothing_is_no_chart() -> None:
    """An origin without connections and requests has none."""
    assert make_chart(Origin(1, "example.org:443")) is None


def test_what_is_drawn_is_within_the_drawing() -> None:
    """A loss that ends where the axis does still has its label inside."""
    told = explanation(quic(), tcp(2, 30.0, ready_at=None, outcome=None), finding(), verdict())
    chart = chart_of(told)
    assert chart.shades[0].x + chart.shades[0].width <= RIGHT
    assert chart.shade_labels[0].x <= RIGHT
