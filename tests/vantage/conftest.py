"""Networks of a test's own: nothing is seen there but what the test sends, and nothing leaves it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

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
