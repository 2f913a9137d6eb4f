from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.vantage import datagrams
from h3probe.vantage.datagrams import OneByOne

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.vantage.recvmmsg import Receiver
    from h3probe.vantage.targets import SocketAddress

    type Any = OneByOne | Receiver

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="trains are Linux's")
LOOPBACK = "127.0.0.1"
GRO = 104


@pytest.fixture(params=["one by one", "most at once"])
def receiver(request: pytest.FixtureRequest) -> Any:
    """Each of the two ways to receive."""
    return OneByOne() if request.param == "one by one" else datagrams.receiver()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two prepared sockets that are connected to each other."""
    with ExitStack() as stack:
        one, other = (stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2))
        for udp in (one, other):
            udp.setblocking(False)
            udp.bind((LOOPBACK, 0))
            datagrams.prepare(udp)
        one.connect(other.getsockname())
        other.connect(one.getsockname())
        yield one, other


def everything(receiver: Any, udp: socket.socket) -> list[bytes]:
    """All that waits, as copies."""
    received: list[bytes] = []
    while True:
        try:
            received += [bytes(datagram) for datagram in receiver.receive(udp)]
        except BlockingIOError:
            return received


def of_sizes(*sizes: int) -> list[bytes]:
    """Datagrams of random bytes."""
    return [os.urandom(size) for size in sizes]


SIZES = {
    "one": [1200],
    "empty": [0],
    "train": [1200] * 40,
    "shorter last": [1200] * 20 + [77],
    "longer last": [1200] * 20 + [1201],
    "shorter in the middle": [1200, 1200, 300, 1200, 1200],
    "empty in the middle": [1200, 0, 0, 1200],
    "growing": list(range(1, 40)),
    "more than one train": [1400] * 130,
    "more bytes than one train": [16_000] * 9,
    "largest": [65_507, 65_507],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_exactly_the_same(sizes: list[int], pair: tuple[socket.socket, socket.socket], receiver: Any) -> None:
    """Datagrams of any sizes arrive as they were sent, whatever the kernel joined on the way."""
    sent = of_sizes(*sizes)
    assert datagrams.send(pair[0], sent) == sent
    assert everything(receiver, pair[1]) == sent


@on_linux
def test_aggregate_with_a_shorter_last_one(pair: tuple[socket.socket, socket.socket], receiver: Any) -> None:
    """What another program has sent as one train is one message to the kernel, and its datagrams here."""
    sent = of_sizes(*[1200] * 20, 77)
    pair[0].sendmsg(sent, [(socket.IPPROTO_UDP, 103, (1200).to_bytes(2, sys.byteorder))])
    received, address = datagrams.receive(pair[1])
    assert [bytes(datagram) for datagram in received] == sent
    assert address == pair[0].getsockname()
    pair[0].sendmsg(sent, [(socket.IPPROTO_UDP, 103, (1200).to_bytes(2, sys.byteorder))])
    assert everything(receiver, pair[1]) == sent


@on_linux
def test_train_leaves_as_one(pair: tuple[socket.socket, socket.socket]) -> None:
    """What can leave as one train does."""
    sent = of_sizes(*[1200] * 20, 77)
    datagrams.send(pair[0], sent)
    assert len(pair[1].recv(65535)) == 20 * 1200 + 77


def test_without_trains(
    pair: tuple[socket.socket, socket.socket], receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a platform without trains each datagram leaves for itself."""
    monkeypatch.setattr(datagrams, "_IS_LINUX", False)
    sent = of_sizes(*[1200] * 20, 77)
    assert datagrams.send(pair[0], sent) == sent
    assert everything(receiver, pair[1]) == sent


@on_linux
def test_train_that_the_kernel_refuses(
    pair: tuple[socket.socket, socket.socket], receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a train is refused, its datagrams leave one by one."""
    monkeypatch.setattr(datagrams, "_UDP_SEGMENT", 9999)
    sent = of_sizes(*[1200] * 20, 77)
    assert datagrams.send(pair[0], sent) == sent
    assert everything(receiver, pair[1]) == sent


def test_those_that_left(pair: tuple[socket.socket, socket.socket], receiver: Any) -> None:
    """Only the datagrams that no IPv4 packet can hold are missing from what is given back, and from what arrives."""
    good = of_sizes(1200, 1200, 5)
    sent = [bytes(65_520), *good[:2], bytes(65_520), good[2]]
    assert datagrams.send(pair[0], sent) == good
    assert everything(receiver, pair[1]) == good


def test_to_an_address(pair: tuple[socket.socket, socket.socket]) -> None:
    """A socket that is not connected sends to an address, and is told the sender's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((LOOPBACK, 0))
        pair[1].connect(udp.getsockname())
        sent = of_sizes(1200, 1200, 5)
        assert datagrams.send(udp, sent, pair[1].getsockname()) == sent
        received: list[bytes] = []
        address: SocketAddress = ()
        while len(received) < 3:
            some, address = datagrams.receive(pair[1])
            received += [bytes(datagram) for datagram in some]
        assert received == sent
        assert address == udp.getsockname()


@on_linux
def test_refused(receiver: Any) -> None:
    """A closed port is told to whoever sends or receives next."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as question:
        question.bind((LOOPBACK, 0))
        closed = question.getsockname()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setblocking(False)
        udp.connect(closed)
        datagrams.send(udp, [b"anyone?"])
        with pytest.raises(ConnectionRefusedError):
            receiver.receive(udp)
        datagrams.send(udp, [b"anyone?"])
        with pytest.raises(ConnectionRefusedError):
            datagrams.send(udp, of_sizes(1200, 1200))


@given(st.lists(st.sampled_from([0, 1, 2, 3, 1200, 60_000]), min_size=1, max_size=200))
def test_trains(sizes: list[int]) -> None:
    """Trains are the datagrams in order, none too long, and all of a train but its last of one size."""
    given_ = [bytes(size) for size in sizes]
    trains = [list(train) for train in datagrams._trains(given_)]
    assert [datagram for train in trains for datagram in train] == given_
    for train in trains:
        size = len(train[0])
        assert all(len(datagram) == size for datagram in train[:-1])
        assert len(train[-1]) <= size
        assert len(train) == 1 or (train[-1] and len(train) <= 64 and size * len(train) <= 65_487)


@on_linux
@settings(max_examples=50)
@given(st.binary(min_size=1, max_size=3000), st.integers(1, 1400))
def test_parted_by_size(content: bytes, size: int) -> None:
    """A train of any size is parted where its sender joined it."""
    parts = list(datagrams._parted(memoryview(content), size))
    assert b"".join(parts) == content
    assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
    assert 0 < len(parts[-1]) <= size
