"""Process 1 of the isolation: makes the namespaces, then starts, reaps and reports what runs in them.

It is started by `isolation.py` as `python -I -S`, and imports little: its start is the command's delay. All it is to do
comes as one JSON object over a socket that keeps messages apart; its own messages are JSON objects, too:

    {"ready": seconds, "shaped": n}             with descriptors: two packet sockets and one for sock_diag(7) of C, M,
                                                the user namespace; and which of the scripts for tc was accepted first
    {"failed": step, "errno": n, "said": "…"}   the set-up ends here
    {"command": n}                              from the nth command's own process, for the kernel to say who sends it
    {"executed": n, "errno": errno}             it runs (0), or why not
    {"exited": n, "status": status}             as waitstatus_to_exitcode has it
    {"running": n}                              asked for: how many processes the commands have left; null where this
                                                /proc does not tell
    {"uplink_ended": "…"}                       with the last it said

With the socket's other end (h3probe ends, however it ends) this process ends, and so does everything in its namespace:
the kernel sees to that.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from functools import partial
from typing import Any, NoReturn

from h3probe.vantage.isolate.kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_REC,
    MS_SLAVE,
    Failed,
    die_with_parent,
    drop_privileges,
    enter_user_namespace,
    keep_capabilities_over_exec,
    mount,
    set_value,
    step,
    unmount,
)
from h3probe.vantage.isolate.programs import contents, execute, execute_command, finish, fork, start

# linux/if_ether.h, linux/netlink.h
_ETH_P_ALL = 3
_NETLINK_SOCK_DIAG = 4

_MAX_MESSAGE = 1 << 20
_UPLINK_PATIENCE_S = 5.0
_LOOK_AGAIN_S = 0.002
_LAST_WORDS = 1000
_IGNORED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


def main() -> None:
    """Run as `python -I -S -c … DESCRIPTOR`; the process that is started becomes the parent of process 1."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)  # no program that is started here is to hold it, or to speak in its stead
    plan = json.loads(control.recv(_MAX_MESSAGE))
    ignored = [number for number in _IGNORED if signal.getsignal(number) == signal.SIG_IGN]
    for number in _IGNORED:  # the terminal's are for the command
        signal.signal(number, signal.SIG_IGN)
    try:
        enter_user_namespace(plan)
        step("pid namespace", lambda: os.unshare(os.CLONE_NEWPID))
        die_with_parent()
        if os.getppid() != plan["parent"]:
            os._exit(0)
        pid = os.fork()
    except Failed as failure:
        _tell(control, {"failed": failure.step, "errno": failure.number, "said": failure.said})
        os._exit(1)
    if pid:
        control.close()
        _, status = os.waitpid(pid, 0)
        os._exit(min(1, status))
    _be_process_1(control, plan, ignored)


def _be_process_1(control: socket.socket, plan: dict[str, Any], ignored: list[signal.Signals]) -> NoReturn:
    status = 1
    try:
        die_with_parent()
        Init(control, plan, ignored).run()
        status = 0
    except Failed as failure:
        _tell(control, {"failed": failure.step, "errno": failure.number, "said": failure.said})
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the person at the terminal to read
        _tell(control, {"failed": "init", "errno": 0, "said": repr(error)})
    finally:
        os._exit(status)


