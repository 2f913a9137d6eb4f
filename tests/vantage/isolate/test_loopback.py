from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Block, ClientHelloSeen, ConnectionEnded, Endpoint, Frame
from h3probe.vantage import synthesis
from h3probe.vantage.isolate.addresses import PASTA
from h3probe.vantage.isolate.loopback import LOOPBACK4, LOOPBACK6, Loopback
from tests.blocks import in_a_block

CLIENT4, HOST4 = Endpoint(bytes([198, 18, 0, 2]), 40000), Endpoint(bytes([198, 18, 0, 9]), 4433)
CLIENT6 = Endpoint(bytes.fromhex("20010db8683300000000000000000002"), 40000)
HOST6 = Endpoint(bytes.fromhex("20010db8683300010000000000000009"), 4433)
ROUTER4 = Endpoint(bytes([198, 18, 0, 1]), 0)
ELSEWHERE = Endpoint(bytes([192, 0, 2, 1]), 443)
HERE4, THERE4 = Endpoint(LOOPBACK4, 40000), Endpoint(LOOPBACK4, 4433)
HERE6, THERE6 = Endpoint(LOOPBACK6, 40000), Endpoint(LOOPBACK6, 4433)
SEGMENT = synthesis.Segment(synthesis.PSH | synthesis.ACK, 7, 9, b"some odd bytes!")


def frame(packet: bytes) -> Frame:
    """An Ethernet frame around a packet."""
    ethertype = b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"
    return Frame(1, 5, 1, bytes(12) + ethertype + packet, len(packet) + 14, "eth0")


def translated(packet: bytes) -> bytes:
    """What becomes of a packet."""
    found = Loopback(PASTA)(frame(packet))
    assert isinstance(found, Frame)
    assert (found.number, found.time_ns, found.length) == (1, 5, len(packet) + 14)
    return found.data[14:]


@pytest.mark.parametrize(
    ("sent", "meant"),
    [((CLIENT4, HOST4), (HERE4, THERE4)), ((CLIENT6, HOST6), (HERE6, THERE6)), ((HOST4, CLIENT4), (THERE4, HERE4))],
)
def test_packets_are_as_the_command_sent_them(
    sent: tuple[Endpoint, Endpoint], meant: tuple[Endpoint, Endpoint]
) -> None:
    """Addresses and checksums are those of loopback, to the last byte, over both families and transports."""
    assert translated(synthesis.udp(*sent, b"payload")) == synthesis.udp(*meant, b"payload")
    assert translated(synthesis.tcp(*sent, SEGMENT)) == synthesis.tcp(*meant, SEGMENT)


@pytest.mark.parametrize(("sent", "meant"), [((CLIENT4, HOST4), (HERE4, THERE4)), ((CLIENT6, HOST6), (HERE6, THERE6))])
def test_icmp_errors_quote_what_the_command_sent(
    sent: tuple[Endpoint, Endpoint], meant: tuple[Endpoint, Endpoint]
) -> None:
    """A refusal from the host, and the packet it quotes, are loopback's as well."""
    refusal = synthesis.port_unreachable(sent[1], sent[0], synthesis.udp(*sent, b"initial"))
    expected = synthesis.port_unreachable(meant[1], meant[0], synthesis.udp(*meant, b"initial"))
    assert translated(refusal) == expected


def test_a_router_on_the_way_keeps_its_address() -> None:
    """Who refused is told as it was; what was refused is told as the command sent it."""
    refusal = translated(synthesis.port_unreachable(ROUTER4, CLIENT4, synthesis.udp(CLIENT4, HOST4, b"initial")))
    assert refusal[12:20] == ROUTER4.host + CLIENT4.host
    assert refusal[28:] == synthesis.udp(HERE4, THERE4, b"initial")[: len(refusal) - 28]


def test_other_packets_are_left_alone() -> None:
    """Whatever goes elsewhere is the very same object."""
    loopback = Loopback(PASTA)
    for packet in (synthesis.udp(CLIENT4, ELSEWHERE, HOST4.host), synthesis.tcp(HERE4, THERE4, SEGMENT)):
        event = frame(packet)
        assert loopback(event) == event


def test_a_block_is_translated_as_its_frames_are() -> None:
    """Addresses and checksums in a block are those that its frames would have, and strangers are left alone."""
    ends = [(CLIENT4, HOST4), (HOST4, CLIENT4), (CLIENT6, HOST6), (HOST6, CLIENT6), (CLIENT4, ELSEWHERE)]
    packets = [make for each in ends for make in (synthesis.udp(*each, b"payload"), synthesis.tcp(*each, SEGMENT))]
    packets += [packet[:26] + b"\0\0" + packet[28:] for packet in packets if packet[:1] == b"\x45" and packet[9] == 17]
    packets += [packet[:60] for packet in packets]
    loopback = Loopback(PASTA)
    found = loopback(in_a_block([frame(packet) for packet in packets]))
    assert isinstance(found, Block)
    for index, packet in enumerate(packets):
        alone = loopback(frame(packet))
        assert isinstance(alone, Frame)
        assert found.frame(index).data == alone.data


def test_what_the_proxy_reports_is_about_the_same_connection() -> None:
    """A report that names the host is translated, and so is what is reported of that connection later."""
    loopback = Loopback(PASTA)
    hello = ClientHelloSeen(1, "7", CLIENT4, HOST4, "tcp", None, "localhost", ("h2",), "ja4", ech=False)
    assert loopback(hello) == replace(hello, client=HERE4, proxy=THERE4)
    ended = ConnectionEnded(2, "7", CLIENT4, HOST4, "tcp", None, 1, 2, 0.1, "client")
    assert loopback(ended) == replace(ended, client=HERE4, proxy=THERE4)
    other = replace(hello, connection="8", proxy=ELSEWHERE)
    assert loopback(other) is other


@given(st.binary(max_size=200), st.sampled_from([1, 101, 113]))
def test_anything_may_come(data: bytes, link_type: int) -> None:
    """Hostile bytes with the host's address somewhere are translated or left, and never longer or shorter."""
    for host in (HOST4.host, HOST6.host):
        event = Frame(1, 5, link_type, data[:30] + host + data[30:], 300, "eth0")
        found = Loopback(PASTA)(event)
        assert isinstance(found, Frame)
        assert len(found.data) == len(event.data)


def test_a_datagram_without_a_checksum_keeps_none() -> None:
    """Zero means that the sender made none (RFC 768)."""
    packet = bytearray(synthesis.udp(CLIENT4, HOST4, b"x"))
    struct.pack_into("!H", packet, 26, 0)
    assert translated(bytes(packet))[26:28] == bytes(2)
