from __future__ import annotations

import struct
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from h3probe.capture import blocks, read_capture
from h3probe.wire.columns import read_columns
from h3probe.wire.ordinary import OrdinaryFrames
from h3probe.wire.packet import PacketDecoder
from tests.run.mixes import mixes, pcap
from tests.wire.packets import SECOND, ethernet, ipv4, ipv6, tcp, udp

if TYPE_CHECKING:
    from h3probe.wire.packet import Fact

DNS = (53, 5353)
SEGMENT = ipv4(tcp(b"\x17data", options=bytes(12)), 6)
STATION = b"\x02\0\0\0\0\x07"
PACKETS = {
    "Ethernet": (1, ethernet(SEGMENT)),
    "Ethernet, padded": (1, ethernet(ipv4(tcp(b"", flags=18), 6)) + bytes(12)),
    "VLAN": (1, ethernet(b"\x00\x05\x08\x00" + SEGMENT, 0x8100)),
    "IPv6": (1, ethernet(ipv6(tcp(b"\x17data", flags=24), 6), 0x86DD)),
    "UDP over IPv6": (1, ethernet(ipv6(udp(b"\xc1" + bytes(30))), 0x86DD)),
    "raw": (101, ipv4(udp(b"\x41" + bytes(30)))),
    "loopback": (0, b"\x02\0\0\0" + SEGMENT),
    "SLL": (113, struct.pack(">HHH8sH", 0, 1, 6, STATION, 0x0800) + SEGMENT),
    "SLL without an address": (113, struct.pack(">HHH8sH", 0, 772, 0, b"", 0x0800) + SEGMENT),
    "SLL2": (276, struct.pack(">HHIHBB8s", 0x0800, 0, 1, 1, 0, 6, STATION) + SEGMENT),
}
ODD_ADDRESS = struct.pack(">HHH8sH", 0, 1, 8, STATION + b"\0\1", 0x0800) + SEGMENT


@pytest.fixture(autouse=True)
def _any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block may be of one packet."""
    monkeypatch.setattr(blocks, "FEWEST", 1)


def _both(data: bytes) -> list[tuple[Fact | None, Fact | None]]:
    """Of each ordinary frame of a capture what the columns say, and what the decoder says."""
    reader, decoder = read_capture(BytesIO(data)), PacketDecoder()
    found: list[tuple[Fact | None, Fact | None]] = []
    while True:
        block = reader.block()
        if block is None:
            if next(reader, None) is None:
                return found
            continue
        columns = read_columns(block, DNS)
        ordinary = OrdinaryFrames(block, columns)
        for index, group in enumerate(columns.group.tolist()):
            decoded = decoder.decode(block.frame(index))
            if group >= 0:
                found.append((ordinary.fact(index, group), decoded))


@pytest.mark.parametrize("name", PACKETS)
def test_a_fact_is_the_decoders(name: str) -> None:
    """Whatever the link layer, columns make the same fact of a frame as the decoder."""
    link_type, data = PACKETS[name]
    for length in (len(data), len(data) + 9):
        ((fact, decoded),) = _both(pcap([(SECOND, data, length)], link_type))
        assert fact == decoded is not None


def test_an_odd_address_is_left_to_the_decoder() -> None:
    """Columns number link-layer addresses of unusual lengths, and do not tell what they are."""
    assert [fact for fact, _ in _both(pcap([(SECOND, ODD_ADDRESS, len(ODD_ADDRESS))], 113))] == [None]


@settings(max_examples=40, deadline=None)
@given(mixes())
def test_facts_are_the_decoders(frames: list[tuple[int, bytes, int]]) -> None:
    """Of whatever mix, cut or not, each ordinary frame's fact is what the decoder makes of it."""
    for fact, decoded in _both(pcap(frames)):
        assert fact == decoded is not None
