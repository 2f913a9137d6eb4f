from __future__ import annotations

import select
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from h3probe.events import Endpoint
from h3probe.vantage import bpf, synthesis
from h3probe.vantage.bulk import MOST
from h3probe.vantage.ordinary import NOTHING, Apart
from tests.vantage.bpf_machine import Seen, run

if TYPE_CHECKING:
    from tests.vantage.conftest import Wire

IPV4 = Endpoint(bytes([10, 0, 0, 1]), 40000), Endpoint(bytes([10, 0, 0, 2]), 443)
IPV6 = Endpoint(bytes(15) + b"\x01", 40000), Endpoint(bytes(15) + b"\x02", 443)
OTHER = Endpoint(bytes([10, 0, 0, 9]), 1), Endpoint(bytes([10, 0, 0, 8]), 2)


def ethernet(packet: bytes, ethertype: int | None = None) -> bytes:
    """A frame around an IP packet, or around anything with its EtherType."""
    if ethertype is None:
        ethertype = 0x0800 if packet[0] >> 4 == 4 else 0x86DD
    return b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + struct.pack("!H", ethertype) + packet


def with_protocol(packet: bytes, protocol: int) -> bytes:
    """The packet with another protocol (IPv4) or next header (IPv6)."""
    at = 9 if packet[0] >> 4 == 4 else 6
    return packet[:at] + bytes([protocol]) + packet[at + 1 :]


def between(ends: tuple[Endpoint, Endpoint], *, reverse: bool = False) -> bytes:
    """A datagram."""
    source, destination = reversed(ends) if reverse else ends
    return synthesis.udp(source, destination, b"payload")


UDP4, UDP6 = between(IPV4), between(IPV6)
LATER_FRAGMENT = UDP4[:6] + b"\x00\x10" + UDP4[8:20] + b"\0" * 16
WITH_OPTIONS = b"\x46" + UDP4[1:20] + b"\x01\x01\x01\x00" + UDP4[20:]
DNS4 = synthesis.udp(IPV4[0], Endpoint(OTHER[1].host, 53), b"question")
DNS6 = synthesis.udp(Endpoint(bytes(15) + b"\x09", 53), IPV6[0], b"answer")

LAST = ethernet(synthesis.port_unreachable(*OTHER, b""))  # passes every filter

READABLE = {
    "udp4": ethernet(UDP4),
    "udp6": ethernet(UDP6),
    "tcp4": ethernet(synthesis.tcp(*IPV4, synthesis.Segment(synthesis.SYN, 1, 0))),
    "tcp6": ethernet(synthesis.tcp(*IPV6, synthesis.Segment(synthesis.SYN, 1, 0))),
    "icmp": ethernet(synthesis.port_unreachable(*OTHER, UDP4)),
    "icmpv6": ethernet(synthesis.port_unreachable(IPV6[1], IPV6[0], UDP6)),
    "later fragment": ethernet(LATER_FRAGMENT),
    "gre": ethernet(with_protocol(UDP4, 47)),
    "6in4": ethernet(with_protocol(UDP4, 41)),
    "hop-by-hop": ethernet(with_protocol(UDP6, 0)),
    "fragment header": ethernet(with_protocol(UDP6, 44)),
    "vlan in vlan": ethernet(b"\x00\x05\x08\x00" + UDP4, 0x8100)[:12]
    + b"\x81\x00\x00\x07\x81\x00\x00\x05\x08\x00"
    + UDP4,
    "pppoe": ethernet(b"\x11\x00\x00\x01\x00\x20\x00\x21" + UDP4, 0x8864),
    "mpls": ethernet(b"\x00\x01\x01\x40" + UDP4, 0x8847),
}
UNREADABLE = {
    "arp": ethernet(b"\x00\x01\x08\x00\x06\x04\x00\x01" + bytes(20), 0x0806),
    "sctp": ethernet(with_protocol(UDP4, 132)),
    "esp6": ethernet(with_protocol(UDP6, 50)),
    "short": ethernet(UDP4[:9]),
}


def passed(wire: Wire, frames: dict[str, bytes], *, apart: Apart = NOTHING, **narrowing: object) -> set[str]:
    """Which of the frames, sent over a wire, come through a filter at its far end."""
    from h3probe.vantage.two_sockets import PacketSource  # noqa: PLC0415 - Linux only

    source = PacketSource(interfaces=[socket.if_nametoindex(wire.far)], **narrowing)  # type: ignore[arg-type]
    assert source.set_apart(apart)
    for frame in [*frames.values(), LAST]:
        wire.send(frame)
    seen: list[bytes] = []
    while not seen or seen[-1] != LAST:
        assert select.select(source.sockets, [], [], 10)[0]
        packet = source.read()
        assert packet is not None
        seen.append(packet.data)
    source.close()
    return {name for name, frame in frames.items() if frame in seen}


def test_everything_readable_passes(wire: Wire) -> None:
    """The kernel keeps TCP, UDP, ICMP and what may wrap them, over both families, and nothing else."""
    assert passed(wire, READABLE | UNREADABLE) == set(READABLE)


