from __future__ import annotations

import io
import struct

import pytest

from h3probe.capture import read_capture
from h3probe.errors import CaptureError
from h3probe.events import Dropped, Frame, Secrets, Unreadable
from tests.capture.build import Blocks, Trickle, frames

LITTLE, BIG = Blocks("<"), Blocks(">")
EPOCH_US = 1_700_000_000_123_456
EPOCH_NS = EPOCH_US * 1000


@pytest.mark.parametrize("b", [LITTLE, BIG], ids=["little", "big"])
def test_packets_in_both_byte_orders(b: Blocks) -> None:
    """Link type, name, time and lengths of an Enhanced Packet Block, with and without padding."""
    data = (
        b.section()
        + b.interface((2, b"eth0"), link_type=1, snaplen=128)
        + b.interface((2, b"any\0"), link_type=276)
        + b.packet(b"pack", EPOCH_US)
        + b.packet(b"packet", EPOCH_US + 1, interface=1, length=60)
    )
    reader = read_capture(io.BytesIO(data))
    assert frames(reader) == [
        Frame(1, EPOCH_NS, 1, b"pack", 4, "eth0"),
        Frame(2, EPOCH_NS + 1000, 276, b"packet", 60, "any"),
    ]
    assert (reader.format, reader.link_types, reader.snaplens) == ("pcapng", [1, 276], [128])
    assert (reader.truncated, reader.dropped) == (False, None)


def test_a_length_on_the_wire_below_the_captured_one_is_raised() -> None:
    """`length` is never below the bytes that are there, whatever the file says."""
    data = LITTLE.section() + LITTLE.interface() + LITTLE.packet(b"packet", length=2)
    (frame,) = frames(read_capture(io.BytesIO(data)))
    assert (frame.data, frame.length) == (b"packet", 6)


@pytest.mark.parametrize(
    ("options", "ticks", "time_ns"),
    [
        ([], 1_000_001, 1_000_001_000),
        ([(9, b"\x09")], 1_000_001, 1_000_001),
        ([(9, b"\x00")], 17, 17_000_000_000),
        ([(9, b"\x0c")], 1_999, 1),
        ([(9, b"\x8a")], 1024 + 512, 1_500_000_000),
        ([(9, b"\x80")], 3, 3_000_000_000),
        ([(14, struct.pack("<q", 1_000))], 1, 1_000_000_001_000),
        ([(14, struct.pack("<q", -1))], 1_000_001, 1_000),
        ([(9, b"\x09\x09"), (14, b"\x01")], 1, 1_000),
    ],
    ids=["default", "ns", "s", "ps", "2^-10", "2^-0", "offset", "negative-offset", "wrong-sizes"],
)
def test_resolution_and_offset_of_an_interface(options: list[tuple[int, bytes]], ticks: int, time_ns: int) -> None:
    """if_tsresol gives powers of ten and of two, microseconds where there is none; if_tsoffset is in seconds."""
    data = LITTLE.section() + LITTLE.interface(*options) + LITTLE.packet(b"", ticks)
    (frame,) = frames(read_capture(io.BytesIO(data)))
    assert frame.time_ns == time_ns


@pytest.mark.parametrize("offset", [-10, 2**62])
def test_times_beyond_what_a_calendar_holds(offset: int) -> None:
    """A time before 1970 or after 2262 is replaced by the one before, and that is said once."""
    b = LITTLE
    strange = b.packet(b"", 0, interface=1)
    data = b.section() + b.interface() + b.interface((14, b.pack("q", offset))) + b.packet(b"", 5) + strange + strange
    first, said, *rest = read_capture(io.BytesIO(data))
    assert isinstance(first, Frame)
    assert isinstance(said, Unreadable)
    assert "packet 2 has a time before 1970 or after 2262" in said.reason
    assert rest == [Frame(number, 5_000, 1, b"", 0) for number in (2, 3)]


