from __future__ import annotations

import select
import socket
import struct
import sys
import time

import pytest

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

from h3probe.vantage import ring, two_sockets
from h3probe.vantage.ring import packet_at
from h3probe.vantage.two_sockets import PacketSource

DATA = b"link-header...packet"
START = 82
TAGGED = 1 << 4 | 1 << 6


def slot(hardware: int = 1, network: int = 14, status: int = 0, tag: int = 0, kind: int = 0) -> memoryview:
    """A packet as the kernel puts it into a ring."""
    lengths = len(DATA), 99, status
    header = struct.pack("=IIIIIIHHIIH", 0, 5, 7, *lengths, START, START + network, 0, tag, 0x88A8).ljust(48, b"\0")
    address = struct.pack("=HHiHB", 17, 8, 3, hardware, kind)
    return memoryview(bytes(9) + (header + address).ljust(START, b"\0") + DATA + b"the next one")


@pytest.mark.parametrize(
    ("hardware", "network", "expected"),
    [
        (1, 14, (1, DATA, 14, 99)),
        (1, 200, (1, DATA, None, 99)),
        (1, -20, (1, DATA, None, 99)),
        (512, 0, (101, DATA, 0, 99)),
        (778, 200, (101, DATA, 0, 99)),
        (32, 14, (101, b"packet", 0, 85)),
    ],
)
def test_link_type(hardware: int, network: int, expected: tuple[int, bytes, int | None, int]) -> None:
    """Ethernet stays as it is, any other header is cut where the kernel says that it ends, and nonsense is not used."""
    packet = packet_at(slot(hardware, network), 9, "if{}".format)
    assert (packet.link_type, packet.data, packet.network, packet.length) == expected
    assert (packet.time_ns, packet.interface, packet.outgoing) == (5_000_000_007, "if3", False)


def test_a_tag_that_the_kernel_took_out() -> None:
    """A VLAN tag stands where it was on the wire."""
    packet = packet_at(slot(status=TAGGED, tag=5, kind=4), 9, str)
    assert packet.data == DATA[:12] + b"\x88\xa8\x00\x05" + DATA[12:]
    assert (packet.network, packet.length, packet.outgoing) == (18, 103, True)


@pytest.mark.usefixtures("own_network")
def test_room_is_made_before_all_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits can be taken over: more comes then than the ring has room for, in order, and nothing is lost."""
    monkeypatch.setattr(ring, "BLOCK_BYTES", 16384)
    monkeypatch.setattr(two_sockets, "NARROW_BLOCKS", (16,))
    source = PacketSource()
    with socket.socket(type=socket.SOCK_DGRAM) as there, socket.socket(type=socket.SOCK_DGRAM) as here:
        there.bind(("127.0.0.1", 0))
        for number in range(450):
            here.sendto(number.to_bytes(2) + bytes(998), there.getsockname())
            if number % 150 == 1:
                while (first := source.read()) is None:
                    assert select.select(source.sockets, [], [], 10)[0]
                assert first.data[42:44] == (number // 150 * 150 - number // 150 * 149).to_bytes(2)
            if number % 150 == 149:
                source.make_room()
        while source.statistics()[0] < 450:
            time.sleep(0.001)
        found: list[int] = []
        while len(found) < 447:
            packet = source.read()
            if packet is None:
                assert select.select(source.sockets, [], [], 10)[0]
            else:
                found.append(int.from_bytes(packet.data[42:44]))
    assert found == list(range(3, 450))
    assert source.statistics() == (450, 0)
    assert source.unread() == 0
    source.close()
