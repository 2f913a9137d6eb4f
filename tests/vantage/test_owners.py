from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from h3probe.events import Endpoint
from h3probe.vantage.owners import DirectOwners, Owners, Question
from tests.vantage.test_processes import LOOPBACK4, WILDCARD_UDP6

if TYPE_CHECKING:
    from tests.vantage.conftest import StartChild

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="whose a socket is not is known on Linux alone")

PEER = Endpoint(LOOPBACK4, 9)


def asked(port: int, inode: int | None = None) -> Question:
    """The question about a UDP socket on loopback."""
    return Question(17, Endpoint(LOOPBACK4, port), PEER, inode)


def test_one_of_the_commands(child: StartChild) -> None:
    """A socket of the process under watch has its owner, and belongs to the tree."""
    theirs = child(WILDCARD_UDP6)
    owner = Owners(theirs.pid).owner(asked(theirs.port))
    assert owner is not None
    assert owner.process is not None
    assert (owner.process.pid, owner.in_tree) == (theirs.pid, True)


def test_somebody_elses(child: StartChild) -> None:
    """Of a socket that is not in the tree it is said when it was looked for."""
    watched, other = child(WILDCARD_UDP6), child(WILDCARD_UDP6)
    before = time.time_ns()
    owner = Owners(watched.pid).owner(asked(other.port))
    assert owner is not None
    assert (owner.process, owner.in_tree) == (None, None)
    assert owner.missed_ns is not None
    assert before <= owner.missed_ns <= time.time_ns()


def test_gone_and_seen_before(child: StartChild) -> None:
    """A socket that `poll` has seen is known by its inode after its process has ended."""
    theirs = child(WILDCARD_UDP6)
    owners = Owners(theirs.pid)
    assert owners.interval is not None
    kernel = owners._kernel
    assert kernel is not None
    inode = kernel.inode(17, Endpoint(LOOPBACK4, theirs.port), PEER)
    owners.poll()
    theirs.end()
    owner = owners.owner(asked(theirs.port, inode))
    assert owner is not None
    assert owner.process is not None
    assert owner.process.pid == theirs.pid


def test_gone_and_never_seen(child: StartChild) -> None:
    """Of a socket that is gone it is only known when the tree did not have it."""
    watched, other = child(WILDCARD_UDP6), child(WILDCARD_UDP6)
    owners = Owners(watched.pid)
    kernel = owners._kernel
    assert kernel is not None
    inode = kernel.inode(17, Endpoint(LOOPBACK4, other.port), PEER)
    other.end()
    owner = owners.owner(asked(other.port, inode))
    assert owner is not None
    assert (owner.process, owner.in_tree) == (None, None)
    assert owner.missed_ns is not None


def test_nobody(child: StartChild) -> None:
    """Without a socket there is no answer yet."""
    assert Owners(child(WILDCARD_UDP6).pid).owner(asked(1)) is None


def test_nothing_under_watch(child: StartChild) -> None:
    """Without a command everyone's sockets are looked at, and there is no tree to belong to."""
    theirs = child(WILDCARD_UDP6)
    owners = Owners()
    assert owners.interval is None
    owner = owners.owner(asked(theirs.port))
    assert owner is not None
    assert owner.process is not None
    assert (owner.process.pid, owner.in_tree) == (theirs.pid, None)


PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline(), end="", flush=True)
sys.stdin.read()
child.communicate()
"""
CHILD = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_a_child_of_the_command() -> None:
    """What a process under watch starts belongs to its tree."""
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as root:
        assert root.stdout is not None
        pid, port = map(int, root.stdout.readline().split())
        owner = Owners(root.pid).owner(asked(port))
        root.communicate()
    assert owner is not None
    assert owner.process is not None
    assert (owner.process.pid, owner.in_tree) == (pid, True)


def test_direct_answers() -> None:
    """Without a helper the answers are there when they are taken, each once."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", 0))
        local = Endpoint(LOOPBACK4, mine.getsockname()[1])
        owners = DirectOwners()
        owners.watch(os.getpid())
        owners.ask(17, local, PEER)
        (answer,) = owners.answers()
        assert answer.question.local == local
        assert answer.owner.process is not None
        assert answer.owner.process.pid == os.getpid()
        assert owners.answers() == []
