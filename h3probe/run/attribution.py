"""Whose connections these are: asks for the owner of each client socket, a few times while it is open."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from h3probe.run.peek import peek
from h3probe.track.table import BoundedTable
from h3probe.track.tracker import TCP, UDP

if TYPE_CHECKING:
    from h3probe.events import Endpoint, Frame, Process
    from h3probe.track.tracker import Connection
    from h3probe.vantage.owners import Answer, Owner

# When a new connection's owner is asked for: at once, and again while the socket may still be open.
RETRIES_S = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
# How long a line of the timeline, or a settled record, waits for its process's name.
PATIENCE_S = 0.25
PENDING_LIMIT = 4096
SOCKETS_LIMIT = 4096
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
        sent_ns: When it last sent something.
        owner: What was answered.
    """

    sent_ns: int
    owner: Owner | None = None

    @property
    def is_others(self) -> bool:
        """Whether it is known not to be the command's."""
        owner = self.owner
        if owner is None:
            return False
        return owner.in_tree is False or (owner.missed_ns is not None and owner.missed_ns < self.sent_ns)


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
    """

    def __init__(self, owners: Owners, local: frozenset[bytes]) -> None:
        self._owners = owners
        self._local = local
        self._root: int | None = None
        self._since_ns = 0
        self._family: dict[int, bool] = {}
        self._sockets: BoundedTable[tuple[int, Endpoint], _Socket] = BoundedTable(SOCKETS_LIMIT)
        self._open: dict[str, _Question] = {}
        self._others: BoundedTable[str, bool] = BoundedTable(OTHERS_LIMIT)

    def narrow(self, root_pid: int, since_ns: int = 0) -> None:
        """Want the connections of this process and its descendants from now on, and no others.

        Args:
            root_pid: The process.
            since_ns: When it was started; what began before is not its own.
        """
        self._root = root_pid
        self._since_ns = since_ns
        self._family = {root_pid: True}

    def sniffed(self, frame: Frame) -> None:
        """A frame has come and is not decoded yet: if it may begin a connection, ask whose it is."""
        ends = peek(frame)
        if ends is None:
            return
        socket = self._sockets.get((ends.protocol, ends.source))
        if socket is not None:
            socket.sent_ns = frame.time_ns
        elif ends.begins and self._is_local(ends.source):
            self._sockets.put((ends.protocol, ends.source), _Socket(frame.time_ns))
            self._owners.ask(ends.protocol, ends.source, ends.destination)

    def opened(self, connection: Connection) -> None:
        """A connection is new: ask whose it is."""
        if len(self._open) >= PENDING_LIMIT or not self.is_local(connection):
            return
        key = _protocol(connection), connection.client
        socket = self._sockets.get(key)
        if socket is None:
            socket = _Socket(connection.first.time_ns)
            self._sockets.put(key, socket)
        # An earlier owner of this port is no answer, but the answer about a UDP socket may serve many connections.
        question = self._open[connection.id] = _Question(connection, socket)
        self._ask(question)

    def is_local(self, connection: Connection) -> bool:
        """Whether a connection starts on this host."""
        return self._is_local(connection.client)

    def _is_local(self, endpoint: Endpoint) -> bool:
        return endpoint.host in self._local or endpoint.is_loopback

    def poll(self) -> None:
        """Take the answers, and ask again what is due."""
        answers = {(a.question.protocol, a.question.local): a.owner for a in self._owners.answers()}
        for key, owner in answers.items():
            socket = self._sockets.get(key)
            if socket is not None:
                socket.owner = owner
        now = time.monotonic()
        for question in list(self._open.values()):
            found = answers.get((_protocol(question.connection), question.connection.client))
            if found is not None and found.process is not None:
                self._name(question.connection, found.process, found.in_tree)
            if question.socket.is_others:
                self._others.put(question.connection.id, value=True)
            if question.settled or question.asked >= len(RETRIES_S):
                del self._open[question.connection.id]
            elif question.began + RETRIES_S[question.asked] <= now:
                self._ask(question)

    def _name(self, connection: Connection, process: Process, in_tree: bool | None) -> None:  # noqa: FBT001 - of `Owner`
        connection.process = process
        if in_tree is not None:
            self._family[process.pid] = in_tree
        else:
            self._in_family(process)  # while it lives

    def _ask(self, question: _Question) -> None:
        question.asked += 1
        connection = question.connection
        self._owners.ask(_protocol(connection), connection.client, connection.server)

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
        if connection.first.time_ns < self._since_ns or connection.id in self._others:
            return False
        return self.is_local(connection)

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


def _protocol(connection: Connection) -> int:
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
