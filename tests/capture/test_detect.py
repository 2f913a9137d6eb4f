from __future__ import annotations

import gzip
import io
import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.capture import read_capture
from h3probe.errors import CaptureError
from h3probe.events import Dropped, Frame, Unreadable
from tests.capture.build import Blocks, Trickle, pcap, record

if TYPE_CHECKING:
    from h3probe.capture import CaptureReader

LITTLE, BIG = Blocks("<"), Blocks(">")


def pcapng(b: Blocks) -> bytes:
    """A file with a block of every kind."""
    return (
        b.section((1, b"comment"))
        + b.interface((2, b"eth0"), (9, b"\x09"), (14, bytes(8)))
        + b.interface((9, b"\x94"), link_type=113, snaplen=64)
        + b.packet(b"packet", 1, (1, b"comment"), (4, bytes(8)))
        + b.packet(b"packet", 1, interface=1)
        + b.block(2, b.pack("HHIIII", 0, 1, 0, 0, 4, 4) + b"pack")
        + b.block(3, b.pack("I", 4) + b"pack")
        + b.block(10, b.pack("II", 1, 4) + b"keys")
        + b.statistics((5, b.pack("Q", 7)))
        + b.block(0xBAD, bytes(8))
    )


SEEDS = [
    pcap(record(b"packet"), record(b"packet" * 10)),
    pcap(record(b"packet", order=">"), magic=0xA1B23C4D, order=">"),
    pcap(record(b"packet", more=bytes(8)), magic=0xA1B2CD34),
    pcapng(LITTLE),
    pcapng(BIG),
    pcapng(BIG) + pcapng(LITTLE),
    gzip.compress(pcapng(LITTLE)),
    b"\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00",
    b"\xfd7zXZ\x00",
    b"BZh9",
]


def holds(data: bytes) -> None:
    """Reads some bytes and checks what is promised for any bytes at all."""
    try:
        reader = read_capture(io.BytesIO(data), name="x")
    except CaptureError as error:
        message = str(error)
    else:
        message = "x "
        follows(reader)
    assert message.startswith("x ")
    assert "\n" not in message


def follows(reader: CaptureReader) -> None:
    """Checks every event of a reader."""
    number = 0
    for event in reader:
        match event:
            case Frame():
                number += 1
                assert event.number == number
                assert len(event.data) <= event.length
                assert 0 <= event.time_ns < 2**63
            case Dropped():
                assert event.count > 0
            case Unreadable():
                assert event.reason.startswith("x")


@given(st.sampled_from([seed[:n] for seed in SEEDS for n in (0, 4, 24, 28)]), st.binary(max_size=400))
def test_any_bytes_give_events_or_a_capture_error(start: bytes, rest: bytes) -> None:
    """Whatever follows whatever start: events or `CaptureError`, nothing else."""
    holds(start + rest)


@settings(max_examples=500)
@given(st.data())
def test_damaged_captures_give_events_or_a_capture_error(data: st.DataObject) -> None:
    """Bytes changed, removed and put in anywhere: events or `CaptureError`, nothing else."""
    capture = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(capture)))
        capture[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    holds(bytes(capture))


@given(st.sampled_from(SEEDS[:6]), st.data())
def test_how_the_bytes_arrive_makes_no_difference(capture: bytes, data: st.DataObject) -> None:
    """Read in pieces of any sizes, a capture gives the same as in one."""
    cuts = sorted({0, len(capture), *data.draw(st.lists(st.integers(1, len(capture) - 1)))})
    pieces = [capture[start:stop] for start, stop in itertools.pairwise(cuts)]
    assert list(read_capture(Trickle(*pieces, ends=True))) == list(read_capture(io.BytesIO(capture)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x is empty"),
        (b"\x7fELF\x02\x01\x01", "x is an ELF program, not a capture: h3probe reads pcap and pcapng"),
        (
            b"snoop\0\0\0\0\0\0\2",
            "x is a snoop capture (Solaris): h3probe reads pcap and pcapng (Wireshark's `editcap` converts it)",
        ),
        (b"hi", "x is text, not a capture: h3probe reads pcap and pcapng"),
        (b"\x80\x81\x82", "x is no capture: h3probe reads pcap and pcapng"),
    ],
)
def test_what_is_no_capture_is_refused_by_name(data: bytes, message: str) -> None:
    """One line, which says what it is where that can be told."""
    with pytest.raises(CaptureError) as caught:
        read_capture(io.BytesIO(data), name="x")
    assert str(caught.value) == message


def test_a_stream_that_cannot_be_read_is_an_error() -> None:
    """An I/O error at the start is reported as what it is."""

    class Broken(io.RawIOBase):
        def read(self, _size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(CaptureError, match=r"^x cannot be read: Input/output error$"):
        read_capture(Broken(), name="x")  # type: ignore[arg-type]


def test_an_io_error_later_ends_the_capture() -> None:
    """What was read before it is kept."""
    stream = Trickle(pcap(record(b"packet")))
    give = stream.read

    def read(size: int) -> bytes:
        if not stream.pieces:
            raise OSError(5, "Input/output error")
        return give(size)

    stream.read = read  # type: ignore[method-assign]
    reader = read_capture(stream, name="x")  # type: ignore[arg-type]
    frame, last = reader
    assert isinstance(frame, Frame)
    assert last == Unreadable("x could not be read past byte 46: Input/output error")
    assert reader.truncated


def test_the_reader_closes_its_stream() -> None:
    """A reader is a context manager."""
    stream = Trickle(pcap())
    with read_capture(stream):  # type: ignore[arg-type]
        assert not stream.closed
    assert stream.closed
