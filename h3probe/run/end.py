"""What is to be watched, and when a run is over: with its command, at a signal, or after a time."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.run.stop import Stop
    from h3probe.vantage.command import Running

# After a command has ended, packets of its connections still come: the FINs of its sockets, the answers to them.
LINGER_S = 0.4
# How long a command that was told to end may take, before it is killed.
GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended.

    Attributes:
        command: The command's exit status, None when there was none.
        signal: The signal that ended the run, None when none did.
    """

    command: int | None
    signal: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be watched.

    Attributes:
        interfaces: Names; none means all.
        seconds: For how long; None until it is ended.
        command: What to run.
        pid: A process that runs already.
        stdout: Where the command's standard output goes, a descriptor; None leaves it where it is.
        client_log: Whether the command's own log is to be read.
        show_log: Whether its lines are passed on too.
        keylog: The file that the command is to write its TLS secrets to; None where it is not to.
        force: Whether that file may hold something, which is replaced then.
        linger_s: How long packets are still taken after the command has ended.
    """

    interfaces: Sequence[str]
    seconds: float | None
    command: Sequence[str]
    pid: int | None
    stdout: int | None = None
    client_log: bool = False
    show_log: bool = False
    keylog: str | None = None
    force: bool = False
    linger_s: float = LINGER_S


class End:
    """Decides when a run is over; to be asked every few milliseconds.

    A command ends its run, a little later, and nothing else does: a signal that h3probe gets, and the end of the
    plan's time, are passed on to the command first.

    Attributes:
        status: The command's exit status, None before it has ended.
    """

    def __init__(self, plan: Plan, command: Running | None, stop: Stop) -> None:
        self._command = command
        self._stop = stop
        self._linger_s = plan.linger_s
        self._deadline = None if plan.seconds is None else time.monotonic() + plan.seconds
        self._ended_at: float | None = None
        self.status: int | None = None

    def reached(self) -> bool:
        """Whether the run is over."""
        now = time.monotonic()
        late = self._deadline is not None and now >= self._deadline
        if self._command is None:
            return late or self._stop.requested is not None
        if self._ended_at is not None:
            return now >= self._ended_at + self._linger_s
        self.status = self._command.poll()
        if self.status is not None:
            self._ended_at = now
        elif late:
            self._command.forward(signal.SIGTERM)  # the first time; the second time it is SIGKILL
            self._deadline = now + GRACE_S
        return False
