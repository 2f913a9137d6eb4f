from __future__ import annotations

import io

import pytest

from h3probe.capture import read_capture
from h3probe.errors import CaptureError
from h3probe.events import Frame, Unreadable
from tests.capture.build import Trickle, frames, pcap, record


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("magic", "fraction", "after_header", "after_record"),
    [
        (0xA1B2C3D4, 123_456, 0, 0),
        (0xA1B23C4D, 123_456_000, 0, 0),
        (0xA1B2CD34, 123_456, 0, 8),
        (0x1C0001AB, 123_456, 4, 0),
        (0x1C0001AC, 123_456_000, 4, 0),
    ],
    ids=["microseconds", "nanoseconds", "kuznetzov", "ixia-software", "ixia-hardware"],
)
def test_every_variant_in_both_byte_orders(
    order: str, magic: int, fraction: int, after_header: int, after_record: int
) -> None:
    """The magic number gives the byte order, the unit of time and the lengths of the headers."""
    more = b"\xee" * after_record
    packet = record(b"packet", 1_700_000_000, fraction, length=60, order=order, more=more)
    data = pcap(b"\xdd" * after_header, packet, packet, magic=magic, order=order, network=276)
    reader = read_capture(io.BytesIO(data))
    assert frames(reader) == [Frame(number, 1_700_000_000_123_456_000, 276, b"packet", 60) for number in (1, 2)]
    assert (reader.format, reader.link_types, reader.snaplens) == ("pcap", [276], [65535])
    assert (reader.truncated, reader.dropped, reader.compression) == (False, None, None)


def test_link_type_without_the_checksum_bits() -> None:
    """The upper half of the last word says that frames end in an FCS, and is no part of the link type."""
    assert read_capture(io.BytesIO(pcap(network=0x5400_0001))).link_types == [1]


def test_no_limit_is_no_snaplen() -> None:
    """A snaplen of 0 stands for no limit."""
    assert read_capture(io.BytesIO(pcap(snaplen=0))).snaplens == []


def test_a_length_on_the_wire_below_the_captured_one_is_raised() -> None:
    """`length` is never below the bytes that are there, whatever the file says."""
    (frame,) = frames(read_capture(io.BytesIO(pcap(record(b"packet", length=2)))))
    assert (frame.data, frame.length) == (b"packet", 6)


def test_old_files_have_the_lengths_the_other_way_round() -> None:
    """Before version 2.4 the length on the wire stands first."""
    swapped = bytearray(record(b"packet", length=60))
    swapped[8:12], swapped[12:16] = swapped[12:16], swapped[8:12]
    first, second = frames(read_capture(io.BytesIO(pcap(bytes(swapped), bytes(swapped), minor=3))))
    assert (first.data, first.length) == (second.data, second.length) == (b"packet", 60)


def test_a_packet_is_there_as_soon_as_its_bytes_are() -> None:
    """Neither the header nor a packet waits for a byte more than it has."""
    packet = record(b"packet")
    reader = read_capture(Trickle(pcap(), packet[:10], packet[10:18], packet[18:], packet))  # type: ignore[arg-type]
    assert reader.link_types == [1]
    for number in (1, 2):
        assert next(reader) == Frame(number, 1_000_000_000, 1, b"packet", 6)


@pytest.mark.parametrize("cut", [1, 6, 7, 21])
def test_a_cut_in_mid_packet_is_told(cut: int) -> None:
    """Whole packets come out, then one event that says where the file stops."""
    data = pcap(record(b"packet"), record(b"packet"))[:-cut]
    reader = read_capture(io.BytesIO(data), name="x.pcap")
    events = list(reader)
    assert events == [
        Frame(1, 1_000_000_000, 1, b"packet", 6),
        Unreadable(f"x.pcap ends in the middle of a packet, {22 - cut} bytes after byte 46"),
    ]
    assert reader.truncated


def test_an_absurd_length_ends_the_reading() -> None:
    """A packet larger than any that libpcap writes is damage, and nothing after it can be found."""
    absurd = bytearray(record(b"packet"))
    absurd[8:12] = (262_145).to_bytes(4, "little")
    reader = read_capture(io.BytesIO(pcap(record(b"1"), bytes(absurd), bytes(300_000))), name="x.pcap")
    first, second = reader
    assert isinstance(first, Frame)
    assert second == Unreadable("x.pcap is damaged: packet 2, at byte 41, says that it has 262145 bytes", damaged=True)
    assert reader.truncated


def test_a_length_within_the_snaplen_of_the_file_is_believed() -> None:
    """Packets over 256 KiB exist on USB and D-Bus, where the file's snaplen allows for them."""
    (frame,) = frames(read_capture(io.BytesIO(pcap(record(bytes(300_000)), snaplen=1 << 20))))
    assert len(frame.data) == 300_000


def test_four_gigabytes_claimed_are_not_read() -> None:
    """A hostile length costs neither memory nor time, even where the snaplen allows it and bytes keep coming."""
    absurd = bytearray(record(b"packet"))
    absurd[8:12] = absurd[12:16] = b"\xff\xff\xff\xff"
    stream = Trickle(pcap(bytes(absurd), snaplen=0xFFFFFFFF), *[bytes(100_000)] * 1000)
    (event,) = read_capture(stream)  # type: ignore[arg-type]
    assert isinstance(event, Unreadable)
    assert stream.given < 1_000_000


def test_two_files_in_one_are_told() -> None:
    """`cat a.pcap b.pcap` is no capture; what comes before the second header is."""
    reader = read_capture(io.BytesIO(pcap(record(b"1")) + pcap(record(b"2"))), name="both")
    first, second = reader
    assert isinstance(first, Frame)
    reason = "both: another pcap file begins at byte 41; give it as a file of its own"
    assert second == Unreadable(reason, damaged=True)


@pytest.mark.parametrize("cut", [1, 18])
def test_a_cut_header_is_an_error(cut: int) -> None:
    """There is nothing to report of a file without a whole header."""
    with pytest.raises(CaptureError, match=r"^x\.pcap is a pcap file cut off within its header: nothing in it"):
        read_capture(io.BytesIO(pcap()[:-cut]), name="x.pcap")


def test_a_cut_ixia_header_is_an_error() -> None:
    """Ixia's header is four bytes longer."""
    with pytest.raises(CaptureError, match="cut off within its header"):
        read_capture(io.BytesIO(pcap(magic=0x1C0001AC)))
