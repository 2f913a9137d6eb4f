"""A run in a network of the command's own: no privileges, no settings, and nobody else's packets."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.errors import UserError
from h3probe.run.attribution import Attribution
from h3probe.run.client_log import ask_for_log
from h3probe.run.key_log import ask_for_keys
from h3probe.run.loop import QUIC_V1, Loop
from h3probe.run.proxying import Races, hand_over
from h3probe.run.session import Session
from h3probe.run.sniffing import record
from h3probe.run.stop import Stop
from h3probe.text import count
from h3probe.vantage import privileges
from h3probe.vantage.isolate.addresses import DNS_FILTER_PORT, INTERCEPT_PORT
from h3probe.vantage.isolate.loopback import Loopback
from h3probe.vantage.linux import SocketOwners
from h3probe.vantage.owners import DirectOwners
from h3probe.vantage.proxy import Proxy
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from h3probe.vantage.sniff import Sniffer
from h3probe.wire.quic.protection import initial_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from h3probe.engine import Engine
    from h3probe.run.end import Ended, Plan
    from h3probe.run.output import Output
    from h3probe.run.recorder import Recorder
    from h3probe.vantage.command import Running
    from h3probe.vantage.isolate.addresses import Addresses
    from h3probe.vantage.isolate.isolation import Isolation

_PATIENCE_S = 2.0
LINGER_S = 0.15
LONG_PAUSE_S = 0.25
"""Every packet is the command's: nothing has to be asked while its socket is open."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the network.

    Attributes:
        isolation: The network, as it was begun.
        intercept: The hosts whose TLS over TCP is terminated; empty for all, None for none.
        server_ca: Certificates that servers may be signed by, PEM; the system's unless given.
    """

    isolation: Isolation
    intercept: tuple[str, ...] | None = None
    server_ca: Path | None = None


def run_isolated(
    plan: Plan, asked: Asked, engine: Engine, output: Output, make_recorder: Callable[[], Recorder | None]
) -> Ended:
    """Run the plan's command in a network of its own, and watch all that it does there.

    Args:
        plan: The command.
        asked: What is asked of the network.
        engine: Explains.
        output: Shows.
        make_recorder: Opens the capture file; called as the user who called sudo.

    Raises:
        UserError: There is no isolation here, no such command, no such file to be written, no proxy.
    """
    with ExitStack() as stack:
        user = privileges.sudo_user()
        isolation = stack.enter_context(asked.isolation)
        addresses = isolation.addresses
        for note in isolation.notes:
            output.note(note)
        if not isolation.spec.https_rr:
            stack.enter_context(_dns_filter(isolation, addresses))
        sniffer = stack.enter_context(Sniffer(opened=isolation.packet_sockets()))
        sniffer.long_pause_s = LONG_PAUSE_S
        proxy = None
        if asked.intercept is not None:
            proxy_spec = _transparent(addresses, asked, ipv6=isolation.ipv6)
            proxy = stack.enter_context(
                Proxy(proxy_spec, user=user, wrap=isolation.enter_middle, descriptors=isolation.middle_descriptors)
            )
        _tell(engine, isolation, plan)
        own = frozenset(ip_address(each).packed for each in (addresses.client, addresses.client6))
        engine.tracker.hosts.local = own
        owners = DirectOwners(kernel=SocketOwners(isolation.diagnostic_socket()))
        recorder = record(stack, make_recorder, user, sniffer, whole=plan.keylog is not None)
        session = Session(engine, output, Attribution(owners, own), recorder)
        session.translate = Loopback(addresses)
        command: Running | None = None
        stop = stack.enter_context(Stop(lambda number: command.forward(number) if command is not None else None))
        initial_keys(QUIC_V1, bytes(8))
        environment = None if proxy is None else hand_over(plan, proxy, engine, output, user)
        if proxy is not None:
            session.on_moments = Races(proxy, engine)
        keys, environment = ask_for_keys(stack, plan, output, environment, user)
        asked_for = ask_for_log(stack, plan, output, environment, user)
        plan = asked_for.plan
        output.note(_announcement(plan, isolation))
        command = stack.enter_context(
            isolation.command(plan.command, env=asked_for.environment, stdout=plan.stdout, stderr=asked_for.stderr)
        )
        owners.watch(command.pid)
        privileges.leave_root(user, writes=recorder is not None, names_processes=True)
        # Nobody else's packets are there to be told from the command's last ones.
        plan = replace(plan, linger_s=LINGER_S)
        ended = Loop(plan, sniffer, owners, command, stop, session, proxy, isolation, asked_for.log, keys).run()
        if proxy is not None:
            session.events(proxy.stop())
        session.events(sniffer.rest())
        if left := isolation.left_running():
            number = count(left, "process", "processes")
            output.note(f"left running by the command, and ended with its network: {number}")
        session.finish(dropped=sniffer.statistics()[1], client_over=ended.command is not None)
        return ended


def _tell(engine: Engine, isolation: Isolation, plan: Plan) -> None:
    """Let the engine know what it could not see by itself."""
    engine.vantage = "wire"
    engine.alone = Path(plan.command[0]).name
    engine.conditions = isolation.spec.words()
    if not isolation.uplink.icmp_errors:
        engine.swallows_icmp = isolation.uplink.name


def _transparent(addresses: Addresses, asked: Asked, *, ipv6: bool) -> ProxySpec:
    listens = [addresses.middle, *([addresses.middle6] if ipv6 else [])]
    return ProxySpec(
        transparent=tuple(Listen(INTERCEPT_PORT, host) for host in listens),
        intercept=asked.intercept,
        upstream_ca=asked.server_ca,
        aliases=((addresses.host, "127.0.0.1"), (addresses.host6, "::1")),
        temporary=True,  # nothing outlives the isolation, and its authority neither
    )


def _announcement(plan: Plan, isolation: Isolation) -> str:
    words = isolation.spec.words()
    changed = f", {'; '.join(words)}" if words else ""
    return f"{Path(plan.command[0]).name} runs in a network of its own (through {isolation.uplink.name}){changed}"


@contextmanager
def _dns_filter(isolation: Isolation, addresses: Addresses) -> Iterator[None]:
    """Run the filter that takes HTTPS records out of DNS answers, for the length of the block."""
    module = [sys.executable, "-P", "-m", "h3probe.vantage.dns_filter"]
    argv = isolation.enter_middle([*module, addresses.middle, str(DNS_FILTER_PORT), addresses.dns, "53"])
    with subprocess.Popen(  # noqa: S603 - this Python
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=isolation.middle_descriptors,
        process_group=0,
        text=True,
    ) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise UserError("--no-https-rr: the filter for DNS answers did not start")
            yield
        finally:
            process.terminate()
            process.wait(_PATIENCE_S)
