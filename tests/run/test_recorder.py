from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.events import Frame
from h3probe.redact import Mapping, Redactor
from h3probe.run.recorder import Recorder, Rotation
from h3probe.track.tracker import Tracker
from h3probe.vantage.files import open_capture
from tests.redact.flows import CLIENT, SERVER, STATIONS, Wire, hello
from tests.run.traffic import Traffic
from tests.wire import packets
from tests.wire.quic_builder import crypto, initial

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.records import AnyRecord, Moment


class Notes:
    """An output that keeps what is said."""

    wants_moments = True

    def __init__(self) -> None:
        self.notes: list[str] = []

    def moments(self, moments: Iterable[Moment]) -> None:
        """Nobody looks."""

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Nobody looks."""

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)

    def close(self) -> None:
        """Nothing is held back."""


def record(recorder: Recorder, frames: Iterable[Frame]) -> None:
    """Write frames as a run does."""
    tracker = Tracker()
    for frame in frames:
        tracker.feed(frame)
        recorder.frame(frame, tracker)


def read(path: Path) -> tuple[list[Frame], bool, int | None]:
    """The frames of a file, whether it is cut short, and its count of losses."""
    with open_capture(path) as reader:
        frames = [event for event in reader if isinstance(event, Frame)]
        return frames, reader.truncated, reader.dropped


def recorder(path: Path, *, full: bool = False, force: bool = False) -> tuple[Recorder, Notes]:
    """A recorder and what it says."""
    notes = Notes()
    return Recorder(str(path), notes, full=full, force=force), notes


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Frames come back with their numbers, times, interface and bytes, and the count of losses with them."""
    path = tmp_path / "trace.pcapng"
    writing, _ = recorder(path)
    frames = [Traffic().initial(), *Traffic().connected()]
    with writing:
        record(writing, frames)
        writing.close(3)
    found, truncated, dropped = read(path)
    assert [(f.time_ns, f.data, f.interface, f.link_type) for f in found] == [
        (f.time_ns, f.data, f.interface, f.link_type) for f in frames
    ]
    assert (truncated, dropped) == (False, 3)
    assert writing.summary == f"4 packets written to {path}"


def test_losses_are_counted_once(tmp_path: Path) -> None:
    """With several interfaces the losses of their one queue are not added up."""
    path = tmp_path / "trace.pcapng"
    writing, _ = recorder(path)
    first = Traffic().initial()
    record(writing, [first, Frame(2, first.time_ns, 101, first.data, first.length, "eth0")])
    writing.close(5)
    assert read(path)[2] == 5


def test_mode(tmp_path: Path) -> None:
    """Nobody else may read the file."""
    path = tmp_path / "trace.pcapng"
    recorder(path)[0].close(0)
    assert path.stat().st_mode & 0o777 == 0o600


def test_full_keeps_payload(tmp_path: Path) -> None:
    """With `full` payload is stored as it came."""
    sizes = []
    for full in (True, False):
        path = tmp_path / f"{full}.pcapng"
        writing, _ = recorder(path, full=full)
        record(writing, [Traffic().udp(b"\x00" + b"text" * 100)])
        writing.close(0)
        sizes.append(len(read(path)[0][0].data))
    assert sizes == [28 + 401, 28]


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    """A file that holds something is replaced with `force` alone; an empty one is used."""
    path = tmp_path / "trace.pcapng"
    path.write_text("mine")
    with pytest.raises(UserError, match="--force"):
        recorder(path)
    assert path.read_text() == "mine"
    recorder(path, force=True)[0].close(0)
    assert path.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"
    path.write_bytes(b"")
    recorder(path)[0].close(0)


@pytest.mark.parametrize("name", ["missing/trace.pcapng", "."])
def test_where_nothing_can_be_written(tmp_path: Path, name: str) -> None:
    """A missing folder, or a folder, is one line for the user."""
    with pytest.raises(UserError, match="cannot be written"):
        recorder(tmp_path / name)


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    """Root does not write through somebody's link."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(UserError, match="cannot be written"):
        recorder(tmp_path / "link")
    assert not (tmp_path / "target").exists()


def test_nothing_is_left_of_a_run_that_did_not_begin(tmp_path: Path) -> None:
    """When the command cannot be started, its file goes again; with a packet in it, it stays."""
    path = tmp_path / "trace.pcapng"
    with pytest.raises(ZeroDivisionError), recorder(path)[0]:
        raise ZeroDivisionError
    assert not path.exists()
    writing, _ = recorder(path)
    record(writing, [Traffic().initial()])
    with pytest.raises(ZeroDivisionError), writing:
        raise ZeroDivisionError
    assert len(read(path)[0]) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_file_and_not_the_run(tmp_path: Path) -> None:
    """The first failure is told, once, and later frames are not written."""
    writing, notes = recorder(tmp_path / "trace.pcapng")
    assert writing._stream is not None
    with Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), writing._stream.fileno())
    record(writing, [Traffic().initial()] * 200)
    writing.flush_if_due()
    writing.close(0)
    assert len(notes.notes) == 1
    assert os.strerror(errno.ENOSPC) in notes.notes[0]


KILLED = """
import os, sys, time
from h3probe.run import recorder
from tests.run.test_recorder import Notes, record
from tests.redact.flows import CLIENT, SERVER, STATIONS, Wire, hello
from tests.run.traffic import Traffic
from tests.wire import packets
from tests.wire.quic_builder import crypto, initial

