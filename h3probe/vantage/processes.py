"""Which process a local socket belongs to, asked of psutil while the socket is open.

A client may live for milliseconds, and looking at every process costs tens of them. So what was seen is remembered
after the socket is closed; the process tree of a command under watch is looked at first, and often; and whatever is
asked in a row, looking costs a bounded share of the time.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from h3probe.events import Endpoint, Process
from h3probe.vantage.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psutil
    from psutil._ntuples import pconn, sconn

    from h3probe.vantage.linux import SocketOwners

LIMIT = 65_536
"""Sockets remembered, at most."""

_PROTOCOLS = {socket.SOCK_STREAM: 6, socket.SOCK_DGRAM: 17}
_KINDS = {6: "tcp", 17: "udp"}  # psutil's names; apart, since Linux's table of TCP takes a hundred times longer to read
_MEMORY_S = 600.0
_FRESH_S = 0.5
_SCAN_INTERVAL_S = 0.05  # 20 full scans a second, at most
_POLL_INTERVAL_S = {"tcp": 0.5, "udp": 0.002}
_FAMILY_INTERVAL_S = 0.2  # how often the tree is searched for new children
_WILDCARDS = {4: (bytes(4), bytes(16)), 16: (bytes(16),)}  # a socket bound to :: has IPv4 too, as the JDK's have


@dataclass(slots=True)
class _Socket:
    """One socket of one process, as it was last seen.

    Attributes:
        host: Its own address, packed; a v4-mapped one as IPv4.
        connected: Whether it has a peer.
        process: Its owner.
        in_tree: Whether the owner belongs to the command under watch.
        seen: When it was last seen, on the monotonic clock, seconds.
    """

    host: bytes
    connected: bool
    process: Process
    in_tree: bool
    seen: float


class Processes:
    """Answers who owns a socket, from a bounded memory and, when that does not know, by looking again.

    Args:
        root_pid: A command under watch: its process tree is looked at first, and `poll` looks at nothing else.
        limit: Sockets remembered.

    Attributes:
        kernel: The kernel's table of sockets; None where it cannot be asked.
    """

    def __init__(self, root_pid: int | None = None, *, limit: int = LIMIT) -> None:
        self._root_pid = root_pid
        self._limit = limit
        self._sockets: dict[tuple[int, int], list[_Socket]] = {}  # by protocol and port, least recently seen first
        self._count = 0
        self._family: dict[int, psutil.Process] = {}
        self._family_looked = float("-inf")
        self._poll_pace = {kind: Pace(interval) for kind, interval in _POLL_INTERVAL_S.items()}
        self._scan_pace = {kind: Pace(_SCAN_INTERVAL_S) for kind in _KINDS.values()}
        self.kernel = kernel_table()

    def watch(self, root_pid: int) -> None:
        """Take the tree of this process for the one under watch from now on."""
        self._root_pid = root_pid
        self._family.clear()

    @property
    def is_watching(self) -> bool:
        """Whether there is a tree to look at."""
        return self._root_pid is not None

    def owner(self, protocol: int, local: Endpoint, remote: Endpoint | None = None) -> Process | None:
        """The process that owns the socket with this protocol (6, 17) and local address; None if nobody is seen.

        None may also mean that it is too early to look again: ask once more with the next packet. With the peer's
        address Linux can be asked for this very socket, which takes well below a millisecond for the tree under watch.
        """
        now = time.monotonic()
        found = self._best(protocol, local)
        if found is not None and now - found.seen < _FRESH_S:
            return found.process
        if remote is not None and self.kernel is not None:
            if self._root_pid is not None:
                self._find_family(self._root_pid)
            pid = self.kernel.pid(protocol, local, remote, first=self._family)
            process = None if pid is None else _process(pid)
            if process is not None:
                self._note(protocol, local, process, connected=True)
                return process
        self.poll()
        found = self._best(protocol, local)
        if (found is None or found.seen < now) and (remote is None or self.kernel is None):
            self._scan(_KINDS[protocol])
            found = self._best(protocol, local)
        return None if found is None else found.process

    def poll(self) -> None:
        """Look at the sockets of the command's process tree; to be called each 10 ms or so while it runs."""
        if self._root_pid is None:
            return
        self._find_family(self._root_pid)
        for kind, pace in self._poll_pace.items():
            if pace.begin():
                for pid, process in list(self._family.items()):
                    self._look_at(pid, process, kind)
                pace.end()

    def children_of(self, pid: int) -> list[int]:
        """The processes that descend from this one, itself first; empty when there is no such process."""
        import psutil  # noqa: PLC0415 - loaded when a process is looked for

        try:
            parent = psutil.Process(pid)
            return [pid, *(child.pid for child in parent.children(recursive=True))]
        except psutil.Error:
            return []

    def _find_family(self, root_pid: int) -> None:
        import psutil  # noqa: PLC0415 - the same

        now = time.monotonic()
        if self._family and now - self._family_looked < _FAMILY_INTERVAL_S:
            return
        self._family_looked = now
        for pid in self.children_of(root_pid):
            if pid not in self._family:
                # One that was orphaned stays in the family: it is not found again through its parent.
                try:
                    self._family[pid] = psutil.Process(pid)
                except psutil.Error:
                    continue

    def _look_at(self, pid: int, process: psutil.Process, kind: str) -> None:
        import psutil  # noqa: PLC0415 - the same

        try:
            connections = process.net_connections(kind)
            owner = Process(pid, _name(process)) if connections else None
        except psutil.NoSuchProcess:
            self._family.pop(pid, None)
            return
        except (psutil.Error, OSError):
            return
        if owner is not None:
            for connection in connections:
                self._note_connection(connection, owner)

    def _scan(self, kind: str) -> None:
        """Look at every socket of every process that this one may look at."""
        pace = self._scan_pace[kind]
        if not pace.begin():
            return
        owners: dict[int, Process | None] = {}
        for pid, connection in _all_sockets(kind):
            if pid not in owners:
                owners[pid] = _process(pid)
            owner = owners[pid]
            if owner is not None:
                self._note_connection(connection, owner)
        self._forget(time.monotonic())
        pace.end()

    def _note_connection(self, connection: pconn | sconn, owner: Process) -> None:
        protocol = _PROTOCOLS.get(connection.type)
        if connection.laddr and protocol is not None:
            local = Endpoint(packed(connection.laddr[0]), connection.laddr[1])
            self._note(protocol, local, owner, connected=bool(connection.raddr))

    def _note(self, protocol: int, local: Endpoint, owner: Process, *, connected: bool) -> None:
        host, port = _unmapped(local.host), local.port
        entry = _Socket(host, connected, owner, owner.pid in self._family, time.monotonic())
        known = self._sockets.pop((protocol, port), [])
        kept = [other for other in known if other.host != host or other.process.pid != owner.pid]
        self._sockets[protocol, port] = [*kept, entry]
        self._count += len(kept) + 1 - len(known)
        while self._count > self._limit:
            self._count -= len(self._sockets.pop(next(iter(self._sockets))))

    def _forget(self, now: float) -> None:
        old = [key for key, entries in self._sockets.items() if all(now - e.seen > _MEMORY_S for e in entries)]
        for key in old:
            self._count -= len(self._sockets.pop(key))

    def _best(self, protocol: int, local: Endpoint) -> _Socket | None:
        host = _unmapped(local.host)
        fitting = (host, *_WILDCARDS[len(host)])
        candidates: Iterable[_Socket] = self._sockets.get((protocol, local.port), ())
        matching = [entry for entry in candidates if entry.host in fitting]
        if not matching:
            return None
        latest = max(entry.seen for entry in matching)
        return max(
            matching,
            key=lambda entry: (
                latest - entry.seen < _FRESH_S,  # what is open now, before what was open once
                entry.host == host,
                entry.connected,
                entry.in_tree,
                entry.seen,
            ),
        )


