"""The command that `watch -- COMMAND` runs, as a shell would run it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Protocol, Self

from h3probe.errors import CommandError
from h3probe.vantage import privileges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_GRACE_S = 2.0


class Process(Protocol):
    """As much of `subprocess.Popen` as is used here."""

    pid: int

    def poll(self) -> int | None:
        """Its status, a signal as a negative number; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Likewise, but wait; `subprocess.TimeoutExpired` after `timeout` seconds."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it runs still."""

    def kill(self) -> None:
        """Send it SIGKILL."""


class Running:
    """A process with this terminal and these standard streams, in this process group; untouched by default.

    A terminal's Ctrl-C therefore reaches both, and the command decides for itself what it means. As a context manager
    it does not outlive its block: one that still runs then is told to end, and is killed after a while.
    """

    def __init__(self, argv: Sequence[str], process: Process) -> None:
        self.argv = list(argv)
        self._interrupted = False
        self._process = process

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit status as a shell has it (128 + n for signal n); None while it runs."""
        return _status(self._process.poll())

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for its end, and return the status as `poll` does; None after `timeout` seconds."""
        try:
            return _status(self._process.wait(timeout))
        except subprocess.TimeoutExpired:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.forward(signal.SIGTERM)
        if self.wait(_GRACE_S) is None:
            self.forward(signal.SIGKILL)
            self.wait()

    def forward(self, number: int) -> None:
        """Pass on a signal that this process was sent: the first as it is, a second one as SIGKILL.

        A first SIGINT from the terminal has reached the command already.
        """
        if self.poll() is not None:
            return
        if self._interrupted:
            self._process.kill()
        elif not (number == signal.SIGINT and _terminal_has_sent_it()):
            self._process.send_signal(number)
        self._interrupted = True


class Command(Running):
    """A child process.

    Args:
        argv: The command and its arguments.
        env: Its environment; this process's own, or that of `user`, unless given.
        user: Whom it runs as, when this process is root.
        stdout: The descriptor it gets as standard output; this process's own unless given.
        stderr: The same for standard error.

    Raises:
        CommandError: It could not be started; with the exit status a shell gives, 126 or 127.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: dict[str, str] | None = None,
        user: privileges.User | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        if env is None and user is not None:
            env = privileges.environment_of(user)
        super().__init__(argv, _start(list(argv), env, user, (stdout, stderr)))


def _start(
    argv: list[str], env: dict[str, str] | None, user: privileges.User | None, streams: tuple[int | None, int | None]
) -> subprocess.Popen[bytes]:
    name, (stdout, stderr) = argv[0], streams
    try:
        if user is None:
            return subprocess.Popen(  # noqa: S603 - the user's own command is what this is for
                argv, env=env, stdout=stdout, stderr=stderr
            )
        groups = privileges.groups_of(user)
        return subprocess.Popen(  # noqa: S603 - the same
            argv, env=env, stdout=stdout, stderr=stderr, user=user.uid, group=user.gid, extra_groups=groups
        )
    except OSError as error:
        raise start_failure(name, error, user) from error
    except ValueError as error:
        raise CommandError(f"{name!r}: not a command that can be run ({error})", 126) from error


def start_failure(name: str, error: OSError, user: privileges.User | None) -> CommandError:
    """Word why a command could not be started, with the exit status a shell gives."""
    found = shutil.which(name) is not None
    if isinstance(error, FileNotFoundError) and found:
        return CommandError(f"{name}: the interpreter in its first line does not exist", 127)
    # A folder of PATH that may not be entered makes a missing command look like a forbidden one.
    if isinstance(error, FileNotFoundError) or (os.sep not in name and not found):
        hint = "" if user is None else " (sudo has a PATH of its own; give the whole path)"
        return CommandError(f"{name}: command not found{hint}", 127)
    return CommandError(f"{name}: {error.strerror}", 126)


def _status(returned: int | None) -> int | None:
    return returned if returned is None or returned >= 0 else 128 - returned


def _terminal_has_sent_it() -> bool:
    """Whether this process group is the one in a terminal's foreground, which Ctrl-C goes to."""
    for descriptor in (0, 1, 2):
        try:
            return os.tcgetpgrp(descriptor) == os.getpgrp()
        except (OSError, AttributeError):
            continue
    return False