recorder.FLUSH_S = 0.0
writing = recorder.Recorder(sys.argv[1], Notes(), full=False, force=False)
record(writing, [Traffic().initial()] * 100)
writing.flush_if_due()
record(writing, [Traffic().initial()] * 10)
print("up", flush=True)
time.sleep(60)
"""


def test_killed_in_the_middle(tmp_path: Path) -> None:
    """After SIGKILL everything up to the last flush is there, and the file is whole."""
    path = tmp_path / "trace.pcapng"
    with subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGKILL)
    frames, truncated, _ = read(path)
    assert len(frames) >= 100
    assert not truncated


def rotating(path: Path, keep: int | None) -> tuple[Recorder, Notes]:
    """A recorder that begins another file every few packets."""
    notes = Notes()
    return Recorder(path, notes, full=True, force=False, rotation=Rotation(20_000, keep)), notes


def test_each_file_of_a_long_run_is_a_capture(tmp_path: Path) -> None:
    """Files are numbered, each has its interface, and together they hold every packet once."""
    writing, _ = rotating(tmp_path / "trace.pcapng", None)
    traffic = Traffic()
    with writing:
        record(writing, [traffic.initial() for _ in range(50)])
        writing.close(4)
    paths = sorted(tmp_path.iterdir())
    assert [path.name for path in paths] == [f"trace.{number:04}.pcapng" for number in (1, 2, 3, 4)]
    found = [read(path) for path in paths]
    times = [frame.time_ns for frames, _, _ in found for frame in frames]
    assert times == sorted(set(times))
    assert len(times) == 50
    assert {frame.interface for frames, _, _ in found for frame in frames} == {"lo"}
    assert [truncated for _, truncated, _ in found] == [False] * 4
    assert [dropped for _, _, dropped in found] == [None, None, None, 4]
    assert writing.summary == f"50 packets written to 4 files, the last one {paths[-1]}"


def test_older_files_are_deleted_and_counted(tmp_path: Path) -> None:
    """With `keep` no more than so many stay, and the end says how many went."""
    writing, _ = rotating(tmp_path / "trace.pcapng", 2)
    with writing:
        record(writing, [Traffic().initial() for _ in range(50)])
        writing.close(0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.0003.pcapng", "trace.0004.pcapng"]
    assert writing.summary.endswith("; 2 older files deleted")


def test_a_file_that_is_in_the_way(tmp_path: Path) -> None:
    """Somebody else's file with the next number is no reason to end a run: it is said, and the file is kept."""
    (tmp_path / "trace.0002.pcapng").write_text("mine")
    writing, notes = rotating(tmp_path / "trace.pcapng", None)
    with writing:
        record(writing, [Traffic().initial() for _ in range(50)])
    assert len(notes.notes) == 1
    assert "trace.0002.pcapng exists already" in notes.notes[0]
    assert (tmp_path / "trace.0002.pcapng").read_text() == "mine"
    assert not read(tmp_path / "trace.0001.pcapng")[1]


def test_redacted_frames_come_in_order(tmp_path: Path) -> None:
    """What waits for the rest of a name is written in its place, at the end at the latest; what is not is counted."""
    wire = Wire()
    name, rest = hello()[:60], hello()[60:]
    frames = [
        wire.udp(initial(crypto(0, name), size=1200)),
        wire.tcp(flags=0x02),
        packets.frame(packets.ethernet(b"x" * 50, 0x88CC)),
        wire.udp(initial(crypto(60, rest), number=1, size=1200)),
        wire.udp(initial(crypto(0, name), dcid=b"another1", size=1200)),
        wire.tcp(flags=0x10),
    ]
    redactor = Redactor(Mapping())
    notes = Notes()
    with Recorder(tmp_path / "x.pcapng", notes, full=False, force=False, redactor=redactor) as writing:
        record(writing, frames[:2])
        assert (writing.frames, writing.last_number) == (0, 2)
        record(writing, frames[2:4])
        assert (writing.frames, writing.last_number) == (3, 3)
        record(writing, frames[4:])
        assert (writing.frames, writing.last_number) == (3, 5)
        writing.close(0)
    assert writing.summary == f"5 packets (1 that cannot be redacted left out) written to {tmp_path / 'x.pcapng'}"
    found, _, _ = read(tmp_path / "x.pcapng")
    assert [frame.time_ns for frame in found] == [frame.time_ns for frame in [*frames[:2], *frames[3:]]]
    data = (tmp_path / "x.pcapng").read_bytes()
    for hidden in (CLIENT.host, SERVER.host, *STATIONS):
        assert hidden not in data


def test_redacted_files_that_rotate_have_one_mapping(tmp_path: Path) -> None:
    """The same address has the same replacement in each of them."""
    wire = Wire()
    rotation = Rotation(10_000, None)
    redactor = Redactor(Mapping())
    with Recorder(
        tmp_path / "x.pcapng", Notes(), full=True, force=False, rotation=rotation, redactor=redactor
    ) as writing:
        record(writing, [wire.udp(initial(crypto(0, hello()), size=1200)) for _ in range(20)])
    parts = sorted(tmp_path.iterdir())
    assert len(parts) == 3
    replaced = redactor.mapping.address(CLIENT.host)
    for part in parts:
        assert CLIENT.host not in part.read_bytes()
        assert replaced in part.read_bytes()
