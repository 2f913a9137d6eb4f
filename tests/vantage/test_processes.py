from __future__ import annotations

import os
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from h3probe.events import Endpoint
from h3probe.vantage.processes import Processes, packed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vantage.conftest import StartChild

LOOPBACK4 = bytes([127, 0, 0, 1])
LOOPBACK6 = bytes(15) + b"\x01"

WILDCARD_UDP6 = "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 0))"
WILDCARD_UDP4 = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 0))"


def owner_pid(processes: Processes, protocol: int, local: Endpoint) -> int | None:
    """The owner's number."""
    owner = processes.owner(protocol, local)
    return None if owner is None else owner.pid


def test_wildcard_ipv6_socket_owns_both_families(child: StartChild) -> None:
    """A UDP socket bound to [::], as the JDK's are, is found by the IPv4 and the IPv6 address it sends from."""
    theirs = child(WILDCARD_UDP6)
    processes = Processes()
    assert owner_pid(processes, 17, Endpoint(LOOPBACK4, theirs.port)) == theirs.pid
    assert owner_pid(processes, 17, Endpoint(LOOPBACK6, theirs.port)) == theirs.pid


def test_wildcard_ipv4_socket_owns_no_ipv6(child: StartChild) -> None:
    """A socket bound to 0.0.0.0 is found by IPv4 addresses alone."""
    theirs = child(WILDCARD_UDP4)
    processes = Processes()
    assert owner_pid(processes, 17, Endpoint(bytes([10, 1, 2, 3]), theirs.port)) == theirs.pid
    assert owner_pid(processes, 17, Endpoint(LOOPBACK6, theirs.port)) is None


def test_name_of_the_owner(child: StartChild) -> None:
    """The owner has its name."""
    theirs = child(WILDCARD_UDP6)
    owner = Processes().owner(17, Endpoint(LOOPBACK4, theirs.port))
    assert owner is not None
    assert owner.name.startswith("python")


@pytest.mark.skipif(sys.platform != "linux", reason="a process renames itself in another way there")
@pytest.mark.parametrize("root", [True, False])
def test_the_name_of_a_main_thread_is_nobodys(child: StartChild, *, root: bool) -> None:
    """Node calls its main thread so, and with it the process: the program's name says more."""
    theirs = child(f"{WILDCARD_UDP6}; open('/proc/self/comm', 'w').write('MainThread')")
    owner = Processes(theirs.pid if root else None).owner(17, Endpoint(LOOPBACK4, theirs.port))
    assert owner is not None
    assert owner.name.startswith("python")


@pytest.mark.skipif(sys.platform != "linux", reason="a process renames itself in another way there")
def test_name_without_control_characters(child: StartChild) -> None:
    """A name that a process has given itself is safe to print."""
    theirs = child(f"{WILDCARD_UDP6}; open('/proc/self/comm', 'w').write('\\x1b[31mred')")
    owner = Processes(theirs.pid).owner(17, Endpoint(LOOPBACK4, theirs.port))
    assert owner is not None
    assert owner.name == "?[31mred"


def test_v4_mapped_tcp_connection(child: StartChild) -> None:
    """A TCP connection over IPv4 by an IPv6 socket, as the JDK's are, is found by its IPv4 address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        theirs = child(
            f"s = socket.socket(socket.AF_INET6); s.setsockopt(41, 26, 0); s.connect(('::ffff:127.0.0.1', {port}))"
        )
        assert owner_pid(Processes(), 6, Endpoint(LOOPBACK4, theirs.port)) == theirs.pid


def test_protocols_are_told_apart(child: StartChild) -> None:
    """A UDP socket does not own the TCP port of the same number."""
    theirs = child(WILDCARD_UDP6)
    assert owner_pid(Processes(), 6, Endpoint(LOOPBACK4, theirs.port)) is None


def test_exact_address_beats_wildcard(child: StartChild) -> None:
    """Of two processes on one port, the one bound to the very address owns it, the other one the rest."""
    reuse = "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)"
    wildcard = child(
        f"s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); {reuse}; s.bind(('0.0.0.0', 0))",
    )
    exact = child(
        f"s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); {reuse}; s.bind(('127.0.0.1', {wildcard.port}))"
    )
    processes = Processes()
    assert owner_pid(processes, 17, Endpoint(LOOPBACK4, exact.port)) == exact.pid
    assert owner_pid(processes, 17, Endpoint(bytes([127, 0, 0, 2]), exact.port)) == wildcard.pid


def test_connected_beats_unconnected(child: StartChild) -> None:
    """Of two processes with the same address and port, the one with a peer owns it."""
    reuse = "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)"
    opened = f"s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); {reuse}"
    first = child(f"{opened}; s.bind(('127.0.0.1', 0))")
    connected = child(f"{opened}; s.bind(('127.0.0.1', {first.port})); s.connect(('127.0.0.1', 9))")
    third = child(f"{opened}; s.bind(('127.0.0.1', {first.port}))")
    assert third.port == connected.port
    assert owner_pid(Processes(), 17, Endpoint(LOOPBACK4, first.port)) == connected.pid


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be asked for one socket")
def test_peer_saves_a_look_at_everything(child: StartChild, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the peer is given, no table is read, whether there is an owner or not; and the answer is remembered."""
    monkeypatch.setattr("h3probe.vantage.processes._all_sockets", lambda _: pytest.fail("it looked at everything"))
    theirs = child("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 9))")
    processes = Processes()
    local = Endpoint(LOOPBACK4, theirs.port)
    assert processes.owner(17, local, Endpoint(bytes([192, 0, 2, 1]), 1)) is None
    owner = processes.owner(17, local, Endpoint(LOOPBACK4, 9))
    assert owner is not None
    assert owner.pid == theirs.pid
    theirs.end()
    assert processes.owner(17, local, Endpoint(LOOPBACK4, 9)) == owner


