from __future__ import annotations

import io
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.capture import PcapngWriter, read_capture
from h3probe.events import Dropped, Frame, Secrets
from tests.capture.build import frames

if TYPE_CHECKING:
    from pathlib import Path

TIME = 1_700_000_000_123_456_789
# A UDP datagram from port 5000 to port 6000 in IPv4, 29 bytes of it with link type 101 (RAW).
DATAGRAM = bytes.fromhex("4500001d000100004011 7cce 7f000001 7f000001 1388 1770 0009 0000 2a")
needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed: `apt-get install tshark` brings it"
)


class Calls(io.BytesIO):
    """Notes each call of `write`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Note the data, and keep it."""
        self.calls.append(data)
        return super().write(data)


@given(
    st.lists(
        st.builds(
            Frame,
            st.just(0),
            st.integers(0, 2**63 - 1),
            st.sampled_from([1, 113, 276]),
            st.binary(max_size=40),
            st.just(0),
            st.sampled_from([None, "lo", "eth0", "wlänge"]),
        ),
        max_size=6,
    ),
    st.one_of(st.none(), st.text(max_size=20)),
)
def test_what_is_written_is_read_back(written: list[Frame], comment: str | None) -> None:
    """Times to the nanosecond, lengths, link types, interfaces and comments survive."""
    expected = [
        Frame(number, f.time_ns, f.link_type, f.data, len(f.data) + number, f.interface)
        for number, f in enumerate(written, 1)
    ]
    stream = io.BytesIO()
    writer = PcapngWriter(stream, application="h3probe")
    for frame in expected:
        writer.packet(frame, comment=comment)
    stream.seek(0)
    reader = read_capture(stream)
    assert frames(reader) == expected
    assert reader.comments == ([(f.number, comment) for f in expected] if comment else [])


def test_each_block_is_one_write() -> None:
    """So a buffered file holds whole blocks after every flush, and a kill loses no half of one."""
    stream = Calls()
    writer = PcapngWriter(stream, application="h3probe", hardware="x86_64", os="Linux")
    writer.packet(Frame(1, TIME, 1, b"12345", 60, "lo"), comment="c")
    writer.packet(Frame(2, TIME, 1, b"1234567", 60, "lo"))
    writer.statistics(writer.interface("lo", 1), 2, 0)
    writer.secrets(b"key")
    types = [int.from_bytes(call[:4], "little") for call in stream.calls]
    assert types == [0x0A0D0D0A, 1, 6, 6, 5, 10]
    for call in stream.calls:
        assert len(call) % 4 == 0
        assert call[4:8] == call[-4:] == len(call).to_bytes(4, "little")


def test_an_interface_is_declared_once() -> None:
    """The same name and link type give the same number; another link type is another interface."""
    stream = Calls()
    writer = PcapngWriter(stream, application="h3probe")
    numbers = [writer.interface("lo", 1, 128), writer.interface("lo", 1), writer.interface("lo", 113)]
    assert numbers == [0, 0, 1]
    assert len(stream.calls) == 3
    stream.seek(0)
    reader = read_capture(stream)
    assert frames(reader) == []
    assert (reader.link_types, reader.snaplens) == ([1, 113], [128])


def test_coarser_clocks() -> None:
    """An interface may be declared with microseconds."""
    stream = io.BytesIO()
    writer = PcapngWriter(stream, application="h3probe")
    writer.interface("lo", 1, tsresol=6)
    writer.packet(Frame(1, TIME, 1, b"", 0, "lo"))
    stream.seek(0)
    assert frames(read_capture(stream))[0].time_ns == TIME // 1000 * 1000


def test_counters_and_secrets_are_read_back() -> None:
    """What the sniffer lost and the key log stand in the file."""
    stream = io.BytesIO()
    writer = PcapngWriter(stream, application="h3probe")
    lo = writer.interface("lo", 1)
    writer.statistics(lo, None, None)
    writer.statistics(lo, 10, 3)
    writer.secrets(b"CLIENT_RANDOM 00 11\n")
    writer.flush()
    stream.seek(0)
    reader = read_capture(stream, name="x")
    secrets = Secrets(b"CLIENT_RANDOM 00 11\n")
    assert list(reader) == [Dropped(3, "lost while x was recorded on lo"), secrets]
    assert reader.dropped == 3


def test_the_process_and_the_whole_files_comment() -> None:
    """`epb_processid_threadid` is the process and no thread, in the section's byte order; readers pass it over."""
    stream = Calls()
    writer = PcapngWriter(stream, application="h3probe", comment="the verdict")
    assert writer.interfaces == 0
    writer.packet(Frame(1, TIME, 1, b"1234", 4, "lo"), comment="c", pid=1234)
    assert writer.interfaces == 1
    option = bytes.fromhex("0800 0800 d2040000 00000000")
    assert stream.calls[-1].count(option) == 1
    stream.seek(0)
    reader = read_capture(stream)
    assert [frame.data for frame in frames(reader)] == [b"1234"]
    assert reader.comments == [(0, "the verdict"), (1, "c")]


def test_what_does_not_fit_is_cut() -> None:
    """A comment to 64 KiB without half a character at its end, a packet to what Wireshark reads."""
    stream = io.BytesIO()
    writer = PcapngWriter(stream, application="h3probe")
    writer.packet(Frame(1, TIME, 1, bytes(300_000), 300_000), comment="ä" * 40_000)
    stream.seek(0)
    reader = read_capture(stream)
    (frame,) = frames(reader)
    assert (len(frame.data), frame.length) == (262_144, 300_000)
    assert reader.comments == [(1, "ä" * 32_767)]


@needs_tshark
def test_tshark_reads_it_without_a_warning(tmp_path: Path) -> None:
    """The reference decoder takes every kind of block, and sees the times, lengths, names and comments."""
    path = tmp_path / "x.pcapng"
    with path.open("wb") as stream:
        writer = PcapngWriter(stream, application="h3probe 0.1.0", hardware="x86_64", os="Linux")
        writer.secrets(b"CLIENT_RANDOM " + b"00" * 32 + b" " + b"11" * 48 + b"\n")
        writer.packet(Frame(1, TIME, 101, DATAGRAM, len(DATAGRAM), "lo"), comment="Grüße", pid=4711)
        writer.packet(Frame(2, TIME + 1, 101, DATAGRAM[:28], len(DATAGRAM), "eth0"))
        writer.statistics(writer.interface("lo", 101), 2, 1)
    fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_name", "frame.comment", "udp.dstport"]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *[part for name in fields for part in ("-e", name)]]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    said = [line for line in result.stderr.splitlines() if line and not line.startswith("Running as user")]
    assert said == []
    assert [line.split("\t") for line in result.stdout.splitlines()] == [
        ["1700000000.123456789", "29", "29", "lo", "Grüße", "6000"],
        ["1700000000.123456790", "29", "28", "eth0", "", "6000"],
    ]
