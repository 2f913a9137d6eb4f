from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.track.clock import NS, Clock


def test_times_count_from_the_first_packet() -> None:
    """`at` is 0 for the first packet, seconds for later ones, and negative where a file is not in order."""
    clock = Clock()
    clock.see(5 * NS)
    clock.see(7 * NS + 500)
    clock.see(4 * NS)
    assert [clock.at(5 * NS), clock.at(7 * NS + 500), clock.at(4 * NS)] == [0, 2.0000005, -1]
    assert clock.now_ns == 7 * NS + 500


def test_a_clock_that_saw_nothing() -> None:
    """Before the first packet every moment is the beginning, and no moment has no time."""
    assert Clock().at(7 * NS) == 0
    assert Clock().maybe_at(None) is None


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1_700_000_000 * NS + 1, "2023-11-14T22:13:20.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (-62_135_596_800 * NS, "0001-01-01T00:00:00.000000000Z"),
        (1 << 64, "2554-07-21T23:34:33.709551616Z"),
    ],
)
def test_rfc3339(time_ns: int, text: str) -> None:
    """A moment is given in UTC with all nine digits, before 1970 too, and years have four digits."""
    assert Clock.rfc3339(time_ns) == text


@given(st.integers())
def test_any_integer_is_a_time(time_ns: int) -> None:
    """Whatever time a hostile file gives, the text has RFC 3339's form."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", Clock.rfc3339(time_ns))


def test_one_time_stamp_far_ahead_does_not_move_the_clock() -> None:
    """A damaged time stamp between good ones leaves the time where it was; a capture that goes on there moves it."""
    clock = Clock()
    for second in (10, 11, 10**9, 12):
        clock.see(second * NS)
    assert clock.now_ns == 12 * NS
    clock.see(10**9 * NS)
    clock.see((10**9 + 1) * NS)
    assert clock.now_ns == (10**9 + 1) * NS
