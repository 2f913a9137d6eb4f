"""The axis: to scale where something happens, cut where nothing does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.show.report.waterfall import MOST_CUTS, make_axis, place_labels, text_width

times = st.lists(st.floats(0, 1e7, allow_nan=False), min_size=1, max_size=60)


@given(times)
def test_time_goes_to_the_right(at: list[float]) -> None:
    """Whatever the times, places are in their order and within the axis; stretches join, and few are cuts."""
    axis = make_axis(at, 100, 900)
    places = [axis.x(t) for t in sorted(at)]
    assert places == sorted(places)
    assert all(99.9 <= x <= 900.1 for x in places)
    assert all(a.right == pytest.approx(b.left) and a.end == b.begin for a, b in pairwise(axis.stretches))
    assert len(axis.cuts) <= MOST_CUTS
    assert all(cut.right - cut.left > 20 for cut in axis.cuts)


def test_a_long_wait_and_what_follows_can_both_be_read() -> None:
    """30 s of nothing are cut out and named; the 5 ms after them have most of the room."""
    axis = make_axis([0.0, *(30 + n / 1000 for n in range(6))], 0, 800)
    assert [cut.name for cut in axis.cuts] == ["30.0 s"]
    assert axis.x(30.005) - axis.x(30.0) > 500
    assert axis.x(30.002) - axis.x(30.001) == pytest.approx(axis.x(30.004) - axis.x(30.003), abs=0.2)


def test_a_race_keeps_its_proportions() -> None:
    """Within a race nothing is cut: a bar of twice the time is twice as long."""
    axis = make_axis([0.0, 0.000_02, 0.024, 0.05, 0.1, 0.2, 0.438], 0, 800)
    assert not axis.cuts
    assert axis.x(0.2) - axis.x(0) == pytest.approx(2 * (axis.x(0.1) - axis.x(0)), rel=0.01)


def test_even_steps_need_no_cut() -> None:
    """Where all gaps are long, their lengths are the story."""
    assert not make_axis([0.0, 1.0, 2.0, 4.0, 8.0], 0, 800).cuts


def test_a_longer_gap_is_wider() -> None:
    """Cuts are not to scale, but in order."""
    first, second = make_axis([0.0, 0.001, 1.0, 1.001, 31.0, 31.001], 0, 800).cuts
    assert first.right - first.left < second.right - second.left
    assert (first.name, second.name) == ("999 ms", "30.0 s")


@given(times)
def test_ticks_do_not_touch(at: list[float]) -> None:
    """However narrow a stretch, what is written below the axis stays apart."""
    places = sorted(x for x, _ in make_axis(at, 0, 800).ticks())
    assert places
    assert all(b - a >= 50 for a, b in pairwise(places))


def test_moments_alone_fill_the_axis() -> None:
    """Where nothing but two moments is there, the gap between them takes the room."""
    axis = make_axis([0.0, 5.0], 0, 800)
    assert axis.x(0.0) < 30
    assert axis.x(5.0) > 770


def test_one_moment_is_an_axis() -> None:
    """A single packet has a place too."""
    assert 0 <= make_axis([3.0], 0, 800).x(3.0) <= 800


@given(st.lists(st.tuples(st.floats(0, 800), st.text("abc", max_size=60)), max_size=20))
def test_labels_do_not_cover_each_other(wanted: list[tuple[float, str]]) -> None:
    """The first one has its place, if it fits at all; each later one that would cover it is left out."""
    spans = []
    for label in place_labels(wanted, 0, 800):
        width = text_width(label.text)
        spans.append((label.x, label.x + width) if label.anchor == "start" else (label.x - width, label.x))
    assert all(a[1] <= b[0] for a, b in pairwise(sorted(spans)))


def test_the_most_important_label_comes_first() -> None:
    """Of two at one point, the first is shown."""
    assert [label.text for label in place_labels([(400, "first" * 12), (400, "second" * 9)], 0, 800)] == ["first" * 12]
