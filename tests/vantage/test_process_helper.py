from __future__ import annotations

import os
import select
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.events import Endpoint
from h3probe.vantage.privileges import User
from h3probe.vantage.process_helper import ProcessesHelper
from tests.vantage.conftest import needs_root
from tests.vantage.test_processes import LOOPBACK4, WILDCARD_UDP6

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vantage.conftest import StartChild

# Test runners have threads; h3probe itself forks before it has any.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

NOBODY = User(65534, 65534, "nobody")


@pytest.fixture
def helper() -> Iterator[ProcessesHelper]:
    """A helper that is ended after the test."""
    with ProcessesHelper() as started:
        yield started


def wait_for_answers(helper: ProcessesHelper) -> None:
    """Wait as a loop would."""
    assert select.select([helper], [], [], 10)[0]


def test_asks_and_answers(helper: ProcessesHelper, child: StartChild) -> None:
    """A question is answered by an event with the owner, the endpoint as it was asked, and the time."""
    theirs = child(WILDCARD_UDP6)
    before = time.time_ns()
    local = Endpoint(LOOPBACK4, theirs.port)
    helper.ask(17, local)
    helper.ask(17, local)
    wait_for_answers(helper)
    (answer,) = helper.answers()
    assert (answer.question.protocol, answer.question.local) == (17, local)
    assert answer.owner.process is not None
    assert answer.owner.process.pid == theirs.pid
    assert before <= answer.time_ns <= time.time_ns()
    assert helper.answers() == []


def test_waits_for_an_owner(helper: ProcessesHelper, child: StartChild) -> None:
    """Asked and waited for, the answer comes at once and leaves those to other questions in place."""
    first, second = child(WILDCARD_UDP6), child(WILDCARD_UDP6)
    helper.ask(17, Endpoint(LOOPBACK4, first.port))
    owner = helper.owner(17, Endpoint(LOOPBACK4, second.port), timeout=10)
    assert owner is not None
    assert owner.pid == second.pid
    owners = [answer.owner.process for answer in helper.answers()]
    assert {process.pid for process in owners if process is not None} == {first.pid, second.pid}


def test_asked_with_the_peer(helper: ProcessesHelper, child: StartChild) -> None:
    """A question may name the peer, which settles whose socket it is."""
    theirs = child("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 9))")
    local, remote = Endpoint(LOOPBACK4, theirs.port), Endpoint(LOOPBACK4, 9)
    owner = helper.owner(17, local, remote, timeout=10)
    assert owner is not None
    assert owner.pid == theirs.pid


def test_nobody(helper: ProcessesHelper) -> None:
    """A socket that nobody has is answered by nothing, and can be asked for again."""
    helper.ask(17, Endpoint(LOOPBACK4, 1))
    wait_for_answers(helper)
    assert helper.answers() == []
    assert helper.owner(17, Endpoint(LOOPBACK4, 1), timeout=0.01) is None
    assert helper.alive


def test_watches_a_command_without_being_asked(helper: ProcessesHelper, child: StartChild) -> None:
    """The command's sockets are looked at all the time, and known after its end."""
    theirs = child(WILDCARD_UDP6)
    helper.watch(theirs.pid)
    # Answered after the tree was looked at: questions are read in order.
    assert helper.owner(17, Endpoint(LOOPBACK4, theirs.port), timeout=10) is not None
    theirs.end()
    owner = helper.owner(17, Endpoint(LOOPBACK4, theirs.port), timeout=10)
    assert owner is not None
    assert owner.pid == theirs.pid


def test_ends_with_the_pair() -> None:
    """The helper ends, without an error, when the main process closes its end."""
    helper = ProcessesHelper()
    helper._socket.close()
    assert os.waitpid(helper._pid, 0)[1] == 0


def test_goes_on_without_a_helper(helper: ProcessesHelper) -> None:
    """A helper that was killed is noticed, and questions are answered by nothing."""
    os.kill(helper._pid, 9)
    os.waitpid(helper._pid, 0)
    assert helper.owner(17, Endpoint(LOOPBACK4, 1), timeout=10) is None
    assert not helper.alive
    helper.ask(17, Endpoint(LOOPBACK4, 2))
    assert helper.answers() == []


def test_has_none_of_the_open_files() -> None:
    """The helper keeps none of the files that were open, a packet socket among them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened, ProcessesHelper() as helper:
        opened.bind(("127.0.0.1", 0))
        assert helper.owner(17, Endpoint(LOOPBACK4, opened.getsockname()[1]), timeout=10) is not None
        inode = os.fstat(opened.fileno()).st_ino
        theirs = {path.readlink().name for path in Path(f"/proc/{helper._pid}/fd").iterdir()}
        assert f"socket:[{inode}]" not in theirs
        assert len([name for name in theirs if name.startswith("socket:")]) == 2  # the pair, and one to ask the kernel


@needs_root
def test_two_capabilities_are_enough(child: StartChild) -> None:
    """As another user, with two capabilities and no way to more, it still sees whose root's sockets are."""
    theirs = child(WILDCARD_UDP6)
    with ProcessesHelper(user=NOBODY) as helper:
        owner = helper.owner(17, Endpoint(LOOPBACK4, theirs.port), timeout=10)
        status = Path(f"/proc/{helper._pid}/status").read_text()
    assert owner is not None
    assert owner.pid == theirs.pid
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert set(fields["Uid"].split()) == {"65534"}
    assert set(fields["Gid"].split()) == {"65534"}
    assert fields["Groups"].split() == []
    assert {int(fields[name], 16) for name in ("CapPrm", "CapEff")} == {1 << 19 | 1 << 2}
    assert {int(fields[name], 16) for name in ("CapInh", "CapBnd", "CapAmb")} == {0}
    assert fields["NoNewPrivs"] == "1"