def _all_sockets(kind: str) -> Iterator[tuple[int, pconn | sconn]]:
    """Every socket whose owner this process may know, with the owner's number."""
    import psutil  # noqa: PLC0415 - loaded when a process is looked for

    try:
        yield from ((each.pid, each) for each in psutil.net_connections(kind) if each.pid is not None)
    except (psutil.Error, OSError):  # macOS tells this to root alone, and of one process to its user
        for process in psutil.process_iter():
            try:
                yield from ((process.pid, each) for each in process.net_connections(kind))
            except (psutil.Error, OSError):
                continue


def kernel_table() -> SocketOwners | None:
    """The kernel's table of sockets, where there is one that can be asked for a single socket."""
    if sys.platform != "linux":
        return None
    from h3probe.vantage import linux  # noqa: PLC0415 - Linux only

    try:
        return linux.SocketOwners()
    except OSError:
        return None


def _process(pid: int) -> Process | None:
    import psutil  # noqa: PLC0415 - loaded when a process is looked for

    try:
        return Process(pid, _name(psutil.Process(pid)))
    except (psutil.Error, OSError):
        return None


def _name(process: psutil.Process) -> str:
    name = process.name()
    if name == "MainThread":  # as `linux.MAIN_THREAD`
        name = PurePath(next(iter(process.cmdline()), "")).name or name
    return _printable(name)


def _printable(name: str) -> str:
    """A process chooses its name, and a terminal would obey it."""
    return "".join(character if character.isprintable() else "?" for character in name)


def packed(address: str) -> bytes:
    """An address as psutil writes it, packed; v4-mapped IPv6 as the IPv4 address that is on the wire."""
    return _unmapped(ipaddress.ip_address(address.partition("%")[0]).packed)


def _unmapped(host: bytes) -> bytes:
    return host[12:] if len(host) == 16 and host[:12] == bytes(10) + b"\xff\xff" else host
