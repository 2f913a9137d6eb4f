"""The waterfall of one origin as shapes with places: what the template draws, and nothing that it has to work out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.show.report.waterfall import Axis, Label, make_axis, place_labels, text_width
from h3probe.text import clean, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.records import ExchangeRecord
    from h3probe.show.report.model import Lane, Marker, Origin, Wait

WIDTH = 1080.0
LEFT = 218.0
"""Where the axis begins; before it stand the names."""
RIGHT = 1064.0
TOP, TOP_WITH_LOSSES = 14.0, 30.0
LANE = 62.0
REQUEST = 24.0
REQUESTS = 12
"""Requests that are drawn; the table has the others."""
SHADE_LABEL_SIZE = 15.0
FOOT, FOOT_WITH_CUTS = 28.0, 46.0
LONGEST_LABEL = 46
NAME = 16
"""Letters of a request that fit before the axis."""
IMPORTANCE = ("bad", "ready", "icmp", "start", "end", "again", "step")


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of a connection's life.

    Attributes:
        x: Where it begins.
        width: How long it is.
        kind: `try-failed`, `try-ready`, `try-open` before it is ready, `live` after that.
        open_end: Whether it goes on beyond what is known.
    """

    x: float
    width: float
    kind: str
    open_end: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """A marker with its place."""

    x: float
    marker: Marker


@dataclass(frozen=True, slots=True)
class Row:
    """A connection's lane."""

    y: float
    lane: Lane
    bars: tuple[Bar, ...]
    points: tuple[Point, ...]
    labels: tuple[Label, ...]
    note: Label | None


@dataclass(frozen=True, slots=True)
class Request:
    """A request's bar; its label is beside it, or inside where there is no room."""

    y: float
    x: float
    width: float
    number: int
    name: str
    exchange: ExchangeRecord
    label: Label
    inside: bool


@dataclass(frozen=True, slots=True)
class Shade:
    """A span over all lanes."""

    x: float
    width: float
    wait: Wait


@dataclass(frozen=True, slots=True)
class Chart:
    """A waterfall, ready to be drawn."""

    axis: Axis
    rows: tuple[Row, ...]
    requests: tuple[Request, ...]
    shades: tuple[Shade, ...]
    shade_labels: tuple[Label, ...]
    top: float
    bottom: float
    height: float
    width: float = WIDTH
    left: float = LEFT

    @property
    def kinds(self) -> set[str]:
        """Which kinds of markers are in it."""
        return {point.marker.kind for row in self.rows for point in row.points}


def make_chart(origin: Origin) -> Chart | None:
    """Lay out an origin's waterfall; None where there is nothing to draw."""
    exchanges = origin.exchanges[:REQUESTS]
    if not origin.lanes and not exchanges:
        return None
    axis = make_axis(_times(origin, exchanges), LEFT, RIGHT)
    top = TOP_WITH_LOSSES if origin.losses else TOP
    requests = tuple(_request(axis, exchange, number, top) for number, exchange in enumerate(exchanges))
    y = top + REQUEST * len(requests) + (10 if requests else 0)
    rows = tuple(_row(axis, lane, y + LANE * index, origin.end) for index, lane in enumerate(origin.lanes))
    shades = tuple(_shade(axis, loss) for loss in origin.losses)
    said = [(shade.x + 5, f"{shade.wait.length} {shade.wait.text}") for shade in shades]
    labels = tuple(place_labels(said, LEFT, RIGHT, SHADE_LABEL_SIZE))
    bottom = y + LANE * len(rows)
    return Chart(
        axis,
        rows,
        requests,
        shades,
        labels,
        top,
        bottom,
        bottom + (FOOT_WITH_CUTS if axis.cuts else FOOT),
    )


def _times(origin: Origin, exchanges: Sequence[ExchangeRecord]) -> list[float]:
    times = [origin.begin, origin.end]
    for lane in origin.lanes:
        times += [lane.begin, *(marker.at for marker in lane.markers)]
        times += [at for at in (lane.ready, lane.end) if at is not None]
    for exchange in exchanges:
        times += [exchange.at, exchange.at + (exchange.took or 0.0)]
    for loss in origin.losses:
        times += [loss.begin, loss.end]
    return times


def _row(axis: Axis, lane: Lane, y: float, end: float) -> Row:
    begin, tried = axis.x(lane.begin), lane.ready if lane.ready is not None else lane.end
    over = tried if tried is not None else end
    bars = [_bar(axis, lane.begin, over, f"try-{lane.state}", open_end=tried is None)]
    if lane.ready is not None:
        stop = end if lane.end is None else max(lane.end, lane.ready)
        bars.append(_bar(axis, lane.ready, stop, "live", open_end=lane.end is None))
    points = tuple(Point(axis.x(marker.at), marker) for marker in lane.markers)
    wanted = sorted(points, key=lambda point: IMPORTANCE.index(point.marker.kind))
    labels = place_labels([(p.x, clean(p.marker.text, LONGEST_LABEL)) for p in wanted], LEFT, RIGHT)
    noted = clean("; ".join(text for text in (lane.tunnel, lane.note) if text), 2 * LONGEST_LABEL)
    note = next(iter(place_labels([(begin + 5, noted), (RIGHT - 5, noted)], LEFT, RIGHT)), None) if noted else None
    return Row(y, lane, tuple(bars), points, tuple(labels), note)


def _bar(axis: Axis, begin: float, end: float, kind: str, *, open_end: bool) -> Bar:
    x = axis.x(begin)
    return Bar(x, max(round(axis.x(end) - x, 1), 2.0), kind, open_end)


def _request(axis: Axis, exchange: ExchangeRecord, index: int, top: float) -> Request:
    x = axis.x(exchange.at)
    width = max(round(axis.x(exchange.at + (exchange.took or 0.0)) - x, 1), 3.0)
    text = clean(_request_text(exchange), LONGEST_LABEL)
    room = text_width(text) + 8
    # Beside the bar, on whichever side there is room; where it fills the row, in it.
    if x + width + room <= RIGHT:
        label, inside = Label(x + width + 8, text, "start"), False
    elif x - room >= LEFT:
        label, inside = Label(x - 8, text, "end"), False
    else:
        label, inside = Label(x + 6, text, "start"), True
    name = " ".join(part for part in (exchange.method, _path(exchange.url)) if part)
    return Request(top + REQUEST * index, x, width, index + 1, clean(name, NAME), exchange, label, inside)


def _path(url: str | None) -> str | None:
    """What stands behind the host in a URL."""
    _, scheme, rest = (url or "").partition("://")
    return "/" + rest.partition("/")[2] if scheme else url


def _request_text(exchange: ExchangeRecord) -> str:
    """`HTTP/2 200, 30.0 s`: what became of a request."""
    status = exchange.error or "no response" if exchange.status is None else str(exchange.status)
    took = "" if exchange.took is None else f", {seconds(exchange.took)}"
    return f"{exchange.version or 'HTTP'} {status}{took}"


def _shade(axis: Axis, wait: Wait) -> Shade:
    x = axis.x(wait.begin)
    return Shade(x, max(round(axis.x(wait.end) - x, 1), 3.0), wait)
