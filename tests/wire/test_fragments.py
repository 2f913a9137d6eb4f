from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from h3probe.wire.fragments import MAX_AGE_NS, FragmentTable
from h3probe.wire.ip import IpPacket, parse_ipv4, parse_ipv6
from tests.wire.packets import SECOND, ipv4, ipv6

if TYPE_CHECKING:
    import random

PAYLOAD = bytes(range(250)) * 16


def _fragment4(begin: int, data: bytes, *, more: bool, identification: int = 1) -> tuple[IpPacket, bytes]:
    packet = ipv4(data, identification=identification, fragment=begin // 8 | (0x2000 if more else 0))
    return parse_ipv4(packet, 0, len(packet), len(packet)), packet


def _fragment6(begin: int, data: bytes, *, more: bool, protocol: int = 17) -> tuple[IpPacket, bytes]:
    packet = ipv6(struct.pack(">BBHI", protocol, 0, begin | more, 5) + data, 44)
    return parse_ipv6(packet, 0, len(packet), len(packet)), packet


def _pieces(size: int, payload: bytes = PAYLOAD) -> list[tuple[int, bytes, bool]]:
    return [(at, payload[at : at + size], at + size < len(payload)) for at in range(0, len(payload), size)]


@given(st.sampled_from([8, 16, 400, 1480, 2000]), st.randoms(use_true_random=False), st.booleans())
def test_any_order_with_duplicates(size: int, order: random.Random, is_ipv4: bool) -> None:  # noqa: FBT001 (drawn)
    """Fragments in any order, each of them twice, make the packet once and nothing else of it."""
    make = _fragment4 if is_ipv4 else _fragment6
    pieces = _pieces(size)
    order.shuffle(pieces)
    table = FragmentTable()
    results = []
    for index, (begin, data, more) in enumerate(pieces):
        copies = 2 if index < len(pieces) - 1 else 1
        results += [table.add(*make(begin, data, more=more), SECOND) for _ in range(copies)]
    whole = results.pop()
    assert whole is not None
    assert whole[0] == PAYLOAD
    assert whole[1][2:] == (17, 0, len(PAYLOAD), len(PAYLOAD), None)
    assert not any(results)
    assert (len(table), table.dropped) == (0, 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(1, 6), st.binary(min_size=1, max_size=1)), min_size=1, max_size=12
    )
)
def test_ipv4_first_wins(spans: list[tuple[int, int, bytes]]) -> None:
    """Where IPv4 fragments overlap, each byte is that of the first fragment that brought it."""
    table = FragmentTable()
    expected: list[bytes | None] = [None] * (20 * 8)
    for start, count, fill in spans:
        assert table.add(*_fragment4(start * 8, fill * (count * 8), more=True), SECOND) is None
        for at in range(start * 8, (start + count) * 8):
            expected[at] = expected[at] or fill
    table.add(*_fragment4(152, b"L" * 8, more=False), SECOND)
    expected[152:] = [b"L"] * 8
    whole = table.add(*_fragment4(0, b"z" * 152, more=True), SECOND)
    assert whole is not None
    assert whole[0] == b"".join(byte or b"z" for byte in expected)


def test_ipv6_overlap_discards_the_packet() -> None:
    """Overlapping IPv6 fragments make no packet, and neither do those that come later (RFC 5722)."""
    table = FragmentTable()
    table.add(*_fragment6(0, bytes(16), more=True), SECOND)
    assert table.add(*_fragment6(8, bytes(16), more=True), SECOND) is None
    assert table.add(*_fragment6(0, bytes(16), more=True), SECOND) is None
    assert table.add(*_fragment6(16, bytes(8), more=False), SECOND) is None
    assert table.dropped == 4


def test_ipv6_same_place_other_bytes_is_an_overlap() -> None:
    """Only an exact copy is a harmless duplicate."""
    table = FragmentTable()
    table.add(*_fragment6(0, bytes(16), more=True), SECOND)
    table.add(*_fragment6(0, b"x" * 16, more=True), SECOND)
    assert table.add(*_fragment6(16, bytes(8), more=False), SECOND) is None


