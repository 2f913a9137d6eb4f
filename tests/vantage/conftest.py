"""Networks of a test's own: nothing is seen there but what the test sends, and nothing leaves it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

EXPERIMENTAL = 0x88B5  # an EtherType that no filter here lets through

IS_ROOT = sys.platform == "linux" and os.geteuid() == 0

needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root on Linux, for AF_PACKET and network namespaces")


def ip(*arguments: str) -> None:
    """Run `ip` in the current network namespace."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def own_network() -> Iterator[None]:
    """A network namespace with nothing but a loopback interface that is up."""
    if not IS_ROOT or shutil.which("ip") is None:
        pytest.skip("needs root on Linux and `ip`, for a network namespace of its own")
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    os.unshare(os.CLONE_NEWNET)
    try:
        ip("link", "set", "lo", "up")
        yield
    finally:
        os.setns(before, os.CLONE_NEWNET)
        os.close(before)


class Wire:
    """A veth pair: what is put on `near` comes out at `far`."""

    near = "near0"
    far = "far0"

    def __init__(self) -> None:
        ip("link", "add", self.near, "type", "veth", "peer", "name", self.far)
        for name in (self.near, self.far):
            # Without addresses, and without the kernel's own neighbour discovery, the pair is silent.
            ip("link", "set", name, "addrgenmode", "none")
            ip("link", "set", name, "up")
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.bind((self.near, 0))
        self.wait_until_up()

    def wait_until_up(self) -> None:
        """Wait until what is sent arrives; an interface that is up takes a moment to carry anything."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EXPERIMENTAL)) as far:
            far.bind((self.far, EXPERIMENTAL))
            for _ in range(1000):
                with contextlib.suppress(OSError):
                    self.send(bytes(12) + EXPERIMENTAL.to_bytes(2) + bytes(46))
                if select.select([far], [], [], 0.01)[0]:
                    return
        pytest.fail("the veth pair carries nothing")

    def send(self, frame: bytes) -> None:
        """Put an Ethernet frame on the wire."""
        self._socket.send(frame)

    def close(self) -> None:
        """Close the sending socket; the pair goes with its namespace."""
        self._socket.close()


@pytest.fixture
def wire(own_network: None) -> Iterator[Wire]:  # noqa: ARG001 - it must exist before
    """A veth pair in a network of its own."""
    pair = Wire()
    yield pair
    pair.close()


# Opens a socket, prints its port, and lives until its standard input ends.
CHILD = """
import socket, sys
{code}
print(s.getsockname()[1], flush=True)
sys.stdin.read()
"""


class Child:
    """A child process with one socket."""

    def __init__(self, code: str) -> None:
        command = [sys.executable, "-c", CHILD.format(code=code)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    def end(self) -> None:
        """Let it end, and wait for that."""
        self.process.communicate()


StartChild = Callable[[str], Child]
"""Start a child that runs this code, in which `s` becomes its socket."""


@pytest.fixture
def child() -> Iterator[StartChild]:
    """Start children that are ended after the test."""
    started: list[Child] = []

    def start(code: str) -> Child:
        started.append(Child(code))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.end()
