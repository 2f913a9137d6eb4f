"""Whose a socket is, by its inode: among the processes under a command, or among all (Linux).

A child of the command may live for milliseconds. So the tree is looked at every other millisecond while it has young
processes in it, and what was seen stays known: a socket's inode leads to its owner even after both are gone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from h3probe.events import Process
from h3probe.vantage import linux
from h3probe.vantage.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 65_536
"""Sockets remembered, at most."""

YOUNG_S = 2.0
"""A process may be a short-lived one for this long."""

YOUNG_INTERVAL_S = 0.002
INTERVAL_S = 0.01
SCAN_INTERVAL_S = 0.02


class ProcessTree:
    """A process, its descendants, and the sockets they have or had.

    Args:
        root_pid: The process.
        limit: Sockets remembered.
    """

    def __init__(self, root_pid: int, *, limit: int = LIMIT) -> None:
        self._root_pid = root_pid
        self._limit = limit
        self._known: set[int] = set()  # every process there was at the last look
        # The tree's processes, and when each was first seen.
        self._family: dict[int, float] = {root_pid: time.monotonic()}
        self._sockets: dict[int, Process] = {}  # by inode
        self._pace = Pace(YOUNG_INTERVAL_S)

    @property
    def pids(self) -> list[int]:
        """The processes in the tree at the last look."""
        return list(self._family)

    def adopt(self, pids: Iterable[int]) -> None:
        """Take processes into the tree: orphans whose place in it was seen by somebody else."""
        now = time.monotonic()
        for pid in pids:
            self._family.setdefault(pid, now)

    @property
    def is_readable(self) -> bool:
        """Whether this process may look at the sockets of all of them."""
        return all(linux.may_look_at(pid) for pid in self._family)

    @property
    def interval(self) -> float:
        """How often `poll` should be called, in seconds."""
        return self._pace.interval

    def poll(self) -> None:
        """Look, if it is time to, for new processes, and at the sockets of young ones."""
        if not self._pace.begin():
            return
        self._find_family()
        now = time.monotonic()
        young = [pid for pid, since in self._family.items() if now - since < YOUNG_S]
        self._look_at(young)
        self._pace.interval = YOUNG_INTERVAL_S if young else INTERVAL_S
        self._pace.end()

    def owner(self, inode: int) -> Process | None:
        """Who has the socket with this inode open, or had it when it was last seen; None if nobody in the tree."""
        if inode not in self._sockets:
            # Before the milliseconds that a look for new processes takes: the owner may live no longer.
            self._look_at(list(self._family))
        if inode not in self._sockets:
            self._find_family()
            self._look_at(self._family)
        return self._sockets.get(inode)

    def _find_family(self) -> None:
        pids = set(linux.process_ids())
        now = time.monotonic()
        if self._root_pid in pids:
            self._family.setdefault(self._root_pid, now)
        new = sorted(pids - self._known)
        parents = {pid: linux.parent_of(pid) for pid in new}
        grown = True
        while grown:  # a child may have a smaller number than its parent, once numbers begin anew
            found = [pid for pid in new if pid not in self._family and parents[pid] in self._family]
            self._family |= dict.fromkeys(found, now)
            grown = bool(found)
        # One that was orphaned stays in the family; one that has ended leaves it.
        for gone in self._family.keys() - pids:
            del self._family[gone]
        # /proc is not listed in one instant: whose parent was not in the list is looked at again.
        self._known = {pid for pid in pids if pid not in parents or parents[pid] in pids or not parents[pid]}

    def _look_at(self, pids: Iterable[int]) -> None:
        for pid in pids:
            _remember(self._sockets, pid, self._limit)


class Everyone:
    """All processes of this host, and the sockets they have or had.

    Args:
        limit: Sockets remembered.
    """

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._limit = limit
        self._known: set[int] = set()
        self._sockets: dict[int, Process] = {}
        self._pace = Pace(SCAN_INTERVAL_S)

    def owner(self, inode: int) -> Process | None:
        """Who has the socket with this inode open, or had it when it was last seen; None if nobody is seen.

        New processes are looked at each time, the others not more often than the pace allows: None may mean that it
        is too early to look again.
        """
        if inode in self._sockets:
            return self._sockets[inode]
        pids = set(linux.process_ids())
        # Who has just opened a socket was often started just now.
        self._look_at(sorted(pids - self._known, reverse=True), inode)
        if inode not in self._sockets and self._pace.begin():
            self._look_at(sorted(pids & self._known, reverse=True), inode)
            self._pace.end()
        self._known = pids
        return self._sockets.get(inode)

    def _look_at(self, pids: Iterable[int], inode: int) -> None:
        for pid in pids:
            _remember(self._sockets, pid, self._limit)
            if inode in self._sockets:
                return


def _remember(sockets: dict[int, Process], pid: int, limit: int) -> None:
    for inode in linux.socket_inodes(pid):
        if inode not in sockets:
            sockets[inode] = Process(pid, linux.name_of(pid) or "?")
    while len(sockets) > limit:
        del sockets[next(iter(sockets))]
