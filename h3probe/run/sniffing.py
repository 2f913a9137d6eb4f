"""A run on interfaces: the sniffer, the command under watch, and an end that loses nothing."""

from __future__ import annotations

import selectors
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.run.attribution import Attribution, local_addresses
from h3probe.run.session import TICK_S, Session
from h3probe.run.stop import Stop
from h3probe.vantage import privileges
from h3probe.vantage.command import Command
from h3probe.vantage.process_helper import ProcessesHelper
from h3probe.vantage.sniff import Sniffer
from h3probe.wire.quic.protection import initial_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from h3probe.engine import Engine
    from h3probe.events import Dropped, Frame
    from h3probe.run.output import Output
    from h3probe.run.recorder import Recorder

# After a command has ended, packets of its connections still come: the FINs of its sockets, the answers to them.
LINGER_S = 0.4
QUIC_V1 = 1


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
    """

    interfaces: Sequence[str]
    seconds: float | None
    command: Sequence[str]
    pid: int | None
    stdout: int | None = None


def sniff(plan: Plan, engine: Engine, output: Output, make_recorder: Callable[[], Recorder | None]) -> Ended:
    """Watch interfaces until the plan's end.

    Args:
        plan: What is to be watched.
        engine: Explains.
        output: Shows.
        make_recorder: Opens the capture file; called as the user who called sudo.

    Raises:
        UserError: No permission, no such interface, no such command, no such file to be written.
    """
    with ExitStack() as stack:
        sniffer = stack.enter_context(Sniffer(plan.interfaces))
        user = privileges.sudo_user()
        helper = stack.enter_context(ProcessesHelper(plan.pid, user=user))
        local = engine.tracker.hosts.local = local_addresses()
        attribution = Attribution(helper, local)
        engine.filters.wanted = attribution.wanted
        with privileges.acting_as(user):
            recorder = make_recorder()
        if recorder is not None:
            stack.enter_context(recorder)
        session = Session(engine, output, attribution, recorder)
        command: Command | None = None
        stop = stack.enter_context(Stop(lambda number: command.forward(number) if command is not None else None))
        # The first Initial decoded loads the ciphers; a client that lives for milliseconds would be gone by then.
        initial_keys(QUIC_V1, bytes(8))
        root = plan.pid
        # Whatever may go wrong before the command starts has gone wrong by now, and whatever takes time has taken it.
        if plan.command:
            command = stack.enter_context(Command(plan.command, user=user, stdout=plan.stdout))
            root = command.pid
            helper.watch(root)
        # The parser of hostile bytes keeps no rights: everything that needs them is open by now.
        if user is not None:
            privileges.drop(user)
        attribution.root = root
        ended = _loop(plan, sniffer, helper, command, stop, session)
        session.events(_rest(sniffer))
        _, dropped = sniffer.statistics()
        session.finish(dropped=dropped)
        return ended


def _loop(
    plan: Plan, sniffer: Sniffer, helper: ProcessesHelper, command: Command | None, stop: Stop, session: Session
) -> Ended:
    selector = selectors.DefaultSelector()
    for source in (*sniffer.sockets, helper, stop.wake):
        selector.register(source, selectors.EVENT_READ)
    deadline = None if plan.seconds is None else time.monotonic() + plan.seconds
    status: int | None = None
    end_at: float | None = None
    while end_at is None or time.monotonic() < end_at:
        ready = selector.select(TICK_S)
        if any(key.fileobj is stop.wake for key, _ in ready):
            stop.drain()
        if not helper.alive and any(key.fileobj is helper for key, _ in ready):
            selector.unregister(helper)
        events = sniffer.read()
        if events:
            session.events(events)
        session.tick()
        now = time.monotonic()
        if command is not None and status is None:
            status = command.poll()
            if status is not None:
                end_at = now + LINGER_S
        # With a command, a signal ends the command first, and the run with it.
        if end_at is None and (
            (stop.requested is not None and command is None) or (deadline is not None and now >= deadline)
        ):
            end_at = now
            if command is not None:
                command.forward(15)
                status = command.wait(2.0)
    selector.close()
    return Ended(status, stop.requested)


def _rest(sniffer: Sniffer) -> list[Frame | Dropped]:
    """What waits in the kernel still, bounded: a flood does not keep a run from ending."""
    rest: list[Frame | Dropped] = []
    for _ in range(64):
        batch = sniffer.read()
        if not batch:
            break
        rest += batch
    return rest
