from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Dropped, Unreadable
from h3probe.vantage.proxy_events import LONGEST_LINE
from h3probe.vantage.proxy_reports import Reports

LINES = [
    json.dumps({"type": "dropped", "count": number, "reason": "the pipe was full"}).encode() + b"\n"
    for number in (1, 2, 3)
]


@given(st.lists(st.integers(1, sum(map(len, LINES)) - 1), max_size=6))
def test_any_cut(cuts: list[int]) -> None:
    """However lines come through the pipe, each is one event, once it has ended."""
    stream, reports = b"".join(LINES), Reports()
    bounds = [0, *sorted(set(cuts)), len(stream)]
    found = [report for begin, end in pairwise(bounds) for report in reports.take(stream[begin:end])]
    assert [report.count for report in found if isinstance(report, Dropped)] == [1, 2, 3]
    assert len(found) == 3


def test_a_line_that_is_no_event() -> None:
    """It is told of, and what comes after it is read."""
    nothing, one = Reports().take(b"Traceback\n" + LINES[0])
    assert isinstance(nothing, Unreadable)
    assert isinstance(one, Dropped)


def test_a_line_that_does_not_end() -> None:
    """It is told of once and passed over as a whole, without being kept."""
    reports = Reports()
    (told,) = reports.take(b"x" * (LONGEST_LINE + 1))
    assert isinstance(told, Unreadable)
    assert reports.take(b"x" * (LONGEST_LINE + 1)) == []
    (one,) = reports.take(b"the end\n" + LINES[0])
    assert isinstance(one, Dropped)


def test_another_process() -> None:
    """What the one before did not end is not the beginning of what the next one says."""
    reports = Reports()
    reports.take(LINES[0][:10])
    reports.clear()
    assert len(reports.take(LINES[1])) == 1