class Init:
    """What process 1 does."""

    def __init__(self, control: socket.socket, plan: dict[str, Any], ignored: list[signal.Signals]) -> None:
        self._control = control
        self._plan = plan
        self._ignored = ignored
        self._commands: dict[int, int] = {}
        self._shaped = len(plan["shaping"])
        self._said = -1
        self._last_words = b""

    def run(self) -> None:
        """Set up, report, and serve until the socket's other end is closed."""
        began = time.monotonic()
        wake, signalled = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        descriptors = self._set_up()
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        answer = json.dumps({"ready": time.monotonic() - began, "shaped": self._shaped}).encode()
        socket.send_fds(self._control, [answer], descriptors)
        for descriptor in descriptors[:3]:
            os.close(descriptor)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wake, select.POLLIN)
        poll.register(self._said, select.POLLIN)
        self._reap()
        while True:
            for ready, event in poll.poll():
                if ready == wake:
                    os.read(wake, 4096)
                elif ready == self._said:
                    self._last_said()
                    if event & select.POLLHUP:
                        poll.unregister(self._said)
                elif not self._serve():
                    return
            self._reap()

    def _set_up(self) -> list[int]:
        plan = self._plan
        step("mount namespace", lambda: os.unshare(os.CLONE_NEWNS))
        step("mount namespace", lambda: mount("none", "/", None, MS_REC | MS_SLAVE))
        keep_capabilities_over_exec()
        uplink_may_start = self._start_uplink()
        step("network namespace", lambda: os.unshare(os.CLONE_NEWNET))
        self._client = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        packets = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(each)) for each in (_ETH_P_ALL, 0)]
        diagnostics = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        if plan["middle"]:
            step("network namespace", lambda: os.unshare(os.CLONE_NEWNET))
        middle = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        user = os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        staging = plan["staging"]
        step("mount", lambda: mount("tmpfs", staging, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"))
        os.close(os.open(f"{staging}/net", os.O_CREAT, 0o444))
        # Not at its place in /proc: there an uplink that has given up most capabilities may not open it.
        step("mount", lambda: mount("/proc/self/ns/net", f"{staging}/net", None, MS_BIND))
        for path, value in plan["middle_settings"]:
            set_value(path, value)
        os.close(uplink_may_start)
        rules = [start(plan["nft"], plan["client_rules"], self._in_client)]
        if plan["middle"]:
            rules.append(start(plan["nft"], plan["middle_rules"]))
        settings = plan["client_settings"]
        finish("links", start(plan["ip"], plan["client_links"], lambda: self._in_client(settings)))
        for each in rules:
            finish("rules", each)
        self._wait_for_uplink()
        finish("links", start(plan["ip"], plan["uplink_links"]))
        self._shape()
        self._replace_files()
        self._renew_proc()
        return [*(each.detach() for each in packets), diagnostics.detach(), middle, user]

    def _in_client(self, settings: list[tuple[str, str]] | None = None) -> None:
        os.setns(self._client, os.CLONE_NEWNET)
        for path, value in settings or ():
            set_value(path, value)

    def _start_uplink(self) -> int:
        """Fork it while this process is still in the host's network, where it must be and nobody gets back to.

        Returns:
            The descriptor to close when there is a middle namespace to join.
        """
        self._said, saying = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        held, may_start = os.pipe2(os.O_CLOEXEC)

        def prepare() -> None:
            os.close(may_start)
            os.setpgid(0, 0)  # the terminal's Ctrl-C is not for it
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.set_blocking(saying, True)
            os.dup2(saying, 1)
            os.dup2(saying, 2)
            os.read(held, 1)

        self._uplink = fork(lambda: execute(self._plan["uplink"], prepare))
        os.close(held)
        os.close(saying)
        return may_start

    def _wait_for_uplink(self) -> None:
        deadline = time.monotonic() + _UPLINK_PATIENCE_S
        while not self._uplink_is_ready():
            if os.waitpid(self._uplink, os.WNOHANG)[0]:
                raise Failed("uplink", 0, self._last_said())
            if time.monotonic() > deadline:
                raise Failed("uplink", errno.ETIMEDOUT, self._last_said())
            time.sleep(_LOOK_AGAIN_S)

    def _last_said(self) -> str:
        """Take in what the uplink says, which must not wait for it to be read, and give the end of it."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._said, 65536):
                self._last_words = (self._last_words + data)[-_LAST_WORDS:]
        return self._last_words.decode(errors="replace").strip()

    def _uplink_is_ready(self) -> bool:
        for path, interface_at in (("/proc/self/net/route", 0), ("/proc/self/net/ipv6_route", -1)):
            if path in self._plan["routes"]:
                with open(path) as table:  # noqa: PTH123 - pathlib costs more than the rest of this process's start
                    rows = [line.split() for line in table]
                if not any(
                    row[interface_at] == self._plan["tap"] and set(row[1 + interface_at]) == {"0"} for row in rows
                ):
                    return False
        return True

    def _shape(self) -> None:
        for number, script in enumerate(self._plan["shaping"]):
            try:
                finish("shaping", start(self._plan["tc"], script))
            except Failed:
                continue
            self._shaped = number
            return

    def _replace_files(self) -> None:
        staging = self._plan["staging"]
        for number, (path, text) in enumerate(self._plan["files"]):
            source = f"{staging}/{number}"
            with open(source, "w", errors="surrogateescape") as file:  # noqa: PTH123 - as above
                file.write(text)
            step("mount", partial(mount, source, path, None, MS_BIND))
        unmount(staging)

    @staticmethod
    def _renew_proc() -> None:
        # A container has covered parts of its /proc, and a user namespace may not uncover them. The old one, which then
        # stays, shows the host's processes and their numbers.
        with contextlib.suppress(OSError):
            mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)

    def _serve(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._control, _MAX_MESSAGE, 4)
        if not message:
            return False
        for descriptor in descriptors:  # `recv_fds` takes no notice of its flags
            os.set_inheritable(descriptor, False)
        order = json.loads(message)
        if "run" in order:  # an environment may be larger than a message: it is in a file
            source, *streams = descriptors
            self._run(order["run"], json.loads(contents(source, os.fstat(source).st_size)), streams)
        elif "ports" in order:
            _, said = start(self._plan["nft"], order["ports"], lambda: self._in_client(order["settings"]))
            os.close(said)
        elif "count" in order:
            _tell(self._control, {"running": self._left_running()})
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _run(self, place: int, order: dict[str, Any], streams: list[int]) -> None:
        failed, failure = os.pipe2(os.O_CLOEXEC)

        def run() -> None:
            try:
                self._in_client()
                for target, stream in enumerate(streams):
                    os.dup2(stream, target)
                for number in {*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ} - set(self._ignored):
                    signal.signal(number, signal.SIG_DFL)
                drop_privileges(order)
                _tell(self._control, {"command": place})
                arguments = [os.fsencode(each) for each in order["argv"]]
                environment = {os.fsencode(name): os.fsencode(value) for name, value in order["env"].items()}
                execute_command(arguments, environment)
            except OSError as error:
                os.write(failure, str(error.errno).encode())

        self._commands[fork(run)] = place
        os.close(failure)
        number = os.read(failed, 16)
        os.close(failed)
        _tell(self._control, {"executed": place, "errno": int(number or b"0")})

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._commands:
                place = self._commands.pop(pid)
                _tell(self._control, {"exited": place, "status": os.waitstatus_to_exitcode(status)})
            elif pid == self._uplink:
                _tell(self._control, {"uplink_ended": self._last_said()})

    def _left_running(self) -> int | None:
        if os.readlink("/proc/self") != "1":  # noqa: PTH115 - as above; the host's
            return None
        known = {1, self._uplink, *self._commands}
        return sum(int(name) not in known and _runs(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - as above


def _runs(pid: str) -> bool:
    """Whether a process has not ended yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _tell(control: socket.socket, message: dict[str, object]) -> None:
    try:
        control.send(json.dumps(message).encode())
    except OSError:  # nobody listens any more: the end comes with the next message
        return
