"""The isolation as h3probe's own process has it, outside of all its namespaces."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from h3probe.vantage import privileges
from h3probe.vantage.command import Running, start_failure
from h3probe.vantage.isolate import enter, scripts
from h3probe.vantage.isolate.host_ports import listening
from h3probe.vantage.isolate.obstacles import IsolateError, explain
from h3probe.vantage.isolate.plan import make_plan, reserved
from h3probe.vantage.isolate.remote_process import RemoteProcess, order_file, standard_streams
from h3probe.vantage.isolate.spec import IPV6_MINIMUM_MTU, IsolateSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_PACKAGE_ROOT = Path(__file__).parents[3]
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from h3probe.vantage.isolate.init import main; main()"

_READY_PATIENCE_S = 15.0
_GRACE_S = 2.0
_COUNT_S = 1.0
PORTS_INTERVAL_S = 2.0
_MAX_MESSAGE = 1 << 16
_CREDENTIALS = struct.Struct("@3i")  # pid, uid, gid


class Isolation:
    """A network of its own, for the length of a `with` block; commands that run in it end with it.

    It is begun at once, and ready inside of the block: whoever has something else to do does it in between.

    Args:
        spec: What is changed on the way out.
        user: Whom commands run as, when this process is root.
        intercept: Redirect all TCP but DNS to `addresses.INTERCEPT_PORT` in the middle namespace.

    Attributes:
        spec: The flags in force: those that were asked for, without what this kernel cannot.
        uplink: The way out; its `icmp_errors` say whether refusals come back.
        addresses: Who is where: `host` and `host6` are the host's loopback, `client` and `client6` the command's own.
        notes: What the person at the terminal has to know.
        ipv6: Whether the command has IPv6.
        ready_s: Seconds the set-up took.

    Raises:
        IsolateError: There is no isolation here; one line says why, and the way around.
    """

    def __init__(self, spec: IsolateSpec, *, user: privileges.User | None = None, intercept: bool = False) -> None:
        began = time.monotonic()
        plan = make_plan(spec, intercept=intercept)
        self._user = user
        self._in_user_namespace: bool = plan.order["user_namespace"]
        self.uplink = plan.uplink
        self.addresses = plan.addresses
        self.ipv6 = plan.ipv6
        self._ports = plan.ports
        self._looked = began
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._processes: list[RemoteProcess] = []
        self._descriptors: list[int] = []
        self._over = False
        self._uplink_said: str | None = None
        self._running: int | None = None
        arguments = [sys.executable, "-I", "-S", "-c", _BOOT, str(_PACKAGE_ROOT), str(theirs.fileno())]
        self._control.send(json.dumps(plan.order).encode())
        self._init = subprocess.Popen(arguments, pass_fds=[theirs.fileno()], restore_signals=False)  # noqa: S603 - this Python
        theirs.close()
        self.spec = spec
        self.notes: list[str] = []
        self.ready_s = 0.0
        self._began, self._shaped = began, plan.shaped

    def wait_until_ready(self) -> None:
        """Wait until it is set up.

        Raises:
            IsolateError: It cannot be.
        """
        asked = self.spec
        self.spec = _in_force(asked, self._shaped, self._ready()["shaped"])
        self.notes = _notes(asked, self.spec, self)
        self.ready_s = time.monotonic() - self._began

    def _ready(self) -> dict[str, Any]:
        message, descriptors, _ = self._receive(_READY_PATIENCE_S)
        self._descriptors = descriptors
        if message is None:
            why = "its first process ended" if self._over else f"not ready within {_READY_PATIENCE_S:.0f} s"
            raise IsolateError(f"--isolate: {why}")
        if "failed" in message:
            raise explain(message["failed"], message["errno"], message["said"], root=os.geteuid() == 0)
        return message

    def only_at_ipv6_loopback(self) -> list[int]:
        """The host's ports that no IPv4 connection to its loopback reaches."""
        ports = self._ports
        return sorted((ports["tcp6"] - ports["tcp4"]) | (ports["udp6"] - ports["udp4"]))

    def fileno(self) -> int:
        """Readable when `poll` or a command's `poll` may have news."""
        return self._control.fileno()

    def packet_sockets(self) -> tuple[socket.socket, socket.socket]:
        """Give two AF_PACKET sockets of the command's namespace; the caller closes the descriptors.

        The first sees all interfaces, the second nothing before it is told to. They are the same two, however often
        they are asked for: who reads them takes from all who do.
        """
        first, second = (socket.socket(fileno=os.dup(descriptor)) for descriptor in self._descriptors[:2])
        return first, second

    def diagnostic_socket(self) -> socket.socket:
        """Give a socket that tells of the sockets in the command's namespace (sock_diag(7)), the caller's to close."""
        return socket.socket(fileno=os.dup(self._descriptors[2]))

    def enter_middle(self, argv: Sequence[str]) -> list[str]:
        """Give the command line that runs `argv` in the middle namespace, as `user` where there is one.

        Without anything to stand there, that is the command's own namespace. The command line names descriptors of this
        process, which the child must be left: `Popen(…, pass_fds=isolation.middle_descriptors)`; and it takes the
        rights that this process has: `Popen` is given no `user`.
        """
        *_, network, namespace = self._descriptors
        identity = ""
        if self._user is not None:
            groups = ",".join(map(str, privileges.groups_of(self._user)))
            identity = f"{self._user.uid}:{self._user.gid}:{groups}"
        joined = namespace if self._in_user_namespace else -1
        program = shutil.which(argv[0]) or argv[0]
        head = [sys.executable, "-I", "-S", enter.__file__, str(network), str(joined), identity]
        return [*head, program, *argv[1:]]

    @property
    def middle_descriptors(self) -> list[int]:
        """What a child that is started with `enter_middle` must be left."""
        return self._descriptors[3:]

    def command(
        self,
        argv: Sequence[str],
        *,
        env: dict[str, str] | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> Running:
        """Start a command inside, with this terminal, these standard streams and this process group.

        Args:
            argv: The command and its arguments.
            env: Its environment; this process's own, or that of the user, unless given.
            stdout: The descriptor it gets as standard output; this process's own unless given.
            stderr: The same for standard error.

        Raises:
            CommandError: It could not be started; with the exit status a shell gives, 126 or 127.
        """
        if env is None:
            env = dict(os.environ) if self._user is None else privileges.environment_of(self._user)
        user = None if self._user is None else (self._user.uid, self._user.gid, privileges.groups_of(self._user))
        process, place = RemoteProcess(self), len(self._processes)
        self._processes.append(process)
        order = json.dumps({"argv": list(argv), "env": env, "user": user})
        with ExitStack() as stack:
            streams = standard_streams(stack, 1 if stdout is None else stdout, 2 if stderr is None else stderr)
            descriptors = [stack.enter_context(order_file(order)).fileno(), *streams]
            socket.send_fds(self._control, [json.dumps({"run": place}).encode()], descriptors)
        number = process.wait_until_executed()
        if number:
            raise start_failure(argv[0], OSError(number, os.strerror(number)), self._user)
        return Running(argv, process)

    def poll(self) -> str | None:
        """Follow the host's listening ports, every two seconds at most, and look after the uplink; never waits.

        Returns:
            Once, when the uplink has ended: what it said last, one line, possibly empty.
        """
        self.receive_waiting()
        now = time.monotonic()
        if now - self._looked >= PORTS_INTERVAL_S and not self._over:
            self._looked = now
            ports = listening()
            changes = scripts.port_changes(self._ports, ports)
            if changes:
                self._ports = ports
                self._send({"ports": changes, "settings": [reserved(ports)]})
        said, self._uplink_said = self._uplink_said, None
        return said

    def receive_waiting(self, timeout: float = 0.0) -> None:
        """Take in what has been reported; wait for the first report for `timeout` seconds at most."""
        while not self._over:
            message, _, pid = self._receive(timeout)
            if message is None:
                return
            timeout = 0.0
            if "uplink_ended" in message:
                self._uplink_said = " ".join(message["uplink_ended"].split())
            if "running" in message:
                self._running = message["running"] or 0
            for kind in ("command", "executed", "exited"):
                if kind in message:
                    self._processes[message[kind]].take(kind, message, pid)

    def left_running(self) -> int:
        """How many processes the commands have left running, as far as is known; they end with the network."""
        self._running = None
        self._send({"count": True})
        deadline = time.monotonic() + _COUNT_S
        while self._running is None and not self._over and time.monotonic() < deadline:
            self.receive_waiting(_COUNT_S)
        return self._running or 0

    def _receive(self, timeout: float) -> tuple[dict[str, Any] | None, list[int], int]:
        if not select.select([self._control], [], [], timeout)[0]:
            return None, [], 0
        room = socket.CMSG_SPACE(5 * 4) + socket.CMSG_SPACE(_CREDENTIALS.size)
        try:
            data, ancillary, _, _ = self._control.recvmsg(_MAX_MESSAGE, room, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            data, ancillary = b"", []
        descriptors: list[int] = []
        pid = 0
        for _, kind, value in ancillary:
            if kind == socket.SCM_RIGHTS:
                descriptors += struct.unpack(f"@{len(value) // 4}i", value)
            elif kind == socket.SCM_CREDENTIALS:
                pid = _CREDENTIALS.unpack_from(value)[0]
        if not data:
            self._over = True
            for process in self._processes:
                process.lost()
            return None, descriptors, pid
        return json.loads(data), descriptors, pid

    def _send(self, message: dict[str, object]) -> None:
        with contextlib.suppress(OSError):  # it is over; the next `poll` says so
            self._control.send(json.dumps(message).encode())

    def close(self) -> None:
        """End whatever runs inside, and wait until nothing is left of it."""
        self._control.close()
        self._over = True
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []
        try:
            self._init.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(PermissionError):  # root was given up
                self._init.kill()
            self._init.wait()
        for process in self._processes:
            process.lost()

    def __enter__(self) -> Self:
        try:
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _in_force(asked: IsolateSpec, shaped: list[IsolateSpec], number: int) -> IsolateSpec:
    found = shaped[number]
    if found != asked and not found.words():
        raise IsolateError(f"--isolate: nothing of what was asked for is possible: {_lacking(asked, found)}")
    return found


def _lacking(asked: IsolateSpec, found: IsolateSpec) -> str:
    lacking = []
    if asked.delay_ms and not found.delay_ms:
        lacking.append("no netem (module sch_netem) for the delay")
    if asked.rate_mbit and not found.rate_mbit:
        lacking.append("no token buckets (module sch_tbf) for the rate")
    return "this kernel has " + " and ".join(lacking)


def _notes(asked: IsolateSpec, found: IsolateSpec, isolation: Isolation) -> list[str]:
    notes = []
    if asked != found:
        notes.append(f"{_lacking(asked, found)}: left out")
    if not isolation.uplink.icmp_errors:
        notes.append(
            f"{isolation.uplink.name} brings no ICMP errors back: a UDP port that refuses looks like one that is "
            "silent; with passt (2024 or later) installed both are told apart"
        )
    if asked.ipv6 and not isolation.ipv6 and asked.mtu is not None and asked.mtu < IPV6_MINIMUM_MTU:
        notes.append(f"with an MTU below {IPV6_MINIMUM_MTU} there is no IPv6")
    elif asked.ipv6 and not isolation.ipv6 and (only6 := isolation.only_at_ipv6_loopback()):
        # A server there is running, and would look like one that is not.
        notes.append(
            f"no IPv6 inside: what listens on ::1 alone (port {', '.join(map(str, only6[:4]))}) is out of reach"
        )
    return notes
