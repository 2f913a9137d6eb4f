"""A run on interfaces: the sniffer, the command under watch, and an end that loses nothing."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.errors import PrivilegeError
from h3probe.run.attribution import Attribution, local_addresses
from h3probe.run.client_log import ask_for_log
from h3probe.run.key_log import ask_for_keys
from h3probe.run.loop import QUIC_V1, Loop
from h3probe.run.proxying import Races, hand_over
from h3probe.run.session import Session
from h3probe.run.stop import Stop
from h3probe.vantage import privileges
from h3probe.vantage.command import Command
from h3probe.vantage.owners import DirectOwners
from h3probe.vantage.process_helper import ProcessesHelper
from h3probe.vantage.proxy import Proxy
from h3probe.vantage.sniff import Sniffer
from h3probe.wire.quic.protection import initial_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.engine import Engine
    from h3probe.run.end import Ended, Plan
    from h3probe.run.output import Output
    from h3probe.run.recorder import Recorder
    from h3probe.vantage.proxy_spec import ProxySpec


def sniff(
    plan: Plan,
    engine: Engine,
    output: Output,
    make_recorder: Callable[[], Recorder | None],
    proxy_spec: ProxySpec | None = None,
) -> Ended:
    """Watch interfaces until the plan's end, and be the command's proxy beside it.

    Args:
        plan: What is to be watched.
        engine: Explains.
        output: Shows.
        make_recorder: Opens the capture file; called as the user who called sudo.
        proxy_spec: The proxy to run; with it, sniffing is left out where it is not allowed.

    Raises:
        UserError: No permission, no such interface, no such command, no such file to be written, no proxy.
    """
    with ExitStack() as stack:
        sniffer = _sniffer(stack, plan, output, needed=proxy_spec is None)
        engine.vantage = "wire" if sniffer is not None else "proxy"
        engine.wants_command = bool(plan.command) or plan.pid is not None
        user = privileges.sudo_user()
        helper = _owners(stack, plan, user)
        proxy = None if proxy_spec is None else stack.enter_context(Proxy(proxy_spec, user=user))
        local = engine.tracker.hosts.local = local_addresses()
        attribution = Attribution(helper, local)
        recorder = record(stack, make_recorder, user, sniffer, whole=plan.keylog is not None)
        session = Session(engine, output, attribution, recorder)
        command: Command | None = None
        stop = stack.enter_context(Stop(lambda number: command.forward(number) if command is not None else None))
        # The first Initial decoded loads the ciphers; a client that lives for milliseconds would be gone by then.
        initial_keys(QUIC_V1, bytes(8))
        environment = None if proxy is None else hand_over(plan, proxy, engine, output, user)
        keys, environment = ask_for_keys(stack, plan, output, environment, user)
        asked_for = ask_for_log(stack, plan, output, environment, user)
        plan = asked_for.plan
        if proxy is not None and proxy.spec.transparent:
            session.on_moments = Races(proxy, engine)
        if sniffer is not None:
            sniffer.begin()
            output.note(_announcement(plan))
        # Whatever may go wrong before the command starts has gone wrong by now, and whatever takes time has taken it.
        began_ns = 0
        if plan.command:
            began_ns = time.time_ns()
            command = stack.enter_context(
                Command(plan.command, env=asked_for.environment, user=user, stdout=plan.stdout, stderr=asked_for.stderr)
            )
            helper.watch(command.pid)
        # The parser of hostile bytes keeps no rights: everything that needs them is open by now.
        privileges.leave_root(user, writes=recorder is not None)
        root = command.pid if command is not None else plan.pid
        if root is not None:
            attribution.narrow(root, began_ns)
        ended = Loop(plan, sniffer, helper, command, stop, session, proxy, log=asked_for.log, keys=keys).run()
        if proxy is not None:
            session.events(proxy.stop())
        if sniffer is not None:
            session.events(sniffer.rest())
        dropped = None if sniffer is None else sniffer.statistics()[1]
        session.finish(dropped=dropped, client_over=ended.command is not None)
        if attribution.left_out and not engine.counts["quic"] + engine.counts["tcp"]:
            output.note(f"connections of other processes that were left out: {attribution.left_out}")
        return ended


def record(
    stack: ExitStack,
    make_recorder: Callable[[], Recorder | None],
    user: privileges.User | None,
    sniffer: Sniffer | None,
    *,
    whole: bool = False,
) -> Recorder | None:
    """Open the capture file, and have the sniffer keep what is to be in it.

    Args:
        stack: Closes it.
        make_recorder: Opens it.
        user: As whom.
        sniffer: What reads the packets.
        whole: Whether every packet is needed, file or not.

    Raises:
        UserError: It cannot be written.
    """
    with privileges.acting_as(user):
        recorder = make_recorder()
    if recorder is not None:
        stack.enter_context(recorder)
        whole = whole or recorder.keeps_payload
    if sniffer is not None and whole:
        sniffer.keep_everything()
    elif sniffer is not None and recorder is not None:
        sniffer.keep_order(in_blocks=recorder.takes_blocks)
    return recorder


def _sniffer(stack: ExitStack, plan: Plan, output: Output, *, needed: bool) -> Sniffer | None:
    try:
        return stack.enter_context(Sniffer(plan.interfaces))
    except PrivilegeError:
        if needed or plan.interfaces:
            raise
        output.note("no right to sniff: what goes past the proxy, QUIC above all, is not seen")
        return None


def _owners(stack: ExitStack, plan: Plan, user: privileges.User | None) -> ProcessesHelper | DirectOwners:
    if sys.platform == "win32":  # which has neither fork nor root
        return DirectOwners(plan.pid)
    return stack.enter_context(ProcessesHelper(plan.pid, user=user))


def _announcement(plan: Plan) -> str:
    where = ", ".join(plan.interfaces) or "all interfaces"
    return f"watching {where}" + (f" while {Path(plan.command[0]).name} runs" if plan.command else "; Ctrl-C ends")
