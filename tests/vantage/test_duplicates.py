from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.vantage import synthesis
from h3probe.vantage.duplicates import WINDOW_NS, Duplicates, fingerprint

IPV4 = Endpoint(bytes([10, 0, 0, 1]), 40000), Endpoint(bytes([10, 0, 0, 2]), 443)
IPV6 = Endpoint(bytes(15) + b"\x01", 40000), Endpoint(bytes(15) + b"\x02", 443)
SEGMENT = synthesis.Segment(synthesis.ACK, 7, 9, b"x" * 200)
UDP4, UDP6 = synthesis.udp(*IPV4, b"y" * 200), synthesis.udp(*IPV6, b"y" * 200)
TCP4, TCP6 = synthesis.tcp(*IPV4, SEGMENT), synthesis.tcp(*IPV6, SEGMENT)


def replaced(packet: bytes, at: int, new: bytes) -> bytes:
    """The packet with other bytes in one place."""
    return packet[:at] + new + packet[at + len(new) :]


def shown(places: str) -> str:
    """Which of the showings of one packet, a letter each for the place, are kept."""
    table = Duplicates()
    return "".join(place for time, place in enumerate(places) if not table.seen(place, time, UDP4))


@pytest.mark.parametrize(
    ("places", "kept"),
    [
        ("a", "a"),
        ("ab", "a"),
        ("abc", "a"),
        ("aa", "aa"),
        ("abab", "aa"),
        ("aabb", "aa"),
        ("abb", "ab"),
        ("abcabcabc", "aaa"),
        ("abba", "ab"),
    ],
)
def test_sent_as_often_as_one_place_saw_it(places: str, kept: str) -> None:
    """A copy elsewhere is a duplicate; the same packet again in one place is a retransmission, in whatever order."""
    assert shown(places) == kept


@given(st.text("abc", min_size=1, max_size=40))
def test_kept_is_the_most_that_any_place_saw(places: str) -> None:
    """However the showings interleave, as many are kept as the place with the most of them had."""
    assert len(shown(places)) == max(places.count(place) for place in "abc")


def test_count() -> None:
    """Duplicates are counted."""
    table = Duplicates()
    for place in "abc":
        table.seen(place, 0, TCP4)
    assert table.count == 2


def test_another_packet_is_none() -> None:
    """Packets that differ in their payload alone are two, wherever they are seen."""
    table = Duplicates()
    assert not table.seen("a", 0, UDP4)
    assert not table.seen("b", 1, synthesis.udp(*IPV4, b"z" * 200))


def test_forgotten_after_two_windows() -> None:
    """A packet is remembered for a window at least, and for two at most."""
    table = Duplicates()
    table.seen("a", 0, UDP4)
    assert table.seen("b", WINDOW_NS - 1, UDP4)
    table.seen("a", WINDOW_NS, UDP6)
    table.seen("a", 2 * WINDOW_NS, TCP4)
    assert not table.seen("b", 2 * WINDOW_NS, UDP4)


def test_nothing_old_survives_a_silence() -> None:
    """After a long silence, what came before it is not compared with."""
    table = Duplicates()
    table.seen("a", 0, UDP4)
    assert not table.seen("b", 50 * WINDOW_NS, UDP4)


def test_clock_set_back() -> None:
    """A clock that is set back neither stops the recognition nor breaks it."""
    table = Duplicates()
    table.seen("a", 10**18, UDP4)
    table.seen("a", 10, UDP6)
    assert table.seen("b", 11, UDP6)


def test_memory_is_bounded() -> None:
    """However many packets come within a window, no more than the limit are remembered."""
    table = Duplicates(limit=100)
    for number in range(1000):
        table.seen("a", number, number.to_bytes(4))
    assert len(table._young) + len(table._old) <= 100
    assert table.seen("b", 1000, (999).to_bytes(4))


@pytest.mark.parametrize(
    ("packet", "at", "new"),
    [
        (UDP4, 1, b"\x03"),  # ECN
        (UDP4, 8, b"\x01"),  # TTL
        (UDP4, 10, b"\xab\xcd"),  # header checksum
        (UDP4, 26, b"\xab\xcd"),  # UDP checksum
        (TCP4, 36, b"\xab\xcd"),  # TCP checksum
        (UDP6, 0, b"\x60\x3a\xbc\xde"),  # traffic class and flow label
        (UDP6, 7, b"\x01"),  # hop limit
        (UDP6, 46, b"\xab\xcd"),
        (TCP6, 56, b"\xab\xcd"),
    ],
)
def test_what_changes_on_the_way(packet: bytes, at: int, new: bytes) -> None:
    """Fields that routers and network cards write do not make it another packet."""
    assert fingerprint(replaced(packet, at, new)) == fingerprint(packet)


@pytest.mark.parametrize(
    ("packet", "at"),
    [(UDP4, 5), (UDP4, 12), (UDP4, 20), (UDP4, 40), (UDP4, -1), (TCP4, 24), (TCP4, 33), (UDP6, 23), (TCP6, -5)],
)
def test_what_makes_another_packet(packet: bytes, at: int) -> None:
    """Identification, addresses, ports, numbers, flags and payload do."""
    at %= len(packet)
    assert fingerprint(replaced(packet, at, bytes([packet[at] ^ 1]))) != fingerprint(packet)


def test_bare_acknowledgment_without_its_checksum() -> None:
    """A segment without payload is recognised too, although its checksum is among its last bytes."""
    bare = synthesis.tcp(*IPV4, synthesis.Segment(synthesis.ACK, 7, 9))
    assert fingerprint(replaced(bare, 36, b"\xab\xcd")) == fingerprint(bare)


def test_padding_is_no_difference() -> None:
    """What Ethernet appends to a short packet is not compared."""
    bare = synthesis.tcp(*IPV4, synthesis.Segment(synthesis.ACK, 7, 9))
    assert fingerprint(bare + bytes(6)) == fingerprint(bare)


def test_later_fragment_has_no_checksum() -> None:
    """In a later fragment the bytes where a checksum would be are payload."""
    fragment = replaced(UDP4, 6, b"\x00\x10")
    assert fingerprint(replaced(fragment, 26, b"\xab\xcd")) != fingerprint(fragment)


@given(st.binary(max_size=100))
def test_any_bytes_have_a_fingerprint(packet: bytes) -> None:
    """What is no IP packet is compared as it is, and nothing is raised."""
    assert fingerprint(packet) == fingerprint(bytes(packet))
