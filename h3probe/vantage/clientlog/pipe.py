"""A client's log that is being written: lines among what a command prints to its standard error."""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from h3probe.vantage.clientlog.curl import CurlLog
from h3probe.vantage.clientlog.jdk import JdkLog
from h3probe.vantage.clientlog.lines import LONGEST_LINE, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from h3probe.events import Told
    from h3probe.vantage.clientlog import ClientLog

CHUNK: Final = 65_536
# How long the beginning of a line may wait for its end before it is passed on: a prompt has none.
PATIENCE_S: Final = 0.05
# What a command may print while nobody reads.
ROOM: Final = 1 << 20


class Sieve:
    """Tells a log's lines from what else a command prints; sans-IO.

    Args:
        logs: What reads the lines; the first one whose line it is takes it.
        hidden: Those whose lines are kept back.
    """

    def __init__(self, logs: Sequence[ClientLog], hidden: Sequence[ClientLog]) -> None:
        self._logs = logs
        self._hidden = hidden
        self._held = bytearray()
        # How much of the line that is held has been passed on already.
        self._passed = 0

    @property
    def holds(self) -> bool:
        """Whether the beginning of a line waits."""
        return len(self._held) > self._passed

    def feed(self, data: bytes, now_ns: int) -> bytes:
        """Take what was printed; return what of it is to be passed on now."""
        out = bytearray()
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._held += line
            out += self._whole(now_ns)
        self._held += rest
        if len(self._held) > LONGEST_LINE:
            out += self.release()
            # The rest of such a line is nobody's log; it goes by as it comes.
            del self._held[LONGEST_LINE:]
            self._passed = len(self._held)
        return bytes(out)

    def release(self) -> bytes:
        """Return the beginning of a line that has waited long enough."""
        waiting = bytes(self._held[self._passed :])
        self._passed = len(self._held)
        return waiting

    def finish(self, now_ns: int) -> bytes:
        """Take note of the end; return what was still held."""
        rest = self._whole(now_ns)[:-1] if self._held else b""
        for log in self._logs:
            log.finish(now_ns)
        return rest

    def take(self) -> list[Told]:
        """Return what the logs have told since the last call."""
        return [told for log in self._logs for told in log.take()]

    def _whole(self, now_ns: int) -> bytes:
        line, passed = bytes(self._held), self._passed
        self._held.clear()
        self._passed = 0
        text = text_of(line)
        owner = next((log for log in self._logs if log.line(text, now_ns)), None)
        if owner is not None and any(owner is log for log in self._hidden) and not passed:
            return b""
        return line[passed:] + b"\n"


class LogPipe:
    """A command's standard error, read while it runs; a context manager that ends with what is there read.

    A thread of its own reads it, so that the command never waits for this program, and passes on what is no log.

    Args:
        java: Whether the command may be a JVM.
        show: Whether the log's lines are passed on too.
        out: The descriptor that the rest goes to; this process's own standard error unless given.

    Attributes:
        write_end: What the command gets as its standard error; closed by `start`.
    """

    def __init__(self, *, java: bool, show: bool, out: int | None = None) -> None:
        jdk, curl = JdkLog(), CurlLog()
        # What curl prints, it prints because its user wants to see it.
        self._sieve = Sieve([jdk, curl] if java else [curl], [] if show else [jdk])
        self._out = sys.stderr.fileno() if out is None else out
        self._read_end, self.write_end = os.pipe()
        _widen(self.write_end)
        self._told: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read, once the command has its end."""
        os.close(self.write_end)
        self.write_end = -1
        self._thread = threading.Thread(target=self._run, name="client-log", daemon=True)
        self._thread.start()

    def events(self) -> list[Told]:
        """Return what the log has told since the last call."""
        told: list[Told] = []
        with suppress(queue.Empty):
            while True:
                told.append(self._told.get_nowait())
        return told

    def rest(self) -> list[Told]:
        """Read what is there, once the command has ended, and return what it tells."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        return self.events()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.rest()
        for descriptor in (self._read_end, self.write_end):
            if descriptor >= 0:
                os.close(descriptor)
        self._read_end = self.write_end = -1

    def _run(self) -> None:
        # How much is still to be read; None as long as the command may write more.
        left: int | None = None
        while left is None or left > 0:
            ready, _, _ = select.select([self._read_end], [], [], PATIENCE_S)
            if left is None and self._stop.is_set():
                # Whoever still holds the other end is no longer the command, and what comes now is not the command's.
                left = _waiting(self._read_end)
            elif not ready:
                self._pass(self._sieve.release())
            else:
                data = os.read(self._read_end, CHUNK if left is None else min(CHUNK, left))
                if not data:
                    break
                left = None if left is None else left - len(data)
                self._pass(self._sieve.feed(data, time.time_ns()))
                self._tell()
        self._pass(self._sieve.finish(time.time_ns()))
        self._tell()

    def _tell(self) -> None:
        for told in self._sieve.take():
            self._told.put(told)

    def _pass(self, data: bytes) -> None:
        """Pass on; where nobody reads any more, the command need not know."""
        while data:
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:  # Whoever shares it has set it not to wait.
                select.select([], [self._out], [])
            except OSError:
                return


def _waiting(descriptor: int) -> int:
    """How many bytes a pipe holds."""
    if sys.platform == "win32":
        return 0
    import fcntl  # noqa: PLC0415 - Windows has none
    import termios  # noqa: PLC0415 - the same

    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


def _widen(descriptor: int) -> None:
    """Give a pipe more room, where the system lets it have that."""
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415 - Windows has none

        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, ROOM)
