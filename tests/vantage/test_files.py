from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.capture import read_capture
from h3probe.errors import CaptureError, KeyLogError
from h3probe.events import Frame, Unreadable
from h3probe.vantage.files import KEY_LOG_CHUNK, ProxyEvents, merge, open_capture, read_key_log
from tests.capture.build import Blocks, pcap, record

if TYPE_CHECKING:
    from pathlib import Path

    from h3probe.capture import CaptureReader


def capture(*times: int, data: bytes = b"x") -> CaptureReader:
    """A capture with frames at these times, in microseconds."""
    return read_capture(io.BytesIO(pcap(*[record(data, 0, time) for time in times])), name=data.decode())


def test_opens_by_name(tmp_path: Path) -> None:
    """A path in either form opens; leaving the context closes the file."""
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(record(b"packet")))
    for name in (path, str(path)):
        with open_capture(name) as reader:
            assert reader.name == str(path)
            assert len(list(reader)) == 1
        assert reader.stream is not None
        assert reader.stream.closed


def test_file_errors_are_one_line(tmp_path: Path) -> None:
    """Missing, a directory, no capture, no possible name: what is wrong, with the name before it."""
    (tmp_path / "text").write_text("hello")
    for name, message in (
        ("missing", "missing cannot be opened: No such file or directory"),
        (".", " cannot be opened: Is a directory"),
        ("text", "text is text, not a capture: h3probe reads pcap and pcapng"),
        ("a\0b", "cannot be opened: embedded null byte"),
    ):
        with pytest.raises(CaptureError) as caught:
            open_capture(tmp_path / name)
        assert str(caught.value).endswith(message)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    """Missing permission is an error as well."""
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap())
    path.chmod(0)
    with pytest.raises(CaptureError, match="cannot be opened: Permission denied"):
        open_capture(path)


def test_standard_input_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet from a pipe is there before the pipe ends, even where somebody set it not to wait."""
    out, into = os.pipe()
    os.set_blocking(out, False)
    with os.fdopen(out, "rb") as stdin, os.fdopen(into, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", stdin)
        writer.write(pcap() + record(b"packet"))
        with open_capture("-") as reader:
            assert reader.name == "standard input"
            assert next(reader) == Frame(1, 1_000_000_000, 1, b"packet", 6)
            assert os.get_blocking(out)
        assert not stdin.closed


def test_a_terminal_is_no_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain -` without a pipe says so instead of waiting."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stdin in (Terminal(), None):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(CaptureError, match="standard input cannot be opened: it is a terminal, not a capture"):
            open_capture("-")


def test_merges_by_time() -> None:
    """Frames of several captures come in order of time, numbered from 1 over all of them."""
    merged = list(merge([capture(10, 30, 50, data=b"a"), capture(20, 30, 60, data=b"b"), capture(data=b"c")]))
    assert merged == [
        Frame(number, time * 1000, 1, data, 1)
        for number, (time, data) in enumerate(
            [(10, b"a"), (20, b"b"), (30, b"a"), (30, b"b"), (50, b"a"), (60, b"b")], 1
        )
    ]


def test_merging_keeps_each_capture_in_its_order() -> None:
    """A capture whose times go back is not sorted: its order is the order on its wire."""
    times = [frame.time_ns // 1000 for frame in merge([capture(10, 5, 40), capture(20)]) if isinstance(frame, Frame)]
    assert times == [10, 5, 20, 40]


def test_merging_passes_on_what_is_no_frame() -> None:
    """A cut in one capture is told, and the other goes on."""
    cut = read_capture(io.BytesIO(pcap(record(b"a", 0, 10), record(b"a", 0, 20))[:-1]), name="cut")
    events = list(merge([cut, capture(30, data=b"b")]))
    assert [type(event) for event in events] == [Frame, Unreadable, Frame]


def test_one_capture_alone_is_passed_through() -> None:
    """With one reader nothing is held back: each frame comes when it is read."""
    b = Blocks()
    reader = read_capture(io.BytesIO(b.section() + b.interface() + b.packet(b"1") + b.packet(b"2")))
    merged = merge([reader])
    assert next(merged) == Frame(1, 0, 1, b"1", 1)
    assert next(reader) == Frame(2, 0, 1, b"2", 1)
    assert list(merge([])) == []


def test_a_key_log_comes_in_whole_lines(tmp_path: Path) -> None:
    """A key log of any size is read some lines at a time, each of them whole, the last one without its end too."""
    path = tmp_path / "keys.log"
    lines = [b"CLIENT_RANDOM %064x %096x" % (number, number) for number in range(10_000)]
    path.write_bytes(b"\n".join(lines))
    events = list(read_key_log(path))
    assert len(events) > 1
    assert [line for event in events for line in event.key_log.splitlines()] == lines
    path.write_bytes(bytes(3 * KEY_LOG_CHUNK) + b"\nlast")
    assert max(len(event.key_log) for event in read_key_log(path)) <= 2 * KEY_LOG_CHUNK


def test_a_key_log_that_cannot_be_read(tmp_path: Path) -> None:
    """What is wrong is said in one line."""
    for name in (tmp_path, tmp_path / "nothing", "with\0nul"):
        with pytest.raises(KeyLogError, match=r"the key log .* cannot be read"):
            list(read_key_log(name))


@given(st.lists(st.binary(max_size=60) | st.sampled_from([b'{"type":"dropped","count":1,"reason":"x"}', b"{}", b"["])))
def test_any_lines_of_events(lines: list[bytes]) -> None:
    """A line is an event, or said to be none; there are as many as lines."""
    lines = [line.replace(b"\n", b"") for line in lines]
    found = list(ProxyEvents(io.BytesIO(b"".join(line + b"\n" for line in lines)), "x"))
    assert len(found) == len(lines)
