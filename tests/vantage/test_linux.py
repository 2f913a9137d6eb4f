from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.events import Endpoint
from h3probe.vantage.targets import endpoint
from tests.vantage.conftest import ip

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

from h3probe.vantage import linux
from h3probe.vantage.linux import SocketOwners, dont_fragment, socket_inodes

if TYPE_CHECKING:
    from tests.vantage.conftest import StartChild

LOOPBACK4 = bytes([127, 0, 0, 1])
LOOPBACK6 = bytes(15) + b"\x01"
ANYONE4, ANYONE6 = Endpoint(LOOPBACK4, 9), Endpoint(LOOPBACK6, 9)


def inode_of(opened: socket.socket) -> int:
    """A socket's inode, from the process that has it."""
    return os.fstat(opened.fileno()).st_ino


def test_unconnected_udp_socket_of_both_families() -> None:
    """A UDP socket bound to [::] is found by the IPv4 and the IPv6 datagrams that are for it."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as mine:
        mine.bind(("::", 0))
        port = mine.getsockname()[1]
        owners = SocketOwners()
        assert owners.inode(17, Endpoint(LOOPBACK4, port), ANYONE4) == inode_of(mine)
        assert owners.inode(17, Endpoint(LOOPBACK6, port), ANYONE6) == inode_of(mine)


def test_connected_udp_socket_is_found_by_its_peer() -> None:
    """Of two UDP sockets on one port, each is found by the peer whose datagrams it gets."""
    with socket.socket(type=socket.SOCK_DGRAM) as open_to_all, socket.socket(type=socket.SOCK_DGRAM) as connected:
        for each in (open_to_all, connected):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        open_to_all.bind(("127.0.0.1", 0))
        connected.bind(open_to_all.getsockname())
        connected.connect(("127.0.0.1", 9))
        local = endpoint(connected.getsockname())
        owners = SocketOwners()
        assert owners.inode(17, local, ANYONE4) == inode_of(connected)
        assert owners.inode(17, local, Endpoint(LOOPBACK4, 10)) == inode_of(open_to_all)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")])
def test_both_ends_of_a_tcp_connection(family: socket.AddressFamily, host: str) -> None:
    """Both ends of a TCP connection are found, over an IPv6 socket with a mapped address, too, as the JDK uses."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(family) as client:
        client.connect((host, server.getsockname()[1]))
        accepted, address = server.accept()
        with accepted:
            near, far = endpoint(address), endpoint(accepted.getsockname())
            owners = SocketOwners()
            assert owners.inode(6, near, far) == inode_of(client)
            assert owners.inode(6, far, near) == inode_of(accepted)
            assert owners.pid(6, near, far, first=[]) == os.getpid()


def test_no_such_socket() -> None:
    """A socket that is gone, or of another host, is nobody's, and the next question is answered as ever."""
    with socket.socket(type=socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", 0))
        local = endpoint(mine.getsockname())
    owners = SocketOwners()
    assert owners.inode(17, local, ANYONE4) is None
    assert owners.pid(17, local, ANYONE4, first=[os.getpid()]) is None
    assert owners.pid(6, Endpoint(bytes([192, 0, 2, 1]), 1), Endpoint(bytes([192, 0, 2, 2]), 2), first=[]) is None
    with socket.socket(type=socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", 0))
        assert owners.inode(17, endpoint(mine.getsockname()), ANYONE4) == inode_of(mine)


def test_closed_tcp_connection_is_nobodys() -> None:
    """A connection in TIME-WAIT has no owner any more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, address = server.accept()
        near, far = endpoint(address), endpoint(accepted.getsockname())
        client.close()
        accepted.recv(1)
        accepted.close()
    assert SocketOwners().inode(6, near, far) is None


def test_process_that_is_looked_at_first(child: StartChild, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner among the processes to look at first is found without a look at any other one."""
    theirs = child("s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 0))")
    looked_at: list[int] = []

    def looking(pid: int) -> list[int]:
        looked_at.append(pid)
        return socket_inodes(pid)

    monkeypatch.setattr(linux, "socket_inodes", looking)
    assert SocketOwners().pid(17, Endpoint(LOOPBACK4, theirs.port), ANYONE4, first=[theirs.pid]) == theirs.pid
    assert looked_at == [theirs.pid]


def test_process_among_all(child: StartChild) -> None:
    """Any other owner is found by looking at all processes."""
    theirs = child("s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 0))")
    assert SocketOwners().pid(17, Endpoint(LOOPBACK4, theirs.port), ANYONE4, first=[os.getpid()]) == theirs.pid


def test_process_that_is_gone_has_no_sockets() -> None:
    """A process that has ended has no sockets, and asking for them does no harm."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert socket_inodes(ended.pid) == []


@pytest.mark.usefixtures("own_network")
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_datagram_that_would_have_to_be_fragmented(family: socket.AddressFamily, host: str) -> None:
    """A datagram that is longer than the path carries is refused instead of fragmented."""
    ip("link", "set", "lo", "mtu", "1400")
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.sendto(bytes(2000), (host, 9))
        dont_fragment(udp)
        udp.sendto(bytes(1200), (host, 9))
        with pytest.raises(OSError, match="too long") as caught:
            udp.sendto(bytes(2000), (host, 9))
        assert caught.value.errno == errno.EMSGSIZE
