from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.capture.bundle import CAPTURE, OBSERVED
from h3probe.errors import CaptureError
from h3probe.events import CaptureEnded, Dropped, Event, Frame, RunBegan, RunEnded, TimePassed, Unreadable
from h3probe.vantage.files import open_source
from h3probe.vantage.proxy_events import OBSERVED_TYPES, format_observed
from h3probe.vantage.recorded import MOST_BROKEN, Recorded
from tests.capture.build import Blocks
from tests.vantage.test_proxy_events import any_event

if TYPE_CHECKING:
    from pathlib import Path


def packets(number: int, *, lost: int | None = None) -> bytes:
    """A capture of so many packets, and its count of losses."""
    blocks = Blocks()
    made = [blocks.section(), blocks.interface()]
    made += [blocks.packet(bytes([n])) for n in range(1, number + 1)]
    if lost is not None:
        made.append(blocks.statistics((5, lost.to_bytes(8, "little"))))
    return b"".join(made)


def folder(path: Path, capture: bytes, *lines: str) -> Path:
    """A run's folder."""
    path.mkdir()
    (path / CAPTURE).write_bytes(capture)
    (path / OBSERVED).write_text("".join(f"{line}\n" for line in lines))
    return path


def bundle(path: Path, source: Path) -> Path:
    """A bundle of a folder."""
    with zipfile.ZipFile(path, "w") as archive:
        for member in source.iterdir():
            archive.write(member, member.name)
    return path


def read(path: Path) -> list[Event]:
    """All that is in it."""
    with open_source(str(path)) as reader:
        assert isinstance(reader, Recorded)
        return list(reader)


def passed(after: int, time_ns: int = 1) -> str:
    """A line behind a frame."""
    return format_observed(TimePassed(time_ns), after)


def test_each_observation_comes_after_its_frame(tmp_path: Path) -> None:
    """From a folder and from a bundle, in the order in which it was seen."""
    run = folder(tmp_path / "run", packets(3), passed(0, 10), passed(2, 11), passed(2, 12), passed(7, 13))
    for path in (run, bundle(tmp_path / "x.zip", run)):
        found = [event.number if isinstance(event, Frame) else event for event in read(path)]
        times = [TimePassed(time_ns) for time_ns in (10, 11, 12, 13)]
        assert found == [times[0], 1, 2, times[1], times[2], 3, times[3]]


def test_losses_are_told_once(tmp_path: Path) -> None:
    """What was observed tells of losses in their place, and a run's end of their sum; without it, the capture does."""
    lost = format_observed(Dropped(2, "the ring was full"), 1)
    ended = format_observed(RunEnded(5, client_over=True, dropped=2), 1)
    run = folder(tmp_path / "run", packets(1, lost=2), lost, ended)
    with Recorded(run) as reader:
        assert [event for event in reader if isinstance(event, Dropped)] == [Dropped(2, "the ring was full")]
        assert reader.dropped == 2
    (run / OBSERVED).write_text(format_observed(CaptureEnded(truncated=True, dropped=5), 1))
    with Recorded(run) as reader:
        list(reader)
        assert (reader.dropped, reader.truncated) == (5, True)
    (run / OBSERVED).unlink()
    assert [event.count for event in read(run) if isinstance(event, Dropped)] == [2]


def test_a_line_that_is_none(tmp_path: Path) -> None:
    """Damage is told with its place, and what follows is read."""
    run = folder(tmp_path / "run", packets(1), passed(0), "{", '{"type":"run_began","after":0}', passed(1))
    found = [event for event in read(run) if not isinstance(event, Frame)]
    assert [type(event) for event in found] == [TimePassed, Unreadable, Unreadable, TimePassed]
    assert f"{OBSERVED} in {run}, line 2: not a line of JSON" in str(found[1])


def test_lines_without_end_that_are_none(tmp_path: Path) -> None:
    """Millions of them, which a small archive unpacks to, are not read to their end; the packets are."""
    run = folder(tmp_path / "run", packets(3), *["no"] * (MOST_BROKEN + 500), passed(2))
    for path in (run, bundle(tmp_path / "x.zip", run)):
        found = read(path)
        assert len(found) == MOST_BROKEN + 3
        assert sum(isinstance(event, Frame) for event in found) == 3
        last = [event for event in found if isinstance(event, Unreadable)][-1]
        assert "is not read on: 1000 broken lines" in last.reason


def test_a_capture_that_was_cut_off(tmp_path: Path) -> None:
    """A run that was killed left what it left: the packets up to there, and that it is cut short."""
    run = folder(tmp_path / "run", packets(2)[:-1], passed(1))
    with Recorded(run) as reader:
        assert sum(isinstance(event, Frame) for event in reader) == 1
        assert (reader.truncated, reader.format, reader.dropped) == (True, "pcapng", None)


@pytest.mark.parametrize("ended", [False, True])
def test_a_run_without_an_end(tmp_path: Path, *, ended: bool) -> None:
    """What is missing at a run's end, as when the disk was full, looks like nothing: it is told."""
    lines = [format_observed(RunBegan(1, "lo", "live", "wire"), 0), format_observed(RunEnded(2, client_over=True), 1)]
    found = read(folder(tmp_path / "run", packets(1), *lines[: 1 + ended]))
    assert isinstance(found[-1], RunEnded if ended else Unreadable)
    assert ended or "was cut off" in str(found[-1])


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_bytes(b"PK\x03\x04" + bytes(50))])
def test_neither_bundle_nor_folder(tmp_path: Path, make: object) -> None:
    """A folder of something else, and an archive of nothing, are named in one line."""
    assert callable(make)
    make(tmp_path / "x")
    with pytest.raises(CaptureError, match=str(tmp_path / "x")):
        open_source(str(tmp_path / "x"))


def test_a_link_in_a_folder_is_not_followed(tmp_path: Path) -> None:
    """Root reads no other's files through a folder that somebody made."""
    run = folder(tmp_path / "run", packets(1))
    (run / CAPTURE).rename(tmp_path / "other")
    (run / CAPTURE).symlink_to(tmp_path / "other")
    with pytest.raises(CaptureError, match="no capture"):
        open_source(str(run))


@given(
    st.lists(
        st.binary(max_size=40)
        | st.builds(
            lambda event, after: format_observed(event, after).encode(),
            st.one_of([any_event(kind) for kind in OBSERVED_TYPES.values()]),
            st.integers(0, 4),
        ),
        max_size=6,
    )
)
def test_any_lines(lines: list[bytes]) -> None:
    """Whatever stands beside the packets: these all come, in their order, and nothing is raised."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(CAPTURE, packets(3))
        archive.writestr(OBSERVED, b"\n".join(lines))
    with Recorded("x", stream) as reader:
        assert [event.number for event in reader if isinstance(event, Frame)] == [1, 2, 3]
