from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.track.clock import NS
from h3probe.vantage.clientlog.wallclock import OWN_CLOCK, EpochClock, WallClock, http_date, iso_utc

NOON = 1_796_040_000 * NS


@given(
    start=st.integers(0, 86_400),
    gaps=st.lists(st.integers(0, 5 * 3600), max_size=20),
    zone=st.integers(-48, 56),
)
def test_a_face_and_one_anchor_give_the_time(start: int, gaps: list[int], zone: int) -> None:
    """In any zone, over noon and midnight, each face has its time, if one of them is known to a few minutes."""
    clock = WallClock(12)
    times, faces = [NOON + start * NS], []
    times += [times[0] + sum(gaps[: number + 1]) * NS for number in range(len(gaps))]
    for time_ns in times:
        local = (time_ns // NS + zone * 900) % 43_200
        assert clock.face(f"{local // 3600 or 12}:{local // 60 % 60:02d}:{local % 60:02d} PM")
        assert clock.now_ns is not None
        faces.append(clock.now_ns)
    clock.anchor(times[-1] + 200 * NS)
    assert [face + clock.base_ns(0) for face in faces] == times


def test_the_clients_own_clock_counts_more() -> None:
    """One server's wrong date does not move a log whose own deadlines are known."""
    clock = WallClock(24)
    clock.face("12:00:00")
    for _ in range(50):
        clock.anchor(NOON + 3600 * NS)
    clock.anchor(NOON, OWN_CLOCK)
    assert clock.base_ns(0) + (clock.now_ns or 0) == NOON


@pytest.mark.parametrize(("text", "within"), [("1:02:03", NS), ("01:02:03.5", NS // 10), ("01:02:03,123456", 1_000)])
def test_how_far_off(text: str, within: int) -> None:
    """A face that shows whole seconds may be one off."""
    clock = WallClock(12)
    clock.face(text)
    assert clock.within_ns == within


@pytest.mark.parametrize("text", ["", "12:00", "2001:db8::1:22:33:44", "100:00:00"])
def test_what_is_no_face(text: str) -> None:
    """A text without a time leaves the clock as it was."""
    clock = WallClock(12)
    assert not clock.face(text)
    assert clock.now_ns is None


@given(st.text(max_size=70))
def test_any_date_is_read_or_not(text: str) -> None:
    """A date is nanoseconds, or None; nothing is raised."""
    assert isinstance(http_date(text), int | None)
    assert isinstance(iso_utc(text), int | None)


def test_dates() -> None:
    """An HTTP date and an ISO one, to the second."""
    assert http_date("Mon, 30 Nov 2026 12:00:00 GMT") == NOON
    assert iso_utc("2026-11-30T12:00:00.999Z") == NOON


def test_the_epochs_own() -> None:
    """A log whose times are the epoch's needs nothing added."""
    assert EpochClock().base_ns(NOON) == 0
