"""`-w` with `--keylog`: a capture file that holds the secrets of what is in it."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from h3probe.events import Secrets
from h3probe.run.recorder import Recorder

if TYPE_CHECKING:
    from h3probe.events import Event, Frame
    from h3probe.run.output import Output
    from h3probe.track.tracker import Tracker

# Most readers open a packet only with secrets that stand before it, and a client writes them a little after it.
HOLD_S = 1.0
HOLD_LIMIT = 16 << 20


class KeyedRecorder(Recorder):
    """Writes whole flows, and secrets ahead of the packets that came just before them."""

    def __init__(self, path: str, output: Output, *, force: bool) -> None:
        super().__init__(path, output, full=True, force=force)
        self._held: deque[tuple[float, Frame, Tracker]] = deque()
        self._bytes = 0

    def frame(self, frame: Frame, tracker: Tracker) -> None:
        """Take one frame; it is written a second later."""
        self._held.append((time.monotonic() + HOLD_S, frame, tracker))
        self._bytes += len(frame.data)
        self._release(time.monotonic())

    def observed(self, event: Event) -> None:
        """Write secrets at once."""
        if self.stopped or not isinstance(event, Secrets) or not event.key_log:
            return
        try:
            self._writer.secrets(event.key_log)
        except OSError as error:
            self._fail(error)

    def flush_if_due(self) -> None:
        """Write what was held long enough, too."""
        self._release(time.monotonic())
        super().flush_if_due()

    def close(self, dropped: int | None) -> None:
        """Write everything that was held, too."""
        self._release(float("inf"))
        super().close(dropped)

    def _release(self, now: float) -> None:
        while self._held and (self._held[0][0] <= now or self._bytes > HOLD_LIMIT):
            _, frame, tracker = self._held.popleft()
            self._bytes -= len(frame.data)
            super().frame(frame, tracker)