def test_simple_packets() -> None:
    """They have the first interface, its snaplen, no padding, and the time of the packet before."""
    b = LITTLE
    data = (
        b.section()
        + b.interface(snaplen=6)
        + b.packet(b"1", 7)
        + b.block(3, b.pack("I", 5) + b"five!")
        + b.block(3, b.pack("I", 100) + b"cut at six"[:6])
    )
    assert frames(read_capture(io.BytesIO(data)))[1:] == [
        Frame(2, 7_000, 1, b"five!", 5),
        Frame(3, 7_000, 1, b"cut at", 100),
    ]


@pytest.mark.parametrize(("drops", "lost"), [(0, 0), (3, 3), (0xFFFF, 0)])
def test_obsolete_packet_blocks(drops: int, lost: int) -> None:
    """The Packet Block of before 2012 is read, and its drops are reported ahead of it; all ones is not known."""
    b = BIG
    body = b.pack("HHIIII", 0, drops, 0, 5, 3, 60) + b"abc\0" + b.options((1, b"old"))
    reader = read_capture(io.BytesIO(b.section() + b.interface() + b.block(2, body)))
    *before, frame = reader
    assert frame == Frame(1, 5_000, 1, b"abc", 60)
    assert [event.count for event in before if isinstance(event, Dropped)] == [lost] * bool(lost)
    assert reader.comments == [(1, "old")]


def test_sections_have_interfaces_and_byte_orders_of_their_own() -> None:
    """Files written one after the other are one file; packets are numbered on, interfaces start anew."""
    data = b"".join(
        b.section() + b.interface((2, name), link_type=link_type) + b.packet(name, 1)
        for b, name, link_type in ((LITTLE, b"one", 1), (BIG, b"two", 113), (LITTLE, b"three", 1))
    )
    reader = read_capture(io.BytesIO(data))
    assert [(f.number, f.interface, f.link_type) for f in frames(reader)] == [
        (1, "one", 1),
        (2, "two", 113),
        (3, "three", 1),
    ]
    assert reader.link_types == [1, 113]


def test_other_blocks_are_skipped() -> None:
    """Names, journals, custom blocks and types still to come do not disturb, whatever they hold."""
    b = LITTLE
    others = b"".join(b.block(kind, b"\xff" * 20) for kind in (4, 7, 8, 9, 0xBAD, 0x40000BAD, 0x80000001, 0x7777))
    data = b.section() + others + b.interface() + others + b.packet(b"1") + others
    assert len(frames(read_capture(io.BytesIO(data)))) == 1


def test_comments_wherever_they_stand() -> None:
    """Comments on the file and on interfaces have number 0, those on packets the packet's; flags are passed over."""
    b = LITTLE
    data = (
        b.section((4, b"dumpcap"), (1, b"file"))
        + b.interface((2, b"eth0"), (1, "schön".encode()))
        + b.packet(b"1")
        + b.packet(b"22222", 0, (2, b"\1\0\0\0"), (1, b"a"), (1, b"b\xff"))
    )
    reader = read_capture(io.BytesIO(data))
    assert len(frames(reader)) == 2
    assert reader.comments == [(0, "file"), (0, "schön"), (2, "a"), (2, "b\N{REPLACEMENT CHARACTER}")]


def test_drops_are_counted_once() -> None:
    """Counters since the start of the capture, written again and again, give what is new since the last time."""
    b = LITTLE
    data = (
        b.section()
        + b.interface((2, b"eth0"))
        + b.statistics((4, b.pack("Q", 9)))
        + b.statistics((5, b.pack("Q", 0)))
        + b.packet(b"1", 0, (4, b.pack("Q", 2)))
        + b.statistics((5, b.pack("Q", 3)), (7, b.pack("Q", 4)))
        + b.statistics((5, b.pack("Q", 3)), (7, b.pack("Q", 4)))
        + b.statistics((5, b.pack("Q", 2**64 - 1)))
    )
    reader = read_capture(io.BytesIO(data), name="x")
    before = [next(reader), next(reader)]
    assert before == [Dropped(2, "lost while x was recorded on eth0"), Frame(1, 0, 1, b"1", 1, "eth0")]
    assert list(reader) == [Dropped(5, "lost while x was recorded on eth0")]
    assert reader.dropped == 7


