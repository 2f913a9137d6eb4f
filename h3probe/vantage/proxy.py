"""The proxy: mitmdump in a process of its own, and the events it reports.

It is driven by whoever has the loop: `fileno` is readable when there are events, `events` never waits. A crash over
there loses nothing here, it needs no rights, and h3probe's own process never imports mitmproxy.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from h3probe.errors import UserError
from h3probe.events import ProxyDied, ProxyReady
from h3probe.vantage import privileges
from h3probe.vantage.mitm.settings import QuicReady, Settings
from h3probe.vantage.proxy_command import command_line, environment_for, modes_of, settings_for
from h3probe.vantage.proxy_reports import Report, Reports
from h3probe.vantage.proxy_trust import CA_CERTIFICATE, default_folder, private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from h3probe.events import Endpoint
    from h3probe.vantage.privileges import User
    from h3probe.vantage.proxy_spec import ProxySpec

START_S: Final = 30.0
"""How long mitmdump may take until it listens; on an idle machine it takes about one second."""
STARTS: Final = 3
"""How often it is started at most, when a port that was found free is taken before it listens."""
GRACE_S: Final = 3.0
"""How long it may take to end, before it is killed."""
BATCH: Final = 1 << 20
"""Bytes that one call of `events` reads at most."""
_PIPE: Final = 1 << 20
_LAST_WORDS: Final = 8192
_LONGEST_NAME: Final = 255  # a line is written whole or not at all


class Proxy:
    """Starts mitmdump, reads its events, and ends it.

    As a context manager it is ready inside of its block. Otherwise: `start`, `wait_until_ready` (or `events` until
    `ready`), and `stop`.

    Args:
        spec: What is asked of it.
        folder: Where its authority is kept; below the user's data folder unless given, and nowhere for long where the
            spec says so.
        user: Whom it runs as, when this process is root.
        wrap: Makes the command line that runs a given one in another network namespace, which is where the listeners
            of a transparent proxy are. It may take root for that; what it runs is to be `user`'s, and to keep its
            process number and its descriptors.
        descriptors: What that command line needs to inherit.

    Attributes:
        addresses: Where it listens, once it is started.
        ready: Whether it does.
    """

    def __init__(
        self,
        spec: ProxySpec,
        *,
        folder: Path | None = None,
        user: User | None = None,
        wrap: Callable[[list[str]], list[str]] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        self.spec = spec
        if spec.temporary:
            with privileges.acting_as(user):
                folder = Path(tempfile.mkdtemp(prefix="h3probe-"))
        self.folder = folder or default_folder(privileges.environment_of(user) if user is not None else None)
        self.addresses: list[Endpoint] = []
        self.ready = False
        self._user = user
        self._wrap, self._descriptors = wrap, descriptors
        self._process: subprocess.Popen[bytes] | None = None
        self._events = -1
        self._words = -1
        self._reports = Reports()
        self._said = bytearray()
        self._early: list[Report] = []
        self._over = False
        self._starts = 0

    @property
    def pid(self) -> int | None:
        """The process's number; what it connects to on its own is not the client's doing."""
        return self._process.pid if self._process is not None else None

    @property
    def port(self) -> int:
        """The port it listens on, of several the first one's."""
        return self.addresses[0].port

    @property
    def is_exposed(self) -> bool:
        """Whether other hosts can reach it, which deserves a warning."""
        return not all(address.is_loopback for address in self.addresses)

    @property
    def ca_file(self) -> Path:
        """The certificate of its authority, PEM."""
        return self.folder / CA_CERTIFICATE

    def fileno(self) -> int:
        """Readable when `events` has something to give."""
        return self._events

    def start(self) -> None:
        """Start the process, without waiting for it.

        Raises:
            UserError: The port is in use, the authority's folder is no good, or there is no Python to run.
        """
        with privileges.acting_as(self._user):
            private_folder(self.folder)
        self._starts += 1
        self._over = False
        self._reports.clear()
        self._said.clear()
        modes, standing = modes_of(self.spec)
        self._events, theirs = os.pipe()
        self._words, their_words = os.pipe()
        try:
            for ours in (self._events, self._words):
                os.set_blocking(ours, False)
            _enlarge(self._events)
            self._process = self._spawn(modes, theirs, their_words)
        finally:
            os.close(theirs)
            os.close(their_words)
        self._tell(settings_for(self.spec, theirs, standing))

    def wait_until_ready(self, timeout: float = START_S) -> None:
        """Wait until it listens; what it reports until then is kept for `events`.

        Raises:
            UserError: It ended, or did not get ready in time.
        """
        deadline = time.monotonic() + timeout
        while True:
            self._early += self._read()
            if self.ready:
                return
            died = next((event for event in self._early if isinstance(event, ProxyDied)), None)
            if died is not None and self._starts < STARTS and self._lost_its_port(died):
                self._close()
                self._early.clear()
                self.start()
            elif died is not None:
                raise UserError(f"the proxy could not start: {_reason(died)}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise UserError(f"the proxy did not listen within {timeout:.0f} s: {_reason(self._died(0))}")
            select.select([self._events, self._words], [], [], min(left, 0.1))

    def events(self) -> list[Report]:
        """What was reported since the last call, in order, without waiting; the last of all may be `ProxyDied`."""
        early, self._early = self._early, []
        return early + self._read()

    def quic_ready(self, host: str) -> None:
        """Tell a transparent proxy that a client has QUIC to a host, which is no reason to call its TCP a refusal."""
        if self._process is None or self._process.stdin is None or len(host) > _LONGEST_NAME:
            return
        with contextlib.suppress(BrokenPipeError, BlockingIOError):  # a proxy that does not read has other worries
            os.write(self._process.stdin.fileno(), QuicReady(host).dump().encode())

    def stop(self) -> list[Report]:
        """End it, and return what it still had to report."""
        process = self._process
        if process is None:
            return []
        rest = self.events()
        self._over = True  # whatever ends it now was asked for
        process.terminate()
        deadline = time.monotonic() + GRACE_S
        # What it reports at its end fills a pipe that somebody has to read, or it does not end.
        while process.poll() is None and time.monotonic() < deadline:
            select.select([self._events], [], [], 0.02)
            rest += self._read()
        if process.poll() is None:
            process.kill()
            process.wait()
        while more := self._read():
            rest += more
        self._close()
        if self.spec.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)
        return rest

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # Starting

    def _spawn(self, modes: list[str], events: int, words: int) -> subprocess.Popen[bytes]:
        argv = command_line(self.spec, self.folder, modes)
        user = self._user
        if self._wrap is not None:
            argv, user = self._wrap(argv), None
        try:
            return subprocess.Popen(  # noqa: S603 - this Python, and arguments made here
                argv,
                stdin=subprocess.PIPE,
                stdout=words,
                stderr=words,
                pass_fds=(events, *self._descriptors),
                env=environment_for(self._user),
                process_group=0,  # the terminal's Ctrl-C is for h3probe, which ends it afterwards
                user=None if user is None else user.uid,
                group=None if user is None else user.gid,
                extra_groups=None if user is None else privileges.groups_of(user),
            )
        except OSError as error:
            raise UserError(f"mitmproxy cannot be started: {error.strerror}") from error

    def _tell(self, settings: Settings) -> None:
        if self._process is None or self._process.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):  # it has ended already, and `events` will say why
            self._process.stdin.write(settings.dump().encode())
            self._process.stdin.flush()
        os.set_blocking(self._process.stdin.fileno(), False)

    def _lost_its_port(self, died: ProxyDied) -> bool:
        """Whether somebody took a port that was free, and was to be any that is, before the process had it."""
        listens = [self.spec.listen, *(each.listen for each in self.spec.reverse)]
        any_port = any(listen is not None and listen.port == 0 for listen in listens)
        return any_port and any("address already in use" in line for line in died.last_words)

    # Reading

    def _read(self) -> list[Report]:
        if self._process is None or self._events < 0:
            return []
        self._listen()
        found: list[Report] = []
        ended = False
        for _ in range(BATCH // 65536):
            data = _some(self._events)
            if not data:
                ended = data is not None
                break
            for report in self._reports.take(data):
                if isinstance(report, ProxyReady):
                    self.ready, self.addresses = True, list(report.listening)
                found.append(report)
        if ended and not self._over:
            self._over = True
            status = self._exit_status()
            self._listen()
            found.append(self._died(status))
        return found

    def _listen(self) -> None:
        while data := _some(self._words):
            self._said += data
            del self._said[:-_LAST_WORDS]

    def _exit_status(self) -> int:
        if self._process is None:
            return 0
        try:
            status = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        return status if status >= 0 else 128 - status

    def _died(self, status: int) -> ProxyDied:
        lines = self._said.decode("utf-8", "backslashreplace").splitlines()
        words = tuple(line.rstrip()[:512] for line in lines if line.strip())
        return ProxyDied(time.time_ns(), status, words[-20:])

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        for descriptor in (self._events, self._words):
            if descriptor >= 0:
                os.close(descriptor)
        self._events = self._words = -1
        self._process = None


def _some(descriptor: int) -> bytes | None:
    """What there is to read: None for nothing now, nothing at the end."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None


def _enlarge(pipe: int) -> None:
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl  # noqa: PLC0415 - there is none on Windows

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)


def _reason(died: ProxyDied) -> str:
    words = [line for line in died.last_words if "exiting" not in line]
    return words[-1] if words else f"it ended with status {died.exit_status} and said nothing"
