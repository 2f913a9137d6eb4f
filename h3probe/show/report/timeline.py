"""What happened, in order, as rows of a table: the waterfall for narrow screens, and for those who listen to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.text import seconds

if TYPE_CHECKING:
    from h3probe.records import Transport
    from h3probe.show.report.model import Marker, Origin

LATER = 0.5
"""Seconds that are worth a row of their own."""
ROWS = 120
"""Rows of one origin; the chart beside it has more."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A row.

    Attributes:
        at: Seconds since the first packet.
        transport: In which column it stands.
        marker: What happened.
        lost: Whether it lies in a span that was lost.
        later: How long after the row before it; None where that is not worth a word.
        later_lost: Whether that time was lost.
        lost_begins: What is lost from here on; None elsewhere.
        note: The timer that ended the attempt here.
    """

    at: float
    transport: Transport
    marker: Marker
    lost: bool
    later: str | None
    later_lost: bool
    lost_begins: str | None
    note: str | None


def make_timeline(origin: Origin) -> tuple[list[Happening], int]:
    """The rows of an origin, in order of time, and how many there are beyond them."""
    happened = [(marker.at, lane, marker) for lane in origin.lanes for marker in lane.markers]
    happened.sort(key=lambda each: each[0])
    hidden = max(len(happened) - ROWS, 0) + sum(lane.markers_hidden for lane in origin.lanes)
    del happened[ROWS:]
    rows: list[Happening] = []
    before = happened[0][0] if happened else 0.0
    announced: set[int] = set()
    for at, lane, marker in happened:
        within = [wait for wait in origin.losses if wait.begin <= at <= wait.end]
        begins = next((i for i, wait in enumerate(origin.losses) if wait in within and i not in announced), None)
        text = None
        if begins is not None:
            announced.add(begins)
            text = f"{origin.losses[begins].length} {origin.losses[begins].text}"
        rows.append(
            Happening(
                at=at,
                transport=lane.transport,
                marker=marker,
                lost=bool(within),
                later=seconds(at - before) if at - before >= LATER else None,
                later_lost=any(wait.begin <= before and at <= wait.end for wait in origin.losses),
                lost_begins=text,
                note=lane.note if marker.kind == "bad" and at == lane.end else None,
            )
        )
        before = at
    return rows, hidden