def test_no_drops_are_not_the_same_as_not_known() -> None:
    """`dropped` is 0 when a counter says so, None when none does."""
    b = LITTLE
    start = b.section() + b.interface()
    for block, dropped in ((b.statistics((5, bytes(8))), 0), (b.statistics((4, bytes(8))), None), (b"", None)):
        reader = read_capture(io.BytesIO(start + block))
        assert frames(reader) == []
        assert reader.dropped == dropped


def test_secrets_are_events() -> None:
    """A Decryption Secrets Block with a TLS key log is an event of its own, before the packets behind it."""
    b = BIG
    block = b.block(10, b.pack("II", 0x544C534B, 5) + b"keys\n")
    events = list(read_capture(io.BytesIO(b.section() + b.interface() + block + b.packet(b"packet"))))
    assert events[0] == Secrets(b"keys\n")
    assert isinstance(events[1], Frame)
    assert "keys" not in repr(events[0])


def test_other_secrets_are_passed_over() -> None:
    """Secrets of another protocol (SSH, WireGuard) are none of h3probe's business."""
    b = LITTLE
    block = b.block(10, b.pack("II", 0x5353484B, 5) + b"keys\n")
    assert list(read_capture(io.BytesIO(b.section() + block))) == []


def test_comments_are_bounded() -> None:
    """A file of nothing but empty comments fills no memory."""
    b = LITTLE
    reader = read_capture(io.BytesIO(b.section() + b.interface(*[(1, b"")] * 200_000)))
    assert frames(reader) == []
    assert len(reader.comments) < 200_000


def test_too_many_interfaces() -> None:
    """Interfaces of a section are bounded, and so are the link types that are listed."""
    b = LITTLE
    many = b"".join(b.interface(link_type=number & 0xFFFF) for number in range(65537))
    reader = read_capture(io.BytesIO(b.section() + many), name="x")
    assert list(reader) == [Unreadable("x: a section has more than 65536 interfaces")]
    assert reader.link_types == list(range(64))


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (LITTLE.packet(b"1", interface=1), "a block after packet 0 belongs to interface 1, which is not declared"),
        (LITTLE.statistics(interface=2), "a block after packet 0 belongs to interface 2, which is not declared"),
        (
            LITTLE.block(6, LITTLE.pack("IIIII", 0, 0, 0, 5, 5) + b"four"),
            "a packet of 5 bytes, after packet 0, overruns its block",
        ),
        (LITTLE.block(6, bytes(16)), "the block before byte 76 is too short for its type, 6"),
        (LITTLE.block(1, b""), "the block before byte 60 is too short for its type, 1"),
        (
            LITTLE.block(10, LITTLE.pack("II", 1, 9) + bytes(8)),
            "a block of secrets, after packet 0, is shorter than it says",
        ),
        (LITTLE.block(4, bytes(8), tail=8), "the block before byte 68 does not end with its length"),
    ],
    ids=["interface", "statistics", "overrun", "short-packet", "short-interface", "secrets", "tail"],
)
def test_a_bad_block_is_told_and_passed_over(block: bytes, reason: str) -> None:
    """One block that makes no sense costs that block alone."""
    b = LITTLE
    reader = read_capture(io.BytesIO(b.section() + b.interface() + block + b.packet(b"good")), name="x")
    assert list(reader) == [Unreadable(f"x: {reason}"), Frame(1, 0, 1, b"good", 4)]
    assert not reader.truncated


def test_simple_packet_without_an_interface() -> None:
    """A Simple Packet Block needs the first interface."""
    (event,) = read_capture(io.BytesIO(LITTLE.section() + LITTLE.block(3, bytes(8))), name="x")
    assert event == Unreadable("x: a block after packet 0 belongs to interface 0, which is not declared")


