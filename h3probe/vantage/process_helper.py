"""A small process that goes on looking at other users' processes after the main one gave up root.

It is forked before that, keeps two capabilities of all (CAP_SYS_PTRACE to see whose a socket is, CAP_DAC_READ_SEARCH to
read /proc/PID/fd), has no open file but its end of a socket pair, and answers one question: who owns this socket. It
looks while the main process reads packets, so that neither waits for the other, and ends when the pair is closed.

One JSON object a line. Questions: `{"id", "protocol", "local", "remote"}` (each address `["hex", port]`, the
second one may be null) and `{"tree": pid}`; answers: `{"id", "time_ns", "pid", "name"}`, with a null `pid` when nobody
was seen within a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from h3probe.events import Endpoint, Process, SocketOwner
from h3probe.vantage.processes import Processes

if TYPE_CHECKING:
    from types import TracebackType

    from h3probe.vantage.privileges import User

_MAX_PENDING = 1024
_MAX_LINE = 4096
_PATIENCE_S = 1.0
_POLL_S = 0.01
_AGAIN_S = 0.03


class ProcessesHelper:
    """The main process's side. Start it before any thread (it forks), and before root is given up.

    It is for POSIX systems; elsewhere `Processes` is used as it is.

    Args:
        root_pid: The command under watch, if it runs already; `watch` tells a later one.
        user: Whom the helper becomes, keeping its two capabilities; None leaves its user alone.
    """

    def __init__(self, root_pid: int | None = None, *, user: User | None = None) -> None:
        import psutil  # noqa: F401, PLC0415 - only where processes are looked at; before the fork, so that it is ready

        self._socket, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            _run_child(theirs, root_pid, user)
        theirs.close()
        self._socket.setblocking(False)
        self._buffer = b""
        self._last = 0
        self._pending: dict[int, tuple[int, Endpoint]] = {}
        self._asked: set[tuple[int, Endpoint]] = set()
        self._found: list[SocketOwner] = []
        self.alive = True

    def fileno(self) -> int:
        """Readable when `answers` has something to give."""
        return self._socket.fileno()

    def watch(self, root_pid: int) -> None:
        """Look at the tree of this process first, and all the time."""
        self._send({"tree": root_pid})

    def ask(self, protocol: int, local: Endpoint, remote: Endpoint | None = None) -> None:
        """Ask who owns a socket; `answers` will say. A question that waits already is not asked twice."""
        question = protocol, local
        if question in self._asked or len(self._pending) >= _MAX_PENDING:
            return
        self._last += 1
        self._pending[self._last] = question
        self._asked.add(question)
        peer = None if remote is None else (remote.host.hex(), remote.port)
        self._send({"id": self._last, "protocol": protocol, "local": (local.host.hex(), local.port), "remote": peer})

    def answers(self) -> list[SocketOwner]:
        """The owners found since the last call, without waiting; what nobody was seen to own is left out."""
        self._receive()
        found, self._found = self._found, []
        return found

    def owner(
        self, protocol: int, local: Endpoint, remote: Endpoint | None = None, *, timeout: float = 0.3
    ) -> Process | None:
        """Ask, and wait for the answer; None when nobody is seen to own it, or after `timeout` seconds."""
        self.ask(protocol, local, remote)
        deadline = time.monotonic() + timeout
        seen = 0
        while self.alive:
            self._receive()
            for answer in self._found[seen:]:
                if (answer.protocol, answer.local) == (protocol, local):
                    return answer.process
            seen = len(self._found)
            left = deadline - time.monotonic()
            if (protocol, local) not in self._asked or left <= 0:
                break
            select.select([self._socket], [], [], left)
        return None

    def _send(self, message: dict[str, object]) -> None:
        try:
            self._socket.send(json.dumps(message).encode() + b"\n")
        except BlockingIOError:  # thousands of questions ahead: this one goes unanswered
            number = message.get("id")
            if isinstance(number, int):
                self._asked.discard(self._pending.pop(number))
        except OSError:
            self.alive = False

    def _receive(self) -> None:
        while self.alive:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.alive = False
                return
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                self._answer(json.loads(line))

    def _answer(self, message: dict[str, Any]) -> None:
        protocol, local = question = self._pending.pop(message["id"])
        self._asked.discard(question)
        if message["pid"] is not None:
            process = Process(message["pid"], message["name"])
            self._found.append(SocketOwner(message["time_ns"], protocol, local, process))

    def close(self) -> None:
        """End the helper, and wait for its end."""
        self.alive = False
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _run_child(pair: socket.socket, root_pid: int | None, user: User | None) -> NoReturn:
    """Everything the forked process ever does; it must not return into the caller's frames."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for the main process
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.closerange(3, pair.fileno())
        os.closerange(pair.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        _keep_two_capabilities(user)
        _serve(pair, Processes(root_pid))
        status = 0
    except BaseException:  # noqa: BLE001 - a helper that fails is noticed by its closed pair, and says nothing
        status = 1
    finally:
        os._exit(status)


def _keep_two_capabilities(user: User | None) -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    from h3probe.vantage import linux  # noqa: PLC0415 - Linux only

    needed = {linux.CAP_DAC_READ_SEARCH, linux.CAP_SYS_PTRACE}
    linux.drop_bounding_set()
    if user is not None:
        linux.keep_capabilities_over_setuid()
        os.setgroups([])
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    linux.limit_capabilities(needed)
    linux.no_new_privileges()


@dataclass(slots=True)
class _Question:
    """One that is not answered yet.

    Attributes:
        number: Its id.
        protocol: 6 or 17.
        local: The socket's own side.
        remote: Its peer, where that is known.
        deadline: When the answer is that nobody was seen.
        again: When to look next.
    """

    number: int
    protocol: int
    local: Endpoint
    remote: Endpoint | None
    deadline: float
    again: float


def _serve(pair: socket.socket, processes: Processes) -> None:
    waiting: list[_Question] = []
    buffer = b""
    while True:
        idle = not waiting and not processes.is_watching
        if select.select([pair], [], [], None if idle else _POLL_S)[0]:
            data = pair.recv(65536)
            if not data or len(buffer) > _MAX_LINE:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for message in map(json.loads, lines):
                if "tree" in message:
                    processes.watch(message["tree"])
                else:
                    waiting.append(_question(message))
        waiting = [question for question in waiting if not _is_answered(pair, processes, question)]
        processes.poll()


def _question(message: dict[str, Any]) -> _Question:
    now = time.monotonic()
    remote = None if message["remote"] is None else _endpoint(message["remote"])
    return _Question(message["id"], message["protocol"], _endpoint(message["local"]), remote, now + _PATIENCE_S, now)


def _endpoint(address: list[Any]) -> Endpoint:
    return Endpoint(bytes.fromhex(address[0]), address[1])


def _is_answered(pair: socket.socket, processes: Processes, question: _Question) -> bool:
    now = time.monotonic()
    if now < question.again:
        return False
    question.again = now + _AGAIN_S
    owner = processes.owner(question.protocol, question.local, question.remote)
    if owner is None and now < question.deadline:
        return False
    pid, name = (None, None) if owner is None else (owner.pid, owner.name)
    message = {"id": question.number, "time_ns": time.time_ns(), "pid": pid, "name": name}
    pair.sendall(json.dumps(message).encode() + b"\n")
    return True
