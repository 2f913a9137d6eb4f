from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)

from h3probe.vantage import linux
from h3probe.vantage.process_tree import INTERVAL_S, YOUNG_INTERVAL_S, Everyone, ProcessTree
from tests.vantage.conftest import needs_root
from tests.vantage.test_processes import WILDCARD_UDP6

if TYPE_CHECKING:
    from tests.vantage.conftest import StartChild


def inode_of(pid: int) -> int:
    """The inode of a child's only socket."""
    (inode,) = linux.socket_inodes(pid)
    return inode


def test_what_was_seen_stays_known(child: StartChild) -> None:
    """A socket seen by `poll` has an owner after its process has ended, and the tree is empty then."""
    theirs = child(WILDCARD_UDP6)
    inode = inode_of(theirs.pid)
    tree = ProcessTree(theirs.pid)
    tree.poll()
    theirs.end()
    owner = tree.owner(inode)
    assert owner is not None
    assert (owner.pid, owner.name[:6]) == (theirs.pid, "python")
    assert tree.owner(1) is None
    assert tree.pids == []


def test_looks_often_while_a_process_is_young(child: StartChild, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval is short for a young process, and longer for an old one."""
    theirs = child(WILDCARD_UDP6)
    tree = ProcessTree(theirs.pid)
    tree.poll()
    assert tree.interval == YOUNG_INTERVAL_S
    monkeypatch.setattr("h3probe.vantage.process_tree.YOUNG_S", 0.0)
    old = ProcessTree(theirs.pid)
    old.poll()
    assert old.interval == INTERVAL_S
    # An old process is looked at when it is asked for.
    owner = old.owner(inode_of(theirs.pid))
    assert owner is not None
    assert owner.pid == theirs.pid


def test_adopted_processes(child: StartChild) -> None:
    """A process whose place in the tree somebody else has seen belongs to it."""
    watched, orphan = child(WILDCARD_UDP6), child(WILDCARD_UDP6)
    tree = ProcessTree(watched.pid)
    assert tree.owner(inode_of(orphan.pid)) is None
    tree.adopt([orphan.pid])
    owner = tree.owner(inode_of(orphan.pid))
    assert owner is not None
    assert owner.pid == orphan.pid
    assert tree.is_readable


def test_the_memory_is_bounded(child: StartChild) -> None:
    """Of more sockets than the limit the latest are remembered."""
    many = "import socket; many = [socket.socket(socket.AF_INET, 2) for _ in range(9)]; s = many[0]; s.bind(('', 0))"
    theirs = child(many)
    tree = ProcessTree(theirs.pid, limit=4)
    tree.poll()
    assert len(tree._sockets) == 4


def test_everyone(child: StartChild) -> None:
    """Among all processes an owner is found, a new one's too while the pace forbids to look at all."""
    first = child(WILDCARD_UDP6)
    everyone = Everyone()
    owner = everyone.owner(inode_of(first.pid))
    assert owner is not None
    assert owner.pid == first.pid
    everyone._pace._not_before = float("inf")
    second = child(WILDCARD_UDP6)
    owner = everyone.owner(inode_of(second.pid))
    assert owner is not None
    assert owner.pid == second.pid
    assert everyone.owner(1) is None


def test_facts_of_processes(child: StartChild) -> None:
    """A process has a number, a parent and a name, and one that is gone hides nothing."""
    theirs = child(WILDCARD_UDP6)
    assert theirs.pid in linux.process_ids()
    assert linux.parent_of(theirs.pid) == os.getpid()
    name = linux.name_of(theirs.pid)
    assert name is not None
    assert name.startswith("python")
    assert linux.may_look_at(theirs.pid)
    theirs.end()
    assert linux.parent_of(theirs.pid) is None
    assert linux.name_of(theirs.pid) is None
    assert linux.may_look_at(theirs.pid)


@needs_root
def test_the_same_user_with_fewer_capabilities(child: StartChild) -> None:
    """A process whose links may not be followed is not readable, although its files may be listed."""
    theirs = child(WILDCARD_UDP6)
    program = (
        "import sys; from h3probe.vantage import linux, privileges; pid = int(sys.argv[1]); "
        "before = linux.may_look_at(pid); privileges.give_up_capabilities(); "
        "print(before, linux.may_look_at(pid), linux.socket_inodes(pid))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(theirs.pid)], capture_output=True, text=True, check=True)
    assert done.stdout == "True False []\n"


def test_a_parent_that_the_list_has_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose parent was not in the same list of processes is one of the tree's once the parent is."""
    parents = {1: 0, 2: 0, 5: 1, 10: 5, 20: 10, 30: 20, 40: 1}
    lists = [[1, 2, 5, 10, 30, 40], list(parents)]
    looked: list[int] = []

    def parent_of(pid: int) -> int | None:
        looked.append(pid)
        return parents.get(pid)

    monkeypatch.setattr(linux, "process_ids", lambda: lists[0])
    monkeypatch.setattr(linux, "parent_of", parent_of)
    tree = ProcessTree(5)
    assert tree.owner(1) is None
    assert set(tree.pids) == {5, 10}
    del lists[0]
    looked.clear()
    assert tree.owner(1) is None
    assert set(tree.pids) == {5, 10, 20, 30}
    assert looked == [20, 30]
