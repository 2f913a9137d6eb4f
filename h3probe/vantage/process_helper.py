"""A small process that goes on looking at other users' processes after the main one gave up root.

It is forked before that, keeps two capabilities of all (CAP_SYS_PTRACE to see whose a socket is, CAP_DAC_READ_SEARCH to
read /proc/PID/fd), has no open file but its end of a socket pair, and answers one question: who owns this socket. It
looks while the main process reads packets, so that neither waits for the other, and ends when the pair is closed.

One JSON object a line. Questions: `{"id", "protocol", "local", "remote", "inode"}` (each address `["hex", port]`; the
last two may be null) and `{"tree": pid}`; answers: `{"id", "time_ns", "pid", "name", "in_tree", "missed_ns"}`, the last
four null when nothing was found out within a second; and `{"family": [pid]}` when the tree has changed.
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

from h3probe.events import Endpoint, Process
from h3probe.vantage.owners import Answer, Owner, Owners, Question, look
from h3probe.vantage.pace import Pace
from h3probe.vantage.processes import kernel_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from h3probe.vantage.privileges import User
    from h3probe.vantage.process_tree import ProcessTree

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
        self._pending: dict[int, Question] = {}
        self._asked: set[tuple[int, Endpoint]] = set()
        self._found: list[Answer] = []
        self._kernel = kernel_table()
        self._tree: ProcessTree | None = None
        self._pace = Pace(0.0)
        self.alive = True
        if root_pid is not None:
            self._look_oneself_at(root_pid)

    def fileno(self) -> int:
        """Readable when `answers` has something to give."""
        return self._socket.fileno()

    def watch(self, root_pid: int) -> None:
        """Look at the tree of this process first, and all the time."""
        self._send({"tree": root_pid})
        self._look_oneself_at(root_pid)

    def _look_oneself_at(self, root_pid: int) -> None:
        """A look at processes that this one may look at saves the way to the helper, and most sockets wait for it."""
        if self._kernel is not None:
            from h3probe.vantage.process_tree import ProcessTree  # noqa: PLC0415 - Linux only

            self._tree = ProcessTree(root_pid)

    def ask(self, protocol: int, local: Endpoint, remote: Endpoint | None = None) -> None:
        """Ask who owns a socket; `answers` will say. A question that waits already is not asked twice."""
        if (protocol, local) in self._asked or len(self._pending) >= _MAX_PENDING:
            return
        # Asked for at once: the socket may be gone before the helper reads the question.
        inode = None if self._kernel is None or remote is None else self._kernel.inode(protocol, local, remote)
        question = Question(protocol, local, remote, inode, time.time_ns())
        owner = self._look(question)
        if owner != Owner(None, None):
            self._found.append(Answer(time.time_ns(), question, owner))
        if owner.process is not None:
            return
        self._last += 1
        self._pending[self._last] = question
        self._asked.add((protocol, local))
        peer = None if remote is None else (remote.host.hex(), remote.port)
        message = {"protocol": protocol, "local": (local.host.hex(), local.port), "remote": peer, "inode": inode}
        self._send({"id": self._last} | message)

    def _look(self, question: Question) -> Owner:
        nothing = Owner(None, in_tree=None)
        if self._tree is None or question.inode is None or not self._pace.begin():
            return nothing
        self._receive()  # who belongs to the tree
        owner = look(self._tree, question)
        self._pace.end()
        return owner

    def answers(self) -> list[Answer]:
        """What was found since the last call, without waiting; where nothing was found there is no answer."""
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
                if (answer.question.protocol, answer.question.local) == (protocol, local):
                    return answer.owner.process
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
                self._forget(number)
        except OSError:
            self.alive = False

    def _forget(self, number: int) -> Question:
        question = self._pending.pop(number)
        self._asked.discard((question.protocol, question.local))
        return question

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
        if "family" in message:
            if self._tree is not None:
                self._tree.adopt(message["family"])
            return
        question = self._forget(message["id"])
        process = None if message["pid"] is None else Process(message["pid"], message["name"])
        owner = Owner(process, message["in_tree"], message["missed_ns"])
        if owner != Owner(None, None):
            self._found.append(Answer(message["time_ns"], question, owner))

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
        _serve(pair, Owners(root_pid))
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
class _Waiting:
    """A question that is not answered yet.

    Attributes:
        number: Its id.
        question: What is asked.
        deadline: When the answer is that nobody was seen.
        again: When to look next.
    """

    number: int
    question: Question
    deadline: float
    again: float


def _serve(pair: socket.socket, owners: Owners) -> None:
    waiting: list[_Waiting] = []
    family: list[int] = []
    buffer = b""
    while True:
        pause = owners.interval if owners.interval is not None else (_POLL_S if waiting else None)
        if select.select([pair], [], [], pause)[0]:
            data = pair.recv(65536)
            if not data or len(buffer) > _MAX_LINE:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for message in map(json.loads, lines):
                if "tree" in message:
                    owners.watch(message["tree"])
                else:
                    waiting.append(_waiting(message))
        waiting = [each for each in waiting if not _is_answered(pair, owners, each)]
        owners.poll()
        if owners.family != family:
            family = owners.family
            _send(pair, {"family": family})


def _waiting(message: dict[str, Any]) -> _Waiting:
    now = time.monotonic()
    local = _endpoint(message["local"])
    remote = None if message["remote"] is None else _endpoint(message["remote"])
    question = Question(message["protocol"], local, remote, message["inode"])
    return _Waiting(message["id"], question, now + _PATIENCE_S, now)


def _endpoint(address: list[Any]) -> Endpoint:
    return Endpoint(bytes.fromhex(address[0]), address[1])


def _is_answered(pair: socket.socket, owners: Owners, waiting: _Waiting) -> bool:
    now = time.monotonic()
    if now < waiting.again:
        return False
    waiting.again = now + _AGAIN_S
    owner = owners.owner(waiting.question)
    if owner is None:
        if now < waiting.deadline:
            return False
        owner = Owner(None, None)
    pid, name = (None, None) if owner.process is None else (owner.process.pid, owner.process.name)
    message = {"id": waiting.number, "time_ns": time.time_ns(), "pid": pid, "name": name}
    message |= {"in_tree": owner.in_tree, "missed_ns": owner.missed_ns}
    _send(pair, message)
    return True


def _send(pair: socket.socket, message: Mapping[str, object]) -> None:
    pair.sendall(json.dumps(message).encode() + b"\n")
