"""A command that runs in an isolation, as h3probe's own process has it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import ExitStack
    from io import FileIO

_PATIENCE_S = 15.0


class Reports(Protocol):
    """Where reports about processes come from; an `Isolation`."""

    def receive_waiting(self, timeout: float = 0.0) -> None:
        """Take in what has been reported; wait for the first report for `timeout` seconds at most."""


class RemoteProcess:
    """A command that process 1 of the isolation has started, with as much of `Popen` as `Running` uses."""

    def __init__(self, isolation: Reports) -> None:
        self._isolation = isolation
        self._descriptor = -1
        self._executed: int | None = None
        self.pid = 0
        self.returncode: int | None = None

    def take(self, kind: str, message: dict[str, Any], sender: int) -> None:
        """Take in a report about it; the number of its sender is the kernel's word, in this process's terms."""
        if kind == "command":
            self.pid = sender
            with contextlib.suppress(OSError):
                self._descriptor = os.pidfd_open(sender)
        elif kind == "executed":
            self._executed = message["errno"]
        else:
            self.returncode = message["status"]

    def lost(self) -> None:
        """The isolation is over, and everything in it killed."""
        if self.returncode is None:
            self.returncode = -signal.SIGKILL
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def wait_until_executed(self) -> int:
        """Wait until it runs; 0, or the errno of why it does not."""
        while self._executed is None and self.returncode is None:
            self._isolation.receive_waiting(_PATIENCE_S)
        return self._executed or 0

    def poll(self) -> int | None:
        """As `Popen.poll`."""
        if self.returncode is None:
            self._isolation.receive_waiting()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """As `Popen.wait`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = _PATIENCE_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired([], timeout or 0.0)
            self._isolation.receive_waiting(left)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """As `Popen.send_signal`; it reaches no other process that got the number later."""
        if self._descriptor >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, sig)

    def kill(self) -> None:
        """As `Popen.kill`."""
        self.send_signal(signal.SIGKILL)


def order_file(text: str) -> FileIO:
    """Give a file without a name that holds a text."""
    file = os.fdopen(os.memfd_create("order"), "w+b", buffering=0)
    file.write(text.encode())
    return file


def standard_streams(stack: ExitStack, stdout: int, stderr: int) -> list[int]:
    """Give the three standard streams; one that is closed here is nowhere inside."""
    streams = [0, stdout, stderr]
    for place, descriptor in enumerate(streams):
        try:
            os.fstat(descriptor)
        except OSError:
            streams[place] = nowhere = os.open(os.devnull, os.O_RDWR)
            stack.callback(os.close, nowhere)
    return streams
