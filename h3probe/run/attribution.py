"""Whose connections these are: asks for the owner of each client socket, a few times while it is open."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from h3probe.events import ConnectionOwner
from h3probe.run.peek import peek
from h3probe.track.table import BoundedTable
from h3probe.track.tracker import TCP, UDP

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Endpoint, Frame, Process
    from h3probe.track.tracker import Connection
    from h3probe.vantage.owners import Answer, Owner

# When a new connection's owner is asked for: at once, and again while the socket may still be open.
RETRIES_S = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
# How long a line of the timeline, or a settled record, waits for its process's name.
PATIENCE_S = 0.25
PENDING_LIMIT = 4096
SOCKETS_LIMIT = 4096
FRESH_NS = 500_000_000
# A socket may outlive its descriptor this long while it is being closed.
CLOSING_NS = 50_000_000
# Connections known to be somebody else's that are remembered.
OTHERS_LIMIT = 50_000


class Owners(Protocol):
    """Who can be asked; answers come later."""

    def ask(self, protocol: int, local: Endpoint, remote: Endpoint) -> None:
        """Ask for the owner of a local socket."""

    def answers(self) -> list[Answer]:
        """Return what was found since the last call."""


@dataclass(slots=True)
class _Socket:
    """What is known of a client's socket.

    Attributes:
        since_ns: When it was first seen.
        sent_ns: When its process last sent something; what a kernel sends for a socket that is being closed, and
            after it, does not count.
        over: It is being closed.
        owner: The answer that names a process, or a tree it is not in.
        missed_ns: When it was first looked for in the command's processes, and not found.
        is_others: It is known not to be the command's.
    """

    since_ns: int
    sent_ns: int
    over: bool = False
    owner: Owner | None = None
    missed_ns: int | None = None
    is_others: bool = False

    def sent(self, time_ns: int, *, ends: bool) -> None:
        """A packet was sent."""
        self.over = self.over or ends
        if not self.over:
            self.sent_ns = time_ns
            self._judge(time_ns)

    def answered(self, answer: Answer) -> None:
        """Take an answer."""
        owner, question = answer.owner, answer.question
        if owner.process is not None or owner.in_tree is False:
            self.owner, self.is_others = owner, owner.in_tree is False
        elif self.owner is None and owner.missed_ns is not None:
            if self.missed_ns is None:
                self.missed_ns = owner.missed_ns
            self._judge(self.sent_ns)
            if question.inode is not None:  # it was there when it was asked for
                self._judge(question.asked_ns - CLOSING_NS)

    def _judge(self, open_ns: int) -> None:
        """It was open at a time: somebody has it, and nobody of the command's had it before."""
        if self.owner is None and self.missed_ns is not None and open_ns > self.missed_ns:
            self.is_others = True


@dataclass(slots=True)
class _Question:
    connection: Connection
    socket: _Socket
    asked: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def settled(self) -> bool:
        """Whether the owner, or that it is somebody else, is known."""
        return self.connection.process is not None or self.socket.is_others


