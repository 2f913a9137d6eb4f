from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from h3probe.events import Endpoint, Frame
from h3probe.vantage import counting, synthesis
from h3probe.vantage.packets import Packet
from tests.vantage.test_bpf import IPV4, IPV6, ethernet

if TYPE_CHECKING:
    from collections.abc import Sequence

SHORT4, SHORT6 = synthesis.udp(*IPV4, b"\x41" + bytes(99)), synthesis.udp(*IPV6, b"\x41" + bytes(99))
BACK4 = synthesis.udp(IPV4[1], IPV4[0], b"\x41" + bytes(9))
ETHERNET, LOOPBACK, NONE = 1, 772, 65534
START = 82


def piece(*packets: tuple[bytes, int, int], second: int = 7) -> tuple[bytes, int]:
    """Packets (bytes, interface, hardware) as a ring's block has them, cut to 60 bytes."""
    made = b""
    for number, (data, interface, hardware) in enumerate(packets):
        room = (START + 60 + 15) // 16 * 16
        network = 0 if hardware == NONE else 14
        header = struct.pack("=IIIIIIHHIIH", room, second, number, 60, len(data), 0, START, START + network, 0, 0, 0)
        address = struct.pack("=HHiHB", 17, 8, interface, hardware, 0)
        heads = (header.ljust(48, b"\0") + address).ljust(START, b"\0")
        made += (heads + data[:60].ljust(60, b"\0")).ljust(room, b"\0")
    return made, len(packets)


def frames(found: counting.Counting) -> list[Frame]:
    """All frames of the blocks, in their order."""
    return [block.frame(index) for block in found.blocks for index in range(len(block))]


def test_blocks_of_a_ring() -> None:
    """Of each packet its bytes, its length, its time and its interface are there, over several pieces."""
    pieces = [
        piece((ethernet(SHORT4), 3, ETHERNET), (ethernet(SHORT6), 3, ETHERNET)),
        piece((ethernet(BACK4), 3, ETHERNET), second=8),
    ]
    found = counting.read_taken(pieces, "if{}".format)
    assert [block.link_type for block in found.blocks] == [1]
    assert frames(found) == [
        Frame(0, 7_000_000_000, 1, ethernet(SHORT4)[:60], len(ethernet(SHORT4)), "if3"),
        Frame(1, 7_000_000_001, 1, ethernet(SHORT6)[:60], len(ethernet(SHORT6)), "if3"),
        Frame(2, 8_000_000_000, 1, ethernet(BACK4)[:60].ljust(60, b"\0"), len(ethernet(BACK4)), "if3"),
    ]
    assert found.copies == 0
    assert counting.flows_in(found.blocks, [(443, 40000), (1, 2)]) == {
        (443, 40000): (3, sum(each.length for each in frames(found))),
        (1, 2): (0, 0),
    }


def test_an_interface_without_a_link_header() -> None:
    """Packets of a tunnel are RAW, and a block of their own."""
    pieces = [piece((SHORT4, 4, NONE), (ethernet(SHORT6), 3, ETHERNET), (SHORT4, 4, NONE))]
    found = counting.read_taken(pieces, "if{}".format)
    kinds = [(block.link_type, block.interface, len(block)) for block in found.blocks]
    assert kinds == [(1, "if3", 1), (101, "if4", 2)]
    assert frames(found)[1].data == SHORT4[:60]
    assert counting.flows_in(found.blocks, [(443, 40000)]) == {
        (443, 40000): (3, sum(each.length for each in frames(found)))
    }


@pytest.mark.parametrize("order", [(2, 5), (5, 2)])
def test_a_packet_on_two_interfaces_counts_once(order: Sequence[int]) -> None:
    """Of each flow that interface is taken that shows most of it: a bond shows more than each of its parts."""
    bond, part = order
    other = ethernet(synthesis.udp(Endpoint(IPV4[0].host, 50_000), IPV4[1], b"\x41" + bytes(99)))
    packets = [(ethernet(SHORT4), bond, ETHERNET), (ethernet(SHORT4), part, ETHERNET)] * 3
    packets += [(ethernet(BACK4), bond, ETHERNET), (other, part, ETHERNET)]
    found = counting.read_taken([piece(*packets)], str)
    assert {(block.interface, len(block)) for block in found.blocks} == {(str(bond), 4), (str(part), 1)}
    assert found.copies == 3


def test_packets_that_were_read_one_by_one() -> None:
    """They become blocks by their interfaces, cut to what is enough."""
    packets = [
        Packet(5, 1, ethernet(SHORT4), len(ethernet(SHORT4)), "eth0", 14, outgoing=False),
        Packet(6, 101, SHORT6, 9000, "tun0", 0, outgoing=True),
        Packet(7, 1, ethernet(BACK4), len(ethernet(BACK4)), "eth0", 14, outgoing=True),
    ]
    found = counting.gather(packets, 80)
    assert frames(found) == [
        Frame(0, 5, 1, ethernet(SHORT4)[:80], len(ethernet(SHORT4)), "eth0"),
        Frame(1, 7, 1, ethernet(BACK4), len(ethernet(BACK4)), "eth0"),
        Frame(0, 6, 101, SHORT6[:80], 9000, "tun0"),
    ]


def test_numbers() -> None:
    """Each block gets as many numbers as it has frames."""
    taken: list[int] = []

    def first(count: int) -> int:
        taken.append(count)
        return 100 * len(taken)

    found = counting.read_taken([piece((SHORT4, 4, NONE), (ethernet(SHORT6), 3, ETHERNET), (SHORT4, 4, NONE))], str)
    assert [block.first for block in counting.numbered(found.blocks, first)] == [100, 200]
    assert taken == [1, 2]
