"""A run behind relays: no privileges, bytes untouched."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING

from h3probe.events import Unreadable
from h3probe.run.attribution import Attribution, local_addresses
from h3probe.run.end import End, Ended, Plan
from h3probe.run.session import TICK_S, Session
from h3probe.run.stop import Stop
from h3probe.vantage import privileges
from h3probe.vantage.command import Command
from h3probe.vantage.owners import DirectOwners
from h3probe.vantage.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from h3probe.engine import Engine
    from h3probe.events import Frame
    from h3probe.run.output import Output
    from h3probe.run.recorder import Recorder
    from h3probe.vantage.relay import RelaySpec


def relay(
    plan: Plan,
    specs: Sequence[RelaySpec],
    engine: Engine,
    output: Output,
    make_recorder: Callable[[], Recorder | None],
) -> Ended:
    """Forward until the plan's end, and watch what passes.

    Raises:
        UserError: A port is in use, a target has no address, there is no such command, no such file to be written.
    """
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(_relay(plan, specs, engine, output, make_recorder))


async def _relay(
    plan: Plan,
    specs: Sequence[RelaySpec],
    engine: Engine,
    output: Output,
    make_recorder: Callable[[], Recorder | None],
) -> Ended:
    user = privileges.sudo_user()
    engine.vantage = "relay"
    owners = DirectOwners(plan.pid)
    attribution = Attribution(owners, local_addresses())
    command: Command | None = None
    stop = Stop(lambda number: command.forward(number) if command is not None else None)
    # The file is closed last: what the relays have taken is explained, and written, when they are gone.
    with stop, ExitStack() as files:
        async with AsyncExitStack() as stack:
            numbers = itertools.count(1)
            taken = _Taken(asyncio.get_running_loop())
            relays = [await stack.enter_async_context(Relay(spec, taken.frame, numbers=numbers)) for spec in specs]
            with privileges.acting_as(user):
                recorder = make_recorder()
            if recorder is not None:
                _record(files.enter_context(recorder), relays)
            session = taken.session = Session(engine, output, attribution, recorder)
            for spec, each in zip(specs, relays, strict=True):
                _announce(output, spec, each)
            if plan.command:
                command = stack.enter_context(Command(plan.command, user=user, stdout=plan.stdout))
                owners.watch(command.pid)
            privileges.leave_root(user, writes=recorder is not None, names_processes=True)
            root = command.pid if command is not None else plan.pid
            if root is not None:
                attribution.narrow(root)
            status = await _wait(plan, command, stop, session)
        taken.explain()
        for each in relays:
            if each.blind is not None:
                session.events([Unreadable(each.blind)])
        session.finish(dropped=0, client_over=status is not None)
        undelivered = sum(each.undelivered for each in relays)
        if undelivered:
            output.note(f"{undelivered} datagrams could not be passed on")
        return Ended(status, stop.requested)


class _Taken:
    """Frames that are explained after the bytes they tell of have gone on: the client does not wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._frames: list[Frame] = []
        self.session: Session | None = None

    def frame(self, frame: Frame) -> None:
        """Take a frame."""
        if not self._frames:
            self._loop.call_soon(self.explain)
        self._frames.append(frame)

    def explain(self) -> None:
        """Explain what was taken so far; what came before there was a session is left out."""
        frames, self._frames = self._frames, []
        if self.session is not None and frames:
            self.session.events(frames)


def _record(recorder: Recorder, relays: Sequence[Relay]) -> None:
    if recorder.keeps_payload:
        for each in relays:
            each.tell_all()


def _announce(output: Output, spec: RelaySpec, relay: Relay) -> None:
    where = " and ".join(str(address) for address in relay.addresses)
    output.note(f"relaying TCP and UDP on {where} to {spec.target_host}:{spec.target_port}; Ctrl-C ends")
    if relay.is_exposed:
        output.note(f"warning: {where} can be reached from other hosts, and the relay lets anyone through")


async def _wait(plan: Plan, command: Command | None, stop: Stop, session: Session) -> int | None:
    end = End(plan, command, stop)
    while not end.reached():
        await asyncio.sleep(TICK_S)
        session.tick()
    return end.status
