from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.vantage import bpf, synthesis
from h3probe.vantage.bulk import MOST
from h3probe.vantage.ordinary import HEADERS, SEGMENT, Apart, only_counts
from tests.vantage.bpf_machine import Seen, run
from tests.vantage.test_bpf import IPV4, IPV6, LATER_FRAGMENT, READABLE, UNREADABLE, WITH_OPTIONS, ethernet

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.vantage.conftest import Wire

if sys.byteorder != "little":
    pytest.skip("the machine reads programs as a little-endian kernel does", allow_module_level=True)

FLOW = frozenset({(443, 40000)})
TRANSFERS, ALL, BOTH = Apart(FLOW), Apart(everything=True), Apart(FLOW, everything=True)
MANY = Apart(frozenset((443, 50_000 + number) for number in range(MOST)), everything=True)
OTHER4 = Endpoint(IPV4[0].host, 40001), IPV4[1]


def tcp(payload: bytes, flags: int = synthesis.ACK, ends: tuple[Endpoint, Endpoint] = IPV4) -> bytes:
    """A segment in a frame."""
    return ethernet(synthesis.tcp(*ends, synthesis.Segment(flags, 1, 1, payload)))


def udp(payload: bytes, ends: tuple[Endpoint, Endpoint] = IPV4) -> bytes:
    """A datagram in a frame."""
    return ethernet(synthesis.udp(*ends, payload))


def record(kind: int, size: int, ends: tuple[Endpoint, Endpoint] = IPV4) -> bytes:
    """A TLS record that fills a segment."""
    return tcp(bytes([kind, 3, 3]) + size.to_bytes(2) + bytes(min(size, 1400)), ends=ends)