def test_ports_narrow_and_lose_no_explanation(wire: Wire) -> None:
    """With ports, other ports are left out; ICMP, DNS, fragments and anything wrapped still pass."""
    frames = {
        "to 443": ethernet(UDP4),
        "from 443": ethernet(between(IPV6, reverse=True)),
        "with options": ethernet(WITH_OPTIONS),
        "dns4": ethernet(DNS4),
        "dns6": ethernet(DNS6),
        "icmp": READABLE["icmp"],
        "icmpv6": READABLE["icmpv6"],
        "later fragment": ethernet(LATER_FRAGMENT),
        "gre": READABLE["gre"],
        "hop-by-hop": READABLE["hop-by-hop"],
    }
    left_out = {"other4": ethernet(between(OTHER)), "other6": ethernet(synthesis.udp(IPV6[0], IPV6[0], b""))}
    assert passed(wire, frames | left_out, ports=[443, 8443]) == set(frames)


def test_hosts_narrow_both_families(wire: Wire) -> None:
    """With hosts, their packets pass in both directions, and so do DNS and ICMP of others."""
    frames = {
        "to": ethernet(UDP4),
        "from": ethernet(between(IPV4, reverse=True)),
        "to6": ethernet(UDP6),
        "from6": ethernet(between(IPV6, reverse=True)),
        "dns6": ethernet(DNS6),
        "icmp": READABLE["icmp"],
    }
    left_out = {
        "other4": ethernet(between(OTHER)),
        "other6": ethernet(synthesis.udp(IPV6[0], Endpoint(bytes(14) + b"\x01\x02", 443), b"")),
    }
    assert passed(wire, frames | left_out, hosts=[IPV4[1].host, IPV6[1].host]) == set(frames)


def test_ports_and_hosts_both_apply(wire: Wire) -> None:
    """A packet must be of a host and of a port that were asked for, where both were."""
    frames = {
        "right": ethernet(UDP4),
        "port": ethernet(synthesis.udp(OTHER[0], Endpoint(OTHER[1].host, 443), b"")),
        "host": ethernet(synthesis.udp(IPV4[0], OTHER[1], b"")),
    }
    assert passed(wire, frames, ports=[443], hosts=[IPV4[1].host]) == {"right"}


def test_as_many_choices_as_are_narrowed_to(wire: Wire) -> None:
    """The longest program that is built is one that the kernel takes, and its last choices work."""
    ports = [*range(1000, 1023), 443]
    hosts = [bytes([192, 168, 0, n]) for n in range(22)] + [IPV4[1].host, IPV6[1].host]
    frames = {"right4": ethernet(UDP4), "right6": ethernet(UDP6), "other": ethernet(between(OTHER))}
    assert passed(wire, frames, ports=ports, hosts=hosts) == {"right4", "right6"}


def test_too_many_choices_narrow_nothing() -> None:
    """A program that would grow too long keeps everything instead of losing something."""
    everything = bpf.program()
    assert bpf.program(ports=range(1000), hosts=[bytes([1, 2, 3, n]) for n in range(200)]) == everything


def test_the_longest_programs(wire: Wire) -> None:
    """With as many flows, ports and hosts as there may be, the kernel still takes both of them."""
    ports, hosts = list(range(443, 443 + 24)), [bytes([10, 0, 0, number]) for number in range(1, 25)]
    flows = Apart(frozenset((443, 50_000 + number) for number in range(MOST)), everything=True)
    frames = {"wanted": ethernet(synthesis.udp(*IPV4, b"\xc0long header"))}
    assert passed(wire, frames, apart=flows, ports=ports, hosts=hosts) == {"wanted"}


@pytest.mark.parametrize("ends", [IPV4, IPV6])
def test_large_segments_are_cut_unless_they_begin_a_handshake(ends: tuple[Endpoint, Endpoint]) -> None:
    """An aggregate that is hardly anything but a transfer does not fill the ring; one that may decide is whole."""
    large = bpf.LARGE_SEGMENT
    segments = {
        payload: ethernet(synthesis.tcp(*ends, synthesis.Segment(synthesis.ACK, 1, 1, payload)))
        for payload in (bytes(60_000), b"\x16" + bytes(60_000), bytes(large - 200))
    }
    datagram = ethernet(synthesis.udp(*ends, b"\xc0" + bytes(60_000)))
    protocol = 0x86DD if ends is IPV6 else 0x0800

    def kept(frame: bytes, *, whole: bool = False) -> int:
        return run(bpf.program(whole=whole), Seen(frame, protocol=protocol))

    assert [kept(frame) for frame in segments.values()] == [bpf.KEPT_OF_LARGE, bpf.SNAPLEN, bpf.SNAPLEN]
    assert kept(datagram) == bpf.SNAPLEN
    assert {kept(frame, whole=True) for frame in (*segments.values(), datagram)} == {bpf.SNAPLEN}
