from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import ToldExchange
from h3probe.vantage.clientlog.curl import CurlLog
from h3probe.vantage.clientlog.jdk import JdkLog
from h3probe.vantage.clientlog.pipe import LogPipe, Sieve
from tests.vantage.clientlog.reading import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

LOG = (RECORDINGS / "jdk26-client-any.log").read_bytes()
MINE = b"mine: \xff\x00 whatever\r\n"


def sieve(*, show: bool = False) -> Sieve:
    """One that takes the JDK's log out."""
    log = JdkLog()
    return Sieve([log], [] if show else [log])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at some places."""
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(at)]


@given(st.lists(st.integers(0, 1 << 20), max_size=30))
def test_the_log_is_taken_out_however_it_comes(places: list[int]) -> None:
    """The program's own lines, before, between and after records, are passed on as they were; nothing else is."""
    data = MINE + LOG.replace(b"\n\nNov", b"\n\n" + MINE + b"Nov") + MINE + b"prompt> "
    seen = sieve()
    out = b"".join(seen.feed(part, 5) for part in cut(data, places)) + seen.finish(5)
    assert out == MINE * (data.count(MINE)) + b"prompt> "
    assert [e.version for e in seen.take() if isinstance(e, ToldExchange)] == ["HTTP/2", "HTTP/3", "HTTP/3"]


@given(st.binary(max_size=300), st.lists(st.integers(0, 1 << 20), max_size=10))
def test_what_is_no_log_is_untouched(data: bytes, places: list[int]) -> None:
    """Any other bytes go through as they are, with or without a line's end, though they wait in between."""
    seen = sieve()
    out = bytearray()
    for part in cut(data, places):
        out += seen.feed(part, 0)
        out += seen.release()
    assert bytes(out) + seen.finish(0) == data


def test_with_the_log_shown() -> None:
    """Everything goes through, and is read as well."""
    seen = sieve(show=True)
    assert seen.feed(LOG + MINE, 0) == LOG + MINE
    assert seen.take()


def test_the_beginning_of_a_line_waits_and_is_let_go() -> None:
    """A prompt is passed on when nothing follows it, once, and a record that follows it is read all the same."""
    seen = sieve()
    assert seen.feed(b"name? ", 0) == b""
    assert seen.holds
    assert seen.release() == b"name? "
    assert not seen.holds
    assert seen.release() == b""
    assert seen.feed(b"Bob\n", 0) == b"Bob\n"


def test_a_line_without_an_end_is_not_held() -> None:
    """What is held is bounded, and nothing of a very long line is lost."""
    seen = sieve()
    out = b"".join(seen.feed(b"x" * 50_000, 0) for _ in range(20)) + seen.feed(b"\n", 0)
    assert out == b"x" * 1_000_000 + b"\n"


def test_a_log_of_curls_is_read_and_shown() -> None:
    """What the user has asked curl for stays there."""
    curl = CurlLog()
    seen = Sieve([JdkLog(), curl], [])
    data = (RECORDINGS / "curl-http3.log").read_bytes()
    assert seen.feed(data, 7) == data
    (only,) = [each for each in seen.take() if isinstance(each, ToldExchange)]
    assert (only.version, only.time_ns) == ("HTTP/3", 7)


def run(path: Path, code: str) -> tuple[bytes, LogPipe]:
    """Run a line of Python with its standard error in a pipe; return what was passed on, and the pipe."""
    with path.open("wb") as out, LogPipe(java=True, show=False, out=out.fileno()) as pipe:
        with subprocess.Popen([sys.executable, "-c", code], stderr=pipe.write_end) as child:
            pipe.start()
            child.wait()
        pipe.rest()
        return path.read_bytes(), pipe


def test_a_command_that_prints_more_than_fits(tmp_path: Path) -> None:
    """It is never held up, and all of it arrives."""
    said, _ = run(tmp_path / "out", "import sys; sys.stderr.write('line\\n' * 1_000_000)")
    assert said == b"line\n" * 1_000_000


def test_the_end_does_not_wait_for_a_commands_children(tmp_path: Path) -> None:
    """A child that keeps standard error, and goes on writing there, holds nobody up."""
    chatter = "import os, time\nfor _ in range(3000): os.write(2, b'x'); time.sleep(0.02)"
    code = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {chatter!r}], stdout=-3).pid)"
    with (tmp_path / "out").open("wb") as out, LogPipe(java=True, show=False, out=out.fileno()) as pipe:
        child = subprocess.run([sys.executable, "-c", code], stderr=pipe.write_end, stdout=subprocess.PIPE, check=True)
        pipe.start()
        pipe.rest()
    os.kill(int(child.stdout), signal.SIGKILL)  # It has not ended by itself.


@pytest.mark.parametrize("java", [True, False])
def test_events_come_while_the_command_runs(tmp_path: Path, *, java: bool) -> None:
    """What the log tells is there before the command ends; of a program that is no JVM no JDK's log is read."""
    code = f"import sys; sys.stderr.write({LOG.decode()!r}); sys.stderr.flush(); input()"
    with (tmp_path / "out").open("wb") as out, LogPipe(java=java, show=False, out=out.fileno()) as pipe:
        command = [sys.executable, "-c", code]
        with subprocess.Popen(command, stderr=pipe.write_end, stdin=subprocess.PIPE) as child:
            pipe.start()
            while java and not pipe.events():
                time.sleep(0.01)
            child.communicate(b"\n")
        assert java or not pipe.rest()
