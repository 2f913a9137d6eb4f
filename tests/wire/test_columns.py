from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from h3probe.capture import blocks, read_capture
from h3probe.wire.columns import QUIC_SHORT, TCP_DATA, TCP_EMPTY, UDP_OTHER, flow_name, read_columns
from h3probe.wire.packet import FIN, RST, SYN, PacketDecoder, TcpSegment, UdpDatagram
from tests.run.mixes import mixes, pcap
from tests.wire.packets import SECOND, ethernet, ipv4, ipv6, tcp, udp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.events import Block

DNS = (53, 5353)
PACKETS = {
    "short header": (ethernet(ipv4(udp(b"\x41" + bytes(30)))), QUIC_SHORT),
    "long header": (ethernet(ipv4(udp(b"\xc1" + bytes(30)))), 0),
    "short header on another port": (ethernet(ipv4(udp(b"\x41" + bytes(30), 5000, 6000))), QUIC_SHORT | UDP_OTHER),
    "other UDP": (ethernet(ipv4(udp(b"\x00" + bytes(30), 5000, 6000))), UDP_OTHER),
    "gQUIC": (ethernet(ipv4(udp(b"\x09" + bytes(8) + b"Q043", 5000, 6000))), 0),
    "DNS": (ethernet(ipv4(udp(b"\x00" * 30, 5000, 53))), 0),
    "VXLAN": (ethernet(ipv4(udp(b"\x00" * 30, 5000, 4789))), 0),
    "segment": (ethernet(ipv4(tcp(b"\x17data"), 6)), TCP_DATA),
    "handshake record": (ethernet(ipv4(tcp(b"\x16data"), 6)), 0),
    "acknowledgement": (ethernet(ipv4(tcp(b"", flags=16), 6)), TCP_EMPTY),
    "FIN": (ethernet(ipv4(tcp(b"", flags=17), 6)), 0),
    "TCP options": (ethernet(ipv4(tcp(b"\x17data", options=bytes(12)), 6)), TCP_DATA),
    "IPv6": (ethernet(ipv6(tcp(b"\x17data"), 6), 0x86DD), TCP_DATA),
    "VLAN": (ethernet(b"\x00\x05\x08\x00" + ipv4(tcp(b"\x17data"), 6), 0x8100), TCP_DATA),
    "fragment": (ethernet(ipv4(tcp(b"\x17data"), 6, fragment=0x2000)), 0),
    "IP options": (ethernet(ipv4(tcp(b"\x17data"), 6, options=bytes(4))), 0),
    "ARP": (ethernet(bytes(46), 0x0806), 0),
}


def _blocks(data: bytes) -> Iterator[Block]:
    reader = read_capture(BytesIO(data))
    while True:
        block = reader.block()
        if block is not None:
            yield block
        elif next(reader, None) is None:
            return


@pytest.fixture(autouse=True)
def _any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block may be of one packet."""
    monkeypatch.setattr(blocks, "FEWEST", 1)


@pytest.mark.parametrize("name", PACKETS)
def test_a_packet_is_of_its_kind(name: str) -> None:
    """What opens, ends or may mean something has no kind."""
    data, kind = PACKETS[name]
    (block,) = _blocks(pcap([(SECOND, data, len(data))]))
    assert read_columns(block, DNS).kind.tolist() == [kind]


@settings(max_examples=40, deadline=None)
@given(mixes())
def test_columns_say_what_the_decoder_says(frames: list[tuple[int, bytes, int]]) -> None:
    """Of every frame that has a kind: the same flow, direction, size, sequence number and station."""
    for block in _blocks(pcap(frames)):
        columns = read_columns(block, DNS)
        decoder = PacketDecoder()
        stations: dict[int, bytes | None] = {0: None}
        for index in range(len(block)):
            fact = decoder.decode(block.frame(index))
            if not columns.kind[index]:
                continue
            assert isinstance(fact, UdpDatagram | TcpSegment)
            assert columns.keys[columns.group[index]] == flow_name(fact)
            low = min((end.host, end.port) for end in (fact.source, fact.destination))
            assert columns.upward[index] == ((fact.source.host, fact.source.port) == low != fact.destination)
            assert columns.size[index] == max(fact.length, len(fact.payload))
            assert stations.setdefault(int(columns.station[index]), fact.station) == fact.station
            if isinstance(fact, TcpSegment):
                assert columns.seq[index] == fact.seq
                assert not fact.flags & (SYN | FIN | RST)