def test_process_that_is_gone_is_remembered(child: StartChild) -> None:
    """What a poll saw of a command is known after its end."""
    theirs = child(WILDCARD_UDP6)
    processes = Processes(theirs.pid)
    processes.poll()
    theirs.end()
    assert owner_pid(processes, 17, Endpoint(LOOPBACK4, theirs.port)) == theirs.pid


def test_grandchild_belongs_to_the_tree(child: StartChild) -> None:
    """A poll sees the sockets of what the command started, too."""
    grandchild = f"import socket, sys; {WILDCARD_UDP6}; print(s.getsockname()[1], flush=True); sys.stdin.read()"
    theirs = child(
        "import subprocess\n"
        f"p = subprocess.Popen([sys.executable, '-c', {grandchild!r}], stdout=subprocess.PIPE, text=True)\n"
        "port = int(p.stdout.readline())\n"
        "class s:\n"
        "    getsockname = staticmethod(lambda: (p.pid, port))\n"
        "print(p.pid, flush=True)\n"
        "sys.stdin.read()",
    )
    grandchild_pid = theirs.port  # the first line it printed
    processes = Processes(theirs.pid)
    assert set(processes.children_of(theirs.pid)) == {theirs.pid, grandchild_pid}
    processes.poll()
    assert {entry.process.pid for entries in processes._sockets.values() for entry in entries} == {grandchild_pid}


def test_socket_that_was_reopened_by_another_process(child: StartChild) -> None:
    """A port whose former owner is remembered belongs to the process that has it now."""
    former = child(WILDCARD_UDP6)
    processes = Processes(former.pid)
    processes.poll()
    former.end()
    later = child(f"s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', {former.port}))")
    for entries in processes._sockets.values():
        for entry in entries:
            entry.seen -= 60
    assert owner_pid(processes, 17, Endpoint(LOOPBACK4, former.port)) == later.pid


def test_nobody() -> None:
    """A socket that is not there has no owner."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    assert Processes().owner(17, Endpoint(LOOPBACK4, port)) is None


def test_own_socket() -> None:
    """This process's own sockets are found, without any privilege."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", 0))
        owner = Processes(os.getpid()).owner(17, Endpoint(LOOPBACK4, mine.getsockname()[1]))
    assert owner is not None
    assert owner.pid == os.getpid()


def test_full_scans_are_rationed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions in a row that nobody can answer do not cost a look at every process each."""
    scans = 0

    def nobody(_: str) -> Iterator[tuple[int, object]]:
        nonlocal scans
        scans += 1
        return iter(())

    monkeypatch.setattr("h3probe.vantage.processes._all_sockets", nobody)
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    processes = Processes()
    for port in range(1000):
        assert processes.owner(17, Endpoint(LOOPBACK4, port)) is None
    assert scans == 1
    monkeypatch.setattr("time.monotonic", lambda: 1000.06)
    processes.owner(17, Endpoint(LOOPBACK4, 1))
    assert scans == 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sockets there are, no more than the limit are remembered."""
    opened = [
        (os.getpid(), SimpleNamespace(type=socket.SOCK_DGRAM, laddr=("127.0.0.1", port), raddr=()))
        for port in range(1, 1001)
    ]
    monkeypatch.setattr("h3probe.vantage.processes._all_sockets", lambda _: iter(opened))
    processes = Processes(limit=100)
    assert owner_pid(processes, 17, Endpoint(LOOPBACK4, 1000)) == os.getpid()
    assert sum(map(len, processes._sockets.values())) == processes._count == 100


def test_command_that_is_gone_already() -> None:
    """A tree whose root does not exist is empty, and polling it does no harm."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    processes = Processes(ended.pid)
    processes.poll()
    assert processes.children_of(ended.pid) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", LOOPBACK4),
        ("::1", LOOPBACK6),
        ("::ffff:127.0.0.1", LOOPBACK4),
        ("fe80::1%eth0", bytes([0xFE, 0x80]) + bytes(13) + b"\x01"),
    ],
)
def test_packed(text: str, expected: bytes) -> None:
    """Addresses are packed as on the wire: v4-mapped ones as IPv4, without a scope."""
    assert packed(text) == expected
