"""Whose a socket is, seen from a command under watch: one of its processes', somebody else's, or not known.

Linux tells all three apart. Elsewhere, and where the kernel does not answer, `Processes` knows owners alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from h3probe.vantage.pace import Pace
from h3probe.vantage.processes import Processes

if TYPE_CHECKING:
    from h3probe.events import Endpoint, Process
    from h3probe.vantage.linux import SocketOwners
    from h3probe.vantage.process_tree import Everyone, ProcessTree

POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Question:
    """Whose is this socket?

    Attributes:
        protocol: 6 for TCP, 17 for UDP.
        local: The socket's own side as it appears on the wire.
        remote: Its peer; None where that is not known.
        inode: The socket's inode, where the kernel told it already; the socket may be gone by now.
        asked_ns: When it was asked, and the inode with it.
    """

    protocol: int
    local: Endpoint
    remote: Endpoint | None = None
    inode: int | None = None
    asked_ns: int = 0


@dataclass(frozen=True, slots=True)
class Owner:
    """What is known of a socket's owner.

    Attributes:
        process: The owner; None when it is not known.
        in_tree: Whether it belongs to the command under watch; None when that is not known.
        missed_ns: When nobody in the tree was seen to have the socket, which may have been closed by then: what it
            sends later proves that it is somebody else's.
    """

    process: Process | None
    in_tree: bool | None
    missed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that came later.

    Attributes:
        time_ns: When it was found.
        question: What was asked.
        owner: What is known.
    """

    time_ns: int
    question: Question
    owner: Owner


class Owners:
    """Answers questions at once, and looks at the command's processes meanwhile.

    Args:
        root_pid: The command under watch, if it runs already.
        kernel: The table of sockets to ask; that of this process's network namespace unless given.
    """

    def __init__(self, root_pid: int | None = None, *, kernel: SocketOwners | None = None) -> None:
        self._processes = Processes()
        self._kernel = kernel or self._processes.kernel
        self._tree: ProcessTree | None = None
        self._everyone: Everyone | None = None
        if self._kernel is not None:
            from h3probe.vantage.process_tree import Everyone  # noqa: PLC0415 - Linux only

            self._everyone = Everyone()
        if root_pid is not None:
            self.watch(root_pid)

    def watch(self, root_pid: int) -> None:
        """Take this process and its descendants for the command under watch from now on."""
        if self._kernel is None:
            self._processes.watch(root_pid)
            return
        from h3probe.vantage.process_tree import ProcessTree  # noqa: PLC0415 - Linux only

        self._tree = ProcessTree(root_pid)

    @property
    def interval(self) -> float | None:
        """How often `poll` should be called, in seconds; None when nothing is under watch."""
        if self._tree is not None:
            return self._tree.interval
        return POLL_S if self._processes.is_watching else None

    def poll(self) -> None:
        """Look at the command's processes, if it is time to."""
        if self._tree is not None:
            self._tree.poll()
        else:
            self._processes.poll()

    def owner(self, question: Question) -> Owner | None:
        """What is known of a socket's owner; None when it is worth asking again in some milliseconds."""
        if self._kernel is None or question.remote is None:
            process = self._processes.owner(question.protocol, question.local, question.remote)
            return None if process is None else Owner(process, in_tree=None)
        question = self.with_inode(question)
        if question.inode is None:
            return None
        if self._tree is None:
            process = self._everyone.owner(question.inode) if self._everyone is not None else None
            return None if process is None else Owner(process, in_tree=None)
        return look(self._tree, question)

    def with_inode(self, question: Question) -> Question:
        """The question with its socket's inode, if the kernel has such a socket now."""
        if self._kernel is None or question.remote is None or question.inode is not None:
            return question
        inode = self._kernel.inode(question.protocol, question.local, question.remote)
        return replace(question, inode=inode)

    @property
    def family(self) -> list[int]:
        """The processes under watch, as far as they are known."""
        return [] if self._tree is None else self._tree.pids


def look(tree: ProcessTree, question: Question) -> Owner:
    """Look for a socket, whose inode is known, among the processes of a tree."""
    if question.inode is None:
        return Owner(None, in_tree=None)
    process = tree.owner(question.inode)
    if process is not None:
        return Owner(process, in_tree=True)
    # That a socket is still there and in no process's hands proves nothing: a process that closes it, or ends, lets go
    # of the descriptor first.
    return Owner(None, in_tree=None, missed_ns=time.time_ns() if tree.is_readable else None)


class DirectOwners:
    """Takes questions and has answers at once, for a run that needs no helper: it sees its own user's processes.

    Args:
        root_pid: The command under watch, if it runs already.
        kernel: The table of sockets to ask; that of this process's network namespace unless given.
    """

    def __init__(self, root_pid: int | None = None, *, kernel: SocketOwners | None = None) -> None:
        self._owners = Owners(root_pid, kernel=kernel)
        self._pace = Pace(POLL_S)
        self._waiting: list[Question] = []
        self._found: list[Answer] = []

    def watch(self, root_pid: int) -> None:
        """Take this process and its descendants for the command under watch from now on."""
        self._owners.watch(root_pid)

    def ask(self, protocol: int, local: Endpoint, remote: Endpoint) -> None:
        """Ask for a socket's owner; the command's own processes are looked at at once."""
        question = self._owners.with_inode(Question(protocol, local, remote, asked_ns=time.time_ns()))
        if self._owners.interval is not None:
            self._answer(question)
        else:
            self._waiting.append(question)

    def answers(self) -> list[Answer]:
        """What was found since the last call."""
        # Each question looks by itself: what is looked at beside that is what may be gone when it is asked.
        if self._pace.begin():
            self._owners.poll()
            self._pace.end()
        waiting, self._waiting = self._waiting, []
        for question in waiting:
            self._answer(question)
        found, self._found = self._found, []
        return found

    def _answer(self, question: Question) -> None:
        owner = self._owners.owner(question)
        if owner is not None:
            self._found.append(Answer(time.time_ns(), question, owner))