def test_ipv6_protocol_is_the_first_fragment_s() -> None:
    """The next header of later fragments means nothing (RFC 8200, section 4.5)."""
    table = FragmentTable()
    table.add(*_fragment6(8, bytes(8), more=False, protocol=99), SECOND)
    whole = table.add(*_fragment6(0, bytes(8), more=True, protocol=6), SECOND)
    assert whole is not None
    assert whole[1].protocol == 6


def test_two_ends_discard_the_packet() -> None:
    """Two last fragments that end at different places, or data past the end, contradict each other."""
    for begin, more in ((8, False), (24, False), (32, True)):
        table = FragmentTable()
        table.add(*_fragment4(16, bytes(8), more=False), SECOND)
        table.add(*_fragment4(begin, bytes(8), more=more), SECOND)
        assert table.add(*_fragment4(0, bytes(16), more=True), SECOND) is None
        assert table.dropped == 3


def test_impossible_fragments_are_dropped() -> None:
    """Empty fragments, odd lengths before the last one, and an end beyond 65535 bytes take no place in the table."""
    table = FragmentTable()
    table.add(*_fragment4(0, b"", more=True), SECOND)
    table.add(*_fragment4(0, bytes(9), more=True), SECOND)
    table.add(*_fragment4(65528, bytes(16), more=False), SECOND)
    assert (len(table), table.dropped) == (0, 3)


def test_packets_of_others_are_kept_apart() -> None:
    """Fragments with another identification, protocol or address never complete a packet."""
    table = FragmentTable()
    table.add(*_fragment4(0, bytes(8), more=True), SECOND)
    assert table.add(*_fragment4(8, bytes(8), more=False, identification=2), SECOND) is None
    other = ipv4(bytes(8), 6, fragment=1)
    assert table.add(parse_ipv4(other, 0, 28, 28), other, SECOND) is None
    elsewhere = ipv4(bytes(8), fragment=1, source=b"\x0a\0\0\1")
    assert table.add(parse_ipv4(elsewhere, 0, 28, 28), elsewhere, SECOND) is None
    assert len(table) == 4


def test_age() -> None:
    """Fragments older than the limit by the packets' own time are given up and counted."""
    table = FragmentTable()
    table.add(*_fragment4(0, bytes(8), more=True), SECOND)
    assert table.add(*_fragment4(8, bytes(8), more=False), SECOND + MAX_AGE_NS + 1) is None
    assert table.dropped == 1


def test_bounded_count() -> None:
    """A flood of first fragments evicts the oldest, counted."""
    table = FragmentTable(max_datagrams=10)
    for identification in range(100):
        table.add(*_fragment4(0, bytes(8), more=True, identification=identification), SECOND)
    assert (len(table), table.dropped) == (10, 90)
    assert table.add(*_fragment4(8, bytes(8), more=False, identification=99), SECOND) is not None


def test_bounded_bytes() -> None:
    """The bytes that wait are bounded, tiny fragments counted with what they cost to keep."""
    table = FragmentTable(max_bytes=100_000)
    for identification in range(100):
        table.add(*_fragment4(0, bytes(8000), more=True, identification=identification), SECOND)
    assert len(table) == 12
    for begin in range(8, 8 * 2000, 16):
        table.add(*_fragment4(begin, bytes(8), more=True, identification=1000), SECOND)
    assert (len(table), table.dropped) == (1, 100 + 633)


def test_cut_fragments() -> None:
    """Fragments cut by a snaplen complete a packet that is known up to its first gap, and keeps its length."""
    table = FragmentTable()
    first, last = ipv4(b"a" * 1480, fragment=0x2000), ipv4(b"b" * 520, fragment=185)
    table.add(parse_ipv4(first[:120], 0, 120, 1500), first[:120], SECOND)
    whole = table.add(parse_ipv4(last[:120], 0, 120, 540), last[:120], SECOND)
    assert whole is not None
    assert whole[0] == b"a" * 100
    assert (whole[1].end, whole[1].length) == (100, 2000)


def test_whole_packet_passes_through() -> None:
    """A packet that is no fragment comes back as it is."""
    packet = ipv4(b"x")
    header = parse_ipv4(packet, 0, len(packet), len(packet))
    assert FragmentTable().add(header, packet, SECOND) == (packet, header)