DECIDES = {
    "initial": udp(b"\xc0" + bytes(1200)),
    "handshake of a server": udp(b"\xe0" + bytes(50), (IPV4[1], IPV4[0])),
    "version negotiation": udp(b"\x80" + bytes(4)),
    "initial over IPv6": udp(b"\xc0" + bytes(1200), IPV6),
    "gQUIC": udp(b"\x0dQ043"),
    "no payload": udp(b""),
    "dns": udp(b"\0\1answer", (IPV4[0], Endpoint(IPV4[1].host, 53))),
    "mdns": udp(b"\0\1answer", (IPV4[0], Endpoint(IPV4[1].host, 5353))),
    "vxlan": udp(b"\x08" + bytes(60), (IPV4[0], Endpoint(IPV4[1].host, 4789))),
    "syn": tcp(b"", synthesis.SYN),
    "fin": tcp(b"", synthesis.FIN | synthesis.ACK),
    "fin with payload": tcp(bytes(900), synthesis.FIN | synthesis.ACK, IPV6),
    "reset": tcp(b"", synthesis.RST),
    "client hello": record(22, 1000),
    "change cipher spec": record(20, 1),
    "alert": record(21, 2, IPV6),
    "finished": record(23, 53),
    "finished over IPv6": record(23, 53, IPV6),
    "connect": tcp(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"),
    "connect-udp": tcp(b"GET /.well-known/masque/udp/example.org/443/ HTTP/1.1\r\n\r\n", ends=IPV6),
    "answer of a proxy": tcp(b"HTTP/1.1 200 Connection established\r\n\r\n"),
    "a part of a record's header": tcp(b"\x16\x03\x03"),
    "icmp": READABLE["icmp"],
    "icmpv6": READABLE["icmpv6"],
    "later fragment": ethernet(LATER_FRAGMENT),
    "first fragment": ethernet(synthesis.udp(*IPV4, b"\x41" + bytes(60))[:6] + b"\x20\0" + LATER_FRAGMENT[8:]),
    "options": ethernet(WITH_OPTIONS),
    "gre": READABLE["gre"],
    "vlan in vlan": READABLE["vlan in vlan"],
    "pppoe": READABLE["pppoe"],
    "hop-by-hop": READABLE["hop-by-hop"],
}
COUNTS = {
    "short header": udp(b"\x41" + bytes(1200)),
    "short header back": udp(b"\x7f" + bytes(30), (IPV4[1], IPV4[0])),
    "short header over IPv6": udp(b"\x40" + bytes(1200), IPV6),
    "something else over UDP": udp(b"\x00" + bytes(100)),
    "acknowledgement": tcp(b""),
    "acknowledgement over IPv6": tcp(b"", ends=IPV6),
    "the middle of a record": tcp(bytes(1400)),
    "a large record": record(23, 16_000),
    "a large record over IPv6": record(23, 16_000, IPV6),
}
JOINED = udp(b"\x41" + bytes(9000)), udp(b"\x41" + bytes(9000), OTHER4)


def kept(frame: bytes, apart: Apart, **narrowing: Collection[int]) -> tuple[int, int]:
    """Bytes that the narrow and the wide socket keep."""
    seen = Seen(frame, protocol=int.from_bytes(frame[12:14]))
    narrow, wide = (
        run(bpf.program(apart=apart, part=part, **narrowing), seen)  # type: ignore[arg-type]
        for part in ("narrow", "wide")
    )
    return narrow, wide


@pytest.mark.parametrize("apart", [TRANSFERS, ALL, BOTH])
@pytest.mark.parametrize("name", DECIDES)
def test_what_decides_is_never_left_apart(name: str, apart: Apart) -> None:
    """Whatever opens, ends or explains something comes to the narrow socket, whole, also of a transfer."""
    assert kept(DECIDES[name], apart) == (bpf.SNAPLEN, 0)


@pytest.mark.parametrize("apart", [TRANSFERS, ALL, BOTH])
@pytest.mark.parametrize("name", COUNTS)
def test_what_only_counts_is_cut(name: str, apart: Apart) -> None:
    """The inside of a transfer comes to the wide socket; a segment whole where its connection may be a new one."""
    narrow, wide = kept(COUNTS[name], apart)
    is_tcp = COUNTS[name][23] == 6 or COUNTS[name][20] == 6
    assert (narrow, wide) == (0, SEGMENT if is_tcp and not apart.flows else HEADERS)


@pytest.mark.parametrize("frame", [tcp(bytes(1400), ends=OTHER4), udp(b"\x41" + bytes(60), OTHER4)])
def test_other_flows_are_read_whole(frame: bytes) -> None:
    """As long as only transfers are left apart, a packet of another flow comes to the narrow socket."""
    assert kept(frame, TRANSFERS) == (bpf.SNAPLEN, 0)
    assert kept(frame, Apart()) == (bpf.SNAPLEN, 0)
    assert kept(frame, BOTH) == (0, SEGMENT if frame[23] == 6 else HEADERS)


def test_joined_datagrams_count_in_a_transfer_alone() -> None:
    """Datagrams that the kernel joined may hold a long header, unless a transfer goes on."""
    assert kept(JOINED[0], TRANSFERS) == kept(JOINED[0], BOTH) == (0, HEADERS)
    assert kept(JOINED[1], BOTH) == kept(JOINED[0], ALL) == (bpf.SNAPLEN, 0)


def test_what_was_not_asked_for_comes_to_neither() -> None:
    """Interfaces and ports narrow both programs, and what cannot be read passes none."""
    frame = COUNTS["short header"]
    assert kept(frame, ALL, ports=[443]) == kept(frame, ALL, interfaces=[1]) == (0, HEADERS)
    assert kept(frame, ALL, ports=[80]) == kept(frame, ALL, interfaces=[2]) == (0, 0)
    assert {kept(each, BOTH) for each in UNREADABLE.values()} == {(0, 0)}


def test_the_outgoing_copy_on_loopback_comes_to_neither() -> None:
    """Each packet of a loopback interface passes once."""
    for frame in (COUNTS["short header"], DECIDES["initial"]):
        seen = Seen(frame, hardware=772, direction=4)
        assert [run(bpf.program(apart=BOTH, part=part), seen) for part in ("narrow", "wide")] == [0, 0]


frames = st.one_of(
    st.sampled_from([*DECIDES.values(), *COUNTS.values(), *READABLE.values(), *JOINED]),
    st.binary(min_size=34, max_size=120),
)
changes = st.lists(st.tuples(st.integers(14, 90), st.integers(0, 255)), max_size=3)


@given(
    frames,
    changes,
    st.integers(34, 9100),
    st.sampled_from([TRANSFERS, ALL, BOTH, MANY]),
    st.sampled_from([1, 772, 512, 65534]),
)
@example(tcp(bytes(1400))[:54], [], 9100, BOTH, 1)
@example(udp(b"\x41"), [], 42, BOTH, 772)
def test_each_packet_comes_to_one_socket(
    frame: bytes, changed: list[tuple[int, int]], size: int, apart: Apart, hardware: int
) -> None:
    """Whatever the bytes are, a packet that would pass were nothing left apart passes one of the two, and not both."""
    data = bytearray(frame)
    for at, value in changed:
        data[at % len(data)] = value
    protocol = 0x86DD if data[14] >> 4 == 6 else 0x0800
    seen = Seen(bytes(data[:size]), protocol=protocol, hardware=hardware, network=0 if hardware == 65534 else 14)
    narrow, wide = (run(bpf.program(apart=apart, part=part), seen) for part in ("narrow", "wide"))
    alone = run(bpf.program(), seen)
    assert bool(narrow) + bool(wide) == bool(alone)
    if narrow:
        assert narrow == alone


@given(frames, changes, st.integers(34, 200))
def test_the_same_is_said_here(frame: bytes, changed: list[tuple[int, int]], size: int) -> None:
    """What waits when a flow becomes a transfer is judged as the filter judges what comes later."""
    data = bytearray(frame)
    for at, value in changed:
        data[at % len(data)] = value
    seen = Seen(bytes(data[:size]))
    ports = [int.from_bytes(data[at : at + 2]) for at in ((34, 36) if data[14] >> 4 == 4 else (54, 56))]
    apart = Apart(frozenset({(min(ports), max(ports))}))
    wide = run(bpf.program(apart=apart, part="wide"), seen)
    if wide or run(bpf.program(apart=apart), seen):
        assert only_counts(seen.data, 14) == bool(wide)


def test_the_kernel_agrees(wide_and_narrow: tuple[set[str], set[str]]) -> None:
    """The kernel takes both programs and runs them as the machine here does."""
    narrow, wide = wide_and_narrow
    assert (narrow, wide) == (set(DECIDES) - {"vlan in vlan"}, set(COUNTS))


@pytest.fixture
def wide_and_narrow(wire: Wire) -> tuple[set[str], set[str]]:
    """What of all frames comes to which socket of a real wire's far end."""
    import select  # noqa: PLC0415 - of this fixture alone
    import socket  # noqa: PLC0415 - the same

    from h3probe.vantage.two_sockets import PacketSource  # noqa: PLC0415 - Linux only

    source = PacketSource(interfaces=[socket.if_nametoindex(wire.far)])
    assert source.set_apart(BOTH)
    frames = {name: frame for name, frame in (DECIDES | COUNTS).items() if name != "vlan in vlan"}
    for frame in frames.values():
        wire.send(frame)
    assert source.wide is not None
    seen: list[set[bytes]] = []
    for ring, count in ((source.narrow, len(DECIDES) - 1), (source.wide, len(COUNTS))):
        found: list[bytes] = []
        while len(found) < count:
            assert select.select([ring.socket], [], [], 10)[0]
            packet = ring.read()
            if packet is not None:
                found.append(packet.data)
        assert ring.read() is None
        seen.append(set(found))
    source.close()
    narrow, wide = (
        {name for name, frame in frames.items() if any(frame.startswith(data) for data in found)} for found in seen
    )
    return narrow, wide