def test_two_wrong_ends_in_a_row_end_the_reading() -> None:
    """One wrong length at a block's end may be a slip; after the second the place is lost."""
    b = LITTLE
    wrong = b.block(4, bytes(8), tail=7)
    reader = read_capture(io.BytesIO(b.section() + b.interface() + wrong + wrong + b.packet(b"1")), name="x")
    _, last = reader
    assert last == Unreadable(
        "x is damaged: the block before byte 88 does not end with its length, nor does the one before it",
        damaged=True,
    )
    assert reader.truncated


@pytest.mark.parametrize("size", [0, 11, (16 << 20) + 1, 0xFFFFFFFF])
def test_an_absurd_block_length_ends_the_reading(size: int) -> None:
    """Neither a length that goes nowhere nor one of 4 GB is followed, however many bytes would come."""
    b = LITTLE
    start = b.section() + b.interface() + b.packet(b"1")
    stream = Trickle(start + b.pack("II", 6, size), *[bytes(100_000)] * 1000)
    reader = read_capture(stream, name="x")  # type: ignore[arg-type]
    frame, last = reader
    assert isinstance(frame, Frame)
    assert last == Unreadable(
        f"x is damaged: the block at byte {len(start)} says that it has {size} bytes", damaged=True
    )
    assert reader.truncated
    assert stream.given < 1_000_000


@pytest.mark.parametrize("cut", [1, 30, 35])
def test_a_cut_in_mid_block_is_told(cut: int) -> None:
    """Whole packets come out, then one event that says where the file stops."""
    b = LITTLE
    whole = b.section() + b.interface() + b.packet(b"1")
    reader = read_capture(io.BytesIO((whole + b.packet(b"2"))[:-cut]), name="x")
    frame, last = reader
    assert isinstance(frame, Frame)
    assert last == Unreadable(f"x ends in the middle of a block, {36 - cut} bytes after byte {len(whole)}")
    assert reader.truncated


def test_a_packet_is_there_as_soon_as_its_block_is() -> None:
    """Nothing waits for a byte more than its own block has."""
    b = LITTLE
    packet = b.packet(b"packet")
    reader = read_capture(Trickle(b.section(), b.interface(), packet[:5], packet[5:], packet))  # type: ignore[arg-type]
    for number in (1, 2):
        assert next(reader) == Frame(number, 0, 1, b"packet", 6)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (LITTLE.section()[:27], "is a pcapng file cut off within its header"),
        (LITTLE.section()[:8] + bytes(20), "its section header, at byte 0, has no byte-order magic"),
        (BIG.section(major=2), r"its section header, at byte 0, has the unknown version 2\.0"),
    ],
    ids=["cut", "byte-order", "version"],
)
def test_a_bad_first_section_header_is_an_error(data: bytes, message: str) -> None:
    """A file whose start makes no sense is no capture."""
    with pytest.raises(CaptureError, match=message):
        read_capture(io.BytesIO(data))


def test_a_bad_later_section_header_ends_the_reading() -> None:
    """What came before it is reported."""
    b = LITTLE
    first = b.section() + b.interface() + b.packet(b"1")
    for bad in (b.section(major=3), b.section()[:8] + bytes(20)):
        reader = read_capture(io.BytesIO(first + bad + b.packet(b"2")))
        frame, last = reader
        assert isinstance(frame, Frame)
        assert isinstance(last, Unreadable)
        assert reader.truncated
    reader = read_capture(io.BytesIO(first + b.section()[:20]))
    assert [type(event) for event in reader] == [Frame, Unreadable]


def test_options_that_overrun_their_block_end_there() -> None:
    """A damaged option hides those after it, and nothing else."""
    b = LITTLE
    packet = b.block(6, b.pack("IIIII", 0, 0, 0, 0, 0) + b.pack("HH", 1, 1) + b"a\0\0\0" + b.pack("HH", 1, 999))
    reader = read_capture(io.BytesIO(b.section() + b.interface() + packet))
    assert len(frames(reader)) == 1
    assert reader.comments == [(1, "a")]
