from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import CaptureError
from h3probe.events import ToldExchange
from h3probe.vantage.clientlog.file import ClientLogFile
from tests.vantage.clientlog import netlog_builder as netlog
from tests.vantage.clientlog.reading import RECORDINGS, recording, written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDINGS.iterdir()))
def test_in_order_of_time(name: str) -> None:
    """What is told comes in order of time, and never ends before it began."""
    reading = recording(name)
    assert reading.told
    assert [each.time_ns for each in reading.told] == sorted(each.time_ns for each in reading.told)
    assert all(e.began_ns is None or e.began_ns <= e.time_ns for e in reading.exchanges)


def test_a_log_among_other_output(tmp_path: Path) -> None:
    """What a program printed before its log, and within it, does not matter."""
    text = "hello\n" * 1000 + (RECORDINGS / "jdk26-client-any.log").read_text().replace("\n\n", "\n\nhello\n")
    assert written(tmp_path / "java.log", text).rows == recording("jdk26-client-any.log").rows


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x00\xff" * 1000, b"{}"])
def test_what_is_no_log(tmp_path: Path, content: bytes) -> None:
    """A file of another kind is refused, and what would be one is said."""
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match="no log of the JDK's HttpClient, of curl -v or of Chromium"):
        ClientLogFile(str(path))


@pytest.mark.parametrize("path", ["does/not/exist", "/", "\0"])
def test_what_cannot_be_read(path: str) -> None:
    """A file that is not there is refused."""
    with pytest.raises(CaptureError, match="cannot be read"):
        ClientLogFile(path)


@given(
    st.sampled_from(
        [path.read_bytes() for path in sorted(RECORDINGS.iterdir())] + [netlog.file(*netlog.EVENTS).encode()]
    ),
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 60), st.binary(max_size=40)), max_size=5),
)
def test_a_damaged_log(
    tmp_path_factory: pytest.TempPathFactory, log: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    """Whatever is put into a log, and taken out of it: events in order of time, or `CaptureError`."""
    data = bytearray(log)
    for at, length, other in changes:
        data[at : at + length] = other
    path = tmp_path_factory.getbasetemp() / "log"
    path.write_bytes(data)
    try:
        told = list(ClientLogFile(str(path)))
    except CaptureError:
        return
    times = [each.time_ns for each in told if isinstance(each, ToldExchange)]
    assert times == sorted(times)
