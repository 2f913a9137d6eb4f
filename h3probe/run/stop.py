"""Ctrl-C, SIGTERM and SIGHUP: the first one ends a run cleanly, with its summary; the second one ends it at once."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

# A terminal that is closed ends a run as Ctrl-C does; Windows has no SIGHUP.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

# timeout(1) and others signal a process and then its whole group: the same signal twice, within less than this.
ECHO_S = 0.25


class Stop:
    """A request to end, made by a signal; a context manager that holds the handlers.

    Args:
        on_signal: Called with each signal's number, the first one's and further ones'.

    Attributes:
        requested: The number of the first signal, None before it.
        wake: A socket that becomes readable with a signal, for a selector.
    """

    def __init__(self, on_signal: Callable[[int], None] | None = None) -> None:
        self.requested: int | None = None
        self.wake, self._write = socket.socketpair()
        self.wake.setblocking(False)
        self._write.setblocking(False)
        self._on_signal = on_signal
        self._requested_at = 0.0
        self._old: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._old[number] = signal.signal(number, self._handle)
        if self._on_signal is not None and hasattr(signal, "SIGQUIT"):
            # A terminal's Ctrl-\ reaches the command too, and asks a JVM for its threads. No SIG_IGN: it is inherited.
            self._old[signal.SIGQUIT] = signal.signal(signal.SIGQUIT, lambda *_: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self.wake.close()
        self._write.close()

    def drain(self) -> None:
        """Take what made `wake` readable."""
        try:
            self.wake.recv(64)
        except BlockingIOError:
            return

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == self.requested and time.monotonic() - self._requested_at < ECHO_S:
            return
        if self._on_signal is not None:
            self._on_signal(number)
        if self.requested is not None:
            os._exit(128 + number)
        self.requested, self._requested_at = number, time.monotonic()
        try:
            self._write.send(b"\0")
        except OSError:
            return
