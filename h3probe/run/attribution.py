"""Whose connections these are: asks for the owner of each client socket, a few times while it is open."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from h3probe.track.tracker import TCP, UDP

if TYPE_CHECKING:
    from h3probe.events import Endpoint, Process
    from h3probe.track.tracker import Connection
    from h3probe.vantage.owners import Answer, Owner

# When a new connection's owner is asked for: at once, and again while the socket may still be open.
RETRIES_S = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
# How long a line of the timeline, or a settled record, waits for its process's name.
PATIENCE_S = 0.25
PENDING_LIMIT = 4096


class Owners(Protocol):
    """Who can be asked; answers come later."""

    def ask(self, protocol: int, local: Endpoint, remote: Endpoint) -> None:
        """Ask for the owner of a local socket."""

    def answers(self) -> list[Answer]:
        """Return what was found since the last call."""


@dataclass(slots=True)
class _Question:
    connection: Connection
    asked: int = 0
    settled: bool = False
    began: float = field(default_factory=time.monotonic)


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
        self._family: dict[int, bool] = {}
        self._open: dict[str, _Question] = {}
        self._others: BoundedTable[str, bool] = BoundedTable(KEPT_CONNECTIONS)

    def narrow(self, root_pid: int) -> None:
        """Want the connections of this process and its descendants from now on, and no others."""
        self._root = root_pid
        self._family = {root_pid: True}

    def opened(self, connection: Connection) -> None:
        """A connection is new: ask whose it is."""
        if len(self._open) < PENDING_LIMIT and self.is_local(connection):
            question = self._open[connection.id] = _Question(connection)
            self._ask(question)

    def is_local(self, connection: Connection) -> bool:
        """Whether a connection starts on this host."""
        return connection.client.is_loopback or connection.client.host in self._local

    def poll(self) -> None:
        """Take the answers, and ask again what is due."""
        self._take_answers()
        now = time.monotonic()
        for question in list(self._open.values()):
            if question.settled or question.asked >= len(RETRIES_S):
                del self._open[question.connection.id]
            elif question.began + RETRIES_S[question.asked] <= now:
                self._ask(question)

    def _take_answers(self) -> None:
        answers = {(a.question.protocol, a.question.local): a.owner for a in self._owners.answers()}
        if not answers:
            return
        for question in self._open.values():
            connection = question.connection
            owner = answers.get((_protocol(connection), connection.client))
            if owner is not None:
                self._settle(question, owner)

    def _settle(self, question: _Question, owner: Owner) -> None:
        question.settled = True
        if owner.process is not None:
            question.connection.process = owner.process
            if owner.in_tree is not None:
                self._family[owner.process.pid] = owner.in_tree
            else:
                self._in_family(owner.process)  # while it lives
        elif owner.in_tree is False:
            self._others.put(question.connection.id, value=True)

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
        return self.is_local(connection) and connection.id not in self._others

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
