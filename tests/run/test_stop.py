from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from h3probe.run.stop import Stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_request(number: signal.Signals) -> None:
    """The first signal is noted, wakes a selector, is passed on, and ends nothing."""
    passed: list[int] = []
    with Stop(passed.append) as stop:
        assert stop.requested is None
        os.kill(os.getpid(), number)
        assert select.select([stop.wake], [], [], 5)[0]
        assert (stop.requested, passed) == (number, [number])
        stop.drain()
        stop.drain()
        assert not select.select([stop.wake], [], [], 0)[0]


def test_handlers_are_given_back() -> None:
    """After the block the signals mean what they meant before."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Stop():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


TWICE = """
import os, signal, time
from h3probe.run.stop import Stop
with Stop(lambda number: print(number, flush=True)):
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""


def test_the_echo_of_a_signal_is_no_second_one() -> None:
    """A process that is signalled by itself and with its group is asked once."""
    passed: list[int] = []
    with Stop(passed.append) as stop:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.requested, passed) == (signal.SIGTERM, [signal.SIGTERM])


def test_a_second_signal_ends_at_once() -> None:
    """The second signal is passed on and ends the process with the status that a shell gives it."""
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout.split()) == (128 + signal.SIGINT, ["15", "2"])
