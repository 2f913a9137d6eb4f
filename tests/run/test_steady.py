"""Time that neither jumps nor runs while the machine sleeps."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from h3probe.engine import Engine
from h3probe.events import Block, Dropped, Frame
from h3probe.records import QuicRecord, SummaryRecord
from h3probe.run.session import Session
from h3probe.run.steady import SteadyClock
from tests.blocks import in_a_block
from tests.run.test_session import Shown
from tests.track import builders

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
DAY = 1_700_000_000 * SECOND


@dataclass
class Machine:
    """Clocks that a test moves."""

    day: int = DAY
    steady: int = 5 * SECOND
    slept: int = 0

    def clock(self) -> SteadyClock:
        """A clock of this machine."""
        return SteadyClock(lambda: self.day, lambda: self.steady, lambda: self.slept)

    def run(self, ns: int) -> None:
        """Time goes on."""
        self.day += ns
        self.steady += ns

    def sleep(self, ns: int) -> None:
        """The machine sleeps: the time of day goes on alone."""
        self.day += ns
        self.slept += ns


def stamped(machine: Machine) -> Frame:
    """A frame that arrives now."""
    return Frame(1, machine.day, 1, b"", 0)


def time_of(clock: SteadyClock, frame: Frame) -> int:
    """The frame's corrected time."""
    corrected = clock.corrected(frame)
    assert isinstance(corrected, Frame)
    return corrected.time_ns


def test_nothing_is_changed_while_the_clock_goes_on() -> None:
    """Without a step nothing is said, and events are given back as they are."""
    machine = Machine()
    clock = machine.clock()
    machine.run(10 * SECOND)
    frame = stamped(machine)
    assert clock.look() is None
    assert clock.corrected(frame) is frame
    assert clock.now_ns() == machine.day


@pytest.mark.parametrize(("step", "way"), [(-HOUR, "back"), (HOUR, "forward"), (-SECOND, "back")])
def test_a_clock_that_is_set_changes_no_duration(step: int, way: str) -> None:
    """Between packets before and after the step lies the time that really passed, and the step is told once."""
    machine = Machine()
    clock = machine.clock()
    before = time_of(clock, stamped(machine))
    machine.run(SECOND)
    machine.day += step
    said = clock.look()
    assert said is not None
    assert way in said
    assert clock.look() is None
    machine.run(SECOND)
    assert time_of(clock, stamped(machine)) - before == 2 * SECOND
    assert clock.now_ns() == before + 2 * SECOND


def test_a_packet_older_than_the_step_keeps_its_time() -> None:
    """What was stamped before the clock was set, and is read after it, is corrected by the clock it was stamped by."""
    machine = Machine()
    clock = machine.clock()
    frame = stamped(machine)
    machine.run(SECOND // 100)
    machine.day -= HOUR
    assert clock.look() is not None
    assert time_of(clock, frame) == frame.time_ns


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_block_is_corrected_as_its_frames_are(step: int) -> None:
    """The times of a block change by as much as those of a frame that is stamped with it."""
    machine = Machine()
    clock = machine.clock()
    machine.day += step
    clock.look()
    machine.run(SECOND)
    frame = stamped(machine)
    frames = [Frame(number, machine.day - number, 1, b"x", 1) for number in (2, 1, 0)]
    corrected = clock.corrected(in_a_block(frames))
    assert isinstance(corrected, Block)
    assert corrected.times_ns.tolist() == [time_of(clock, frame) - number for number in (2, 1, 0)]


def test_sleep_is_no_time() -> None:
    """A client's timers stand still while the machine sleeps, and so do the times told; the sleep is told as such."""
    machine = Machine()
    clock = machine.clock()
    before = time_of(clock, stamped(machine))
    machine.sleep(HOUR)
    assert clock.look() == "the machine slept for 3,600 s; times go on as if it had not"
    machine.run(SECOND)
    assert time_of(clock, stamped(machine)) - before == SECOND


def test_slow_adjustment_is_followed() -> None:
    """A clock that is adjusted by milliseconds is right, and its stamps stay as they are."""
    machine = Machine()
    clock = machine.clock()
    for _ in range(100):
        machine.run(SECOND)
        machine.day += SECOND // 100
        assert clock.look() is None
    frame = stamped(machine)
    assert clock.corrected(frame) is frame


def test_what_has_no_time_stays() -> None:
    """An event without a time is the same after a step."""
    machine = Machine()
    clock = machine.clock()
    machine.day -= HOUR
    clock.look()
    assert clock.corrected(Dropped(3, "lost")) == Dropped(3, "lost")


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_handshake_over_a_step_is_one_handshake(step: int) -> None:
    """A clock that is set in the middle of a QUIC handshake neither lengthens it nor turns it round, and it is told."""
    machine = Machine()
    shown = Shown()
    session = Session(Engine("lo", "live"), shown, None, None)
    session.clock = machine.clock()
    watch = builders.QuicWatch()
    watch.handshake()
    for number, fact in enumerate(watch.facts):
        machine.run(10_000_000)
        if number == 2:
            machine.day += step
        frame = builders.to_frame(fact)
        session.events([Frame(number + 1, machine.day, 1, frame.data, frame.length)])
    session.finish(dropped=0)
    (quic,) = [record for record in shown.told if isinstance(record, QuicRecord)]
    assert quic.outcome == "established"
    assert quic.ready_at == pytest.approx(0.03)
    (summary,) = [record for record in shown.told if isinstance(record, SummaryRecord)]
    assert any("clock was set" in getattr(record, "summary", "") for record in shown.told)
    assert summary.packets == 5
