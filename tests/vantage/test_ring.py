from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING

import pytest

from h3probe.events import Frame
from h3probe.vantage.sniff import Sniffer
from tests.vantage.conftest import ip, needs_root

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

from h3probe.vantage.ring import LATENCY_S, RingSource

if TYPE_CHECKING:
    from h3probe.vantage.packets import Packet

pytestmark = [needs_root, pytest.mark.usefixtures("own_network")]


def ring(ports: list[int] | None = None) -> RingSource:
    """A ring over everything in this network, or these ports."""
    return RingSource(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)), ports=ports or [])


def send(payloads: list[bytes], port: int = 4433) -> None:
    """Send datagrams over loopback, to somebody, so that no ICMP comes back."""
    with socket.socket(type=socket.SOCK_DGRAM) as sender, socket.socket(type=socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", port))
        for payload in payloads:
            sender.sendto(payload, ("127.0.0.1", port))


def read(source: RingSource, count: int, *, timeout: float = 5.0) -> list[Packet]:
    """Read so many packets, with patience."""
    packets: list[Packet] = []
    deadline = time.monotonic() + timeout
    while len(packets) < count and time.monotonic() < deadline:
        packet = source.read()
        if packet is None:
            time.sleep(LATENCY_S)
        else:
            packets.append(packet)
    return packets


def test_packets_come_whole_in_order_and_once() -> None:
    """What is sent over loopback is read, byte for byte, with its time, its interface and its network header."""
    payloads = [bytes([number]) * (number * 7 + 1) for number in range(200)]
    source = ring()
    before = time.time_ns()
    send(payloads)
    packets = read(source, len(payloads))
    assert [packet.data[42:] for packet in packets] == payloads
    assert all(before <= packet.time_ns <= time.time_ns() for packet in packets)
    assert {(packet.interface, packet.network, packet.link_type) for packet in packets} == {("lo", 14, 1)}
    assert all(packet.length == len(packet.data) for packet in packets)
    source.close()


def test_every_block_is_used_again() -> None:
    """More than the ring holds passes through it, when it is read meanwhile."""
    source = ring()
    payload = bytes(60000)
    for _ in range(16):
        send([payload] * 64)
        assert len(read(source, 64)) == 64
    assert source.statistics()[1] == 0
    source.close()


def test_what_finds_no_room_is_counted() -> None:
    """Packets beyond the ring are dropped by the kernel, counted, and those within are read."""
    source = ring()
    send([bytes(60000)] * 700)
    received, dropped = source.statistics()
    assert dropped > 0
    packets = read(source, received - dropped)
    assert len(packets) == received - dropped
    send([b"later"])
    assert read(source, 1)[0].data[42:] == b"later"
    source.close()


def test_ports_are_narrowed_to() -> None:
    """The filter keeps what was asked for."""
    source = ring(ports=[4433])
    send([b"other"], 9999)
    send([b"mine"])
    assert [packet.data[42:] for packet in read(source, 1)] == [b"mine"]
    source.close()


def test_what_came_before_is_not_given() -> None:
    """A socket that has queued packets already starts afresh."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    send([b"early"] * 10)
    source = RingSource(packets)
    send([b"late"])
    assert read(source, 1)[0].data[42:] == b"late"
    source.close()


def test_an_interface_without_link_layer_is_raw() -> None:
    """A TUN device's packets begin with the IP header."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"tun9", 0x1001))  # TUNSETIFF, IFF_TUN | IFF_NO_PI
    ip("addr", "add", "192.0.2.1/24", "dev", "tun9")
    ip("link", "set", "tun9", "up")
    source = ring()
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.sendto(b"raw", ("192.0.2.2", 4433))
    (packet,) = [packet for packet in read(source, 99, timeout=0.5) if packet.data[28:] == b"raw"]
    assert (packet.interface, packet.link_type, packet.network, packet.outgoing) == ("tun9", 101, 0, True)
    source.close()
    os.close(tun)


def test_the_sniffer_takes_it() -> None:
    """`Sniffer` reads frames from a source that it is given, and closes it."""
    with Sniffer(source=ring()) as sniffer:
        send([b"frame"])
        time.sleep(3 * LATENCY_S)
        (frame,) = sniffer.read()
        assert isinstance(frame, Frame)
        assert frame.data[42:] == b"frame"
