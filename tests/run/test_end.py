from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from h3probe.run import end
from h3probe.run.end import End, Plan
from h3probe.run.stop import Stop
from h3probe.vantage.command import Command

if TYPE_CHECKING:
    import pytest

FOREVER = Plan((), None, (), None)


def until_reached(ending: End) -> None:
    """Ask as a run does."""
    deadline = time.monotonic() + 20
    while not ending.reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def python(code: str) -> Command:
    """A command that runs a line of Python."""
    return Command([sys.executable, "-c", code])


def test_without_a_command_a_signal_ends() -> None:
    """A run without a command goes on until it is told to stop."""
    stop = Stop()
    ending = End(FOREVER, None, stop)
    assert not ending.reached()
    stop.requested = 2
    assert ending.reached()
    assert ending.status is None


def test_without_a_command_the_time_ends() -> None:
    """A run without a command ends with its time."""
    assert End(Plan((), 0.0, (), None), None, Stop()).reached()


def test_a_command_ends_its_run() -> None:
    """The run ends some time after the command, with its status."""
    ending = End(FOREVER, python("raise SystemExit(3)"), Stop())
    until_reached(ending)
    assert ending.status == 3


def test_a_signal_does_not_end_a_run_before_its_command() -> None:
    """With a command the signal is the command's to act upon."""
    stop = Stop()
    with python("input()") as command:
        ending = End(FOREVER, command, stop)
        stop.requested = 15
        assert not ending.reached()
        command.forward(15)
        until_reached(ending)
    assert ending.status == 128 + 15


def test_when_the_time_is_over_the_command_is_told_to_end() -> None:
    """The end of the plan's time is SIGTERM for the command."""
    ending = End(Plan((), 0.0, (), None), python("import time; time.sleep(60)"), Stop())
    until_reached(ending)
    assert ending.status == 128 + 15


def test_a_command_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that goes on after SIGTERM is killed after a while."""
    monkeypatch.setattr(end, "GRACE_S", 0.0)
    command = python("import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)")
    ending = End(Plan((), 0.5, (), None), command, Stop())
    until_reached(ending)
    assert ending.status in {128 + 9, 128 + 15}  # the latter when Python had not got as far as the first statement
