from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.vantage.pace import Pace

if TYPE_CHECKING:
    import pytest


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        """What time it is."""
        return self.now


def test_interval_and_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short activity keeps to its interval; a long one is followed by a pause of three times its length."""
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    pace = Pace(0.5)
    assert pace.begin()
    clock.now += 0.01
    pace.end()
    clock.now = 100.49
    assert not pace.begin()
    clock.now = 100.5
    assert pace.begin()
    clock.now += 2
    pace.end()
    clock.now += 5.9
    assert not pace.begin()
    clock.now += 0.1
    assert pace.begin()
