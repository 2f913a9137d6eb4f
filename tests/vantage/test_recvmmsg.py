from __future__ import annotations

import socket
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("recvmmsg is Linux's", allow_module_level=True)

from h3probe.vantage.recvmmsg import Receiver


def test_more_than_one_call_holds() -> None:
    """A hundred datagrams come with two calls, in order, and then there is nothing."""
    receiver = Receiver()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        udp.setblocking(False)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        udp.bind(("127.0.0.1", 0))
        sender.connect(udp.getsockname())
        for number in range(100):
            sender.send(bytes([number]) * number)
        received = []
        for count in (64, 36):
            datagrams = receiver.receive(udp)
            assert len(datagrams) == count
            received += [bytes(datagram) for datagram in datagrams]
        assert received == [bytes([number]) * number for number in range(100)]
        with pytest.raises(BlockingIOError):
            receiver.receive(udp)