class Attribution:
    """Names the processes behind connections.

    Args:
        owners: Who can be asked.
        local: This host's addresses, packed; what does not start at one of them is nobody's here.

    Attributes:
        since_ns: When the command was started; what began before is not its own.
        on_owner: Told of each connection's owner, once, when it is known.
    """

    def __init__(self, owners: Owners, local: frozenset[bytes]) -> None:
        self._owners = owners
        self.local = local
        self.since_ns = 0
        self.on_owner: Callable[[ConnectionOwner], None] | None = None
        self._root: int | None = None
        self._family: dict[int, bool] = {}
        self._sockets: BoundedTable[tuple[int, Endpoint], _Socket] = BoundedTable(SOCKETS_LIMIT)
        self._open: dict[str, _Question] = {}
        self._others: BoundedTable[str, bool] = BoundedTable(OTHERS_LIMIT)

    @property
    def narrowed(self) -> bool:
        """Whether one process's connections alone are wanted."""
        return self._root is not None

    def narrow(self, root_pid: int, since_ns: int = 0) -> None:
        """Want the connections of this process and its descendants from now on, and no others.

        Args:
            root_pid: The process.
            since_ns: When it was started; what began before is not its own.
        """
        self._root = root_pid
        self.since_ns = since_ns
        self._family = {root_pid: True}

    def sniffed(self, frame: Frame) -> None:
        """A frame has come and is not decoded yet: if it may begin a connection, ask whose it is."""
        ends = peek(frame)
        if ends is None:
            return
        socket = self._sockets.get((ends.protocol, ends.source))
        if socket is not None:
            socket.sent(frame.time_ns, ends=ends.ends)
        elif ends.begins and self._is_local(ends.source) and (ends.protocol, ends.destination) not in self._sockets:
            self._sockets.put((ends.protocol, ends.source), _Socket(frame.time_ns, frame.time_ns))
            self._owners.ask(ends.protocol, ends.source, ends.destination)

    def opened(self, connection: Connection) -> None:
        """A connection is new: ask whose it is."""
        if len(self._open) >= PENDING_LIMIT or not self.is_local(connection):
            return
        key, now_ns = (protocol_of(connection), connection.client), connection.first.time_ns
        socket = self._sockets.get(key)
        # An earlier owner of this port is no answer, but what was asked just now need not be asked again.
        if socket is not None and now_ns - socket.since_ns < FRESH_NS:
            self._open[connection.id] = _Question(connection, socket, asked=1)
            return
        socket = _Socket(now_ns, now_ns)
        self._sockets.put(key, socket)
        question = self._open[connection.id] = _Question(connection, socket)
        self._ask(question)

    def is_local(self, connection: Connection) -> bool:
        """Whether a connection starts on this host."""
        return self._is_local(connection.client)

    def _is_local(self, endpoint: Endpoint) -> bool:
        return endpoint.host in self.local or endpoint.is_loopback

    def poll(self) -> None:
        """Take the answers, and ask again what is due."""
        for answer in self._owners.answers():
            socket = self._sockets.get((answer.question.protocol, answer.question.local))
            if socket is not None:
                socket.answered(answer)
        now = time.monotonic()
        for question in list(self._open.values()):
            owner = question.socket.owner
            if owner is not None and owner.process is not None:
                self._name(question.connection, owner.process, owner.in_tree)
            named = question.connection.process
            if question.socket.is_others or (named is not None and not self._in_family(named)):
                self._others.put(question.connection.id, value=True)
            if question.settled or question.asked >= len(RETRIES_S):
                del self._open[question.connection.id]
                if question.settled and self.on_owner is not None:
                    self.on_owner(self._owner_of(question.connection))
            elif question.began + RETRIES_S[question.asked] <= now:
                self._ask(question)

    def _owner_of(self, connection: Connection) -> ConnectionOwner:
        return ConnectionOwner(
            time_ns=connection.first.time_ns,
            protocol=protocol_of(connection),
            local=connection.client,
            process=connection.process,
            wanted=self.wanted(connection),
        )

    def _name(self, connection: Connection, process: Process, in_tree: bool | None) -> None:  # noqa: FBT001 - of `Owner`
        connection.process = process
        if in_tree is not None:
            self._family[process.pid] = in_tree
        else:
            self._in_family(process)  # while it lives

    def _ask(self, question: _Question) -> None:
        question.asked += 1
        connection = question.connection
        self._owners.ask(protocol_of(connection), connection.client, connection.server)

    def pending(self, connection: Connection) -> bool:
        """Whether a connection's owner may still become known soon."""
        question = self._open.get(connection.id)
        return question is not None and not question.settled and time.monotonic() - question.began < PATIENCE_S

    def wanted(self, connection: Connection) -> bool:
        """Whether a connection is to be reported: one of the command's, or of nobody that could be named."""
        if self._root is None:
            return True
        if connection.process is not None:
            return self._in_family(connection.process)
        if connection.first.time_ns < self.since_ns or connection.id in self._others:
            return False
        return self.is_local(connection)

    @property
    def left_out(self) -> int:
        """Connections that are known to be other processes', so far."""
        return len(self._others)

    def _in_family(self, process: Process) -> bool:
        """Whether a process is the command or descends from it; remembered, since processes end."""
        if self._root is None:
            return True
        known = self._family.get(process.pid)
        if known is None:
            known = self._family[process.pid] = self._descends(process.pid)
        return known

    def _descends(self, pid: int) -> bool:
        import psutil  # noqa: PLC0415 - loaded when a process is looked for

        try:
            return any(self._family.get(parent.pid, False) for parent in psutil.Process(pid).parents())
        except psutil.Error:
            return False


def protocol_of(connection: Connection) -> int:
    """The number of the transport protocol under a connection."""
    return TCP if connection.transport == "tcp" else UDP


def local_addresses() -> frozenset[bytes]:
    """Return this host's addresses, packed."""
    import socket  # noqa: PLC0415

    import psutil  # noqa: PLC0415 - loaded when a process is looked for

    found = set()
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family in (socket.AF_INET, socket.AF_INET6):
                found.add(socket.inet_pton(address.family, address.address.partition("%")[0]))
    return frozenset(found)
