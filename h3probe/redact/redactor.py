"""Frames in, redacted frames out, in the same order."""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from h3probe.redact.hello import Hellos
from h3probe.redact.packet import CannotRedactError, FrameRewriter, Held
from h3probe.redact.quic import QuicRewriter
from h3probe.redact.tcp import TcpRewriter

if TYPE_CHECKING:
    from h3probe.events import Frame
    from h3probe.redact.mapping import Mapping

HELD_NS: Final = 10_000_000_000
HELD_FRAMES: Final = 8_192
HELD_BYTES: Final = 16 << 20
_REASONS: Final = 64
# Names that kernels give; others may be a person's or a machine's, and some hold a MAC address.
_COMMON_INTERFACE: Final = re.compile(
    r"any|lo\d?|(?:eth|en|eno|enp|ens|wlan|wlp|wl|tun|tap|utun|docker|virbr|ppp|wg)[\dpsf]{0,8}"
)


class Redactor:
    """Redacts frame by frame; bounded in memory.

    A frame that holds a part of a name waits for the rest of it, and later frames wait with it: for 10 s of the
    capture's time at most, and for 8,192 frames or 16 MiB. Then what is not whole becomes noise.

    Args:
        mapping: What stands for what; it grows.

    Attributes:
        mapping: The same.
        dropped: Frames that were left out, by reason.
        unfinished: Frames that waited for longer than there was room or time.
        written: Frames given out.
        taken: Frames that were, or will be: the number of the last one among them.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.dropped: Counter[str] = Counter()
        self.unfinished = 0
        self.written = 0
        self.taken = 0
        hellos = Hellos(mapping)
        self._rewriter = FrameRewriter(mapping, QuicRewriter(mapping, hellos), TcpRewriter(mapping, hellos))
        self._held: deque[Held] = deque()
        self._held_bytes = 0
        self._interfaces: dict[str, str] = {}

    def frame(self, frame: Frame) -> list[Frame]:
        """Take a frame; return the frames that are ready, in order: often this one, perhaps none, perhaps many."""
        try:
            held = self._rewriter.frame(frame)
        except CannotRedactError as reason:
            text = str(reason)
            self.dropped[text if text in self.dropped or len(self.dropped) < _REASONS else "other reasons"] += 1
            return self._ready(frame.time_ns)
        self.taken += 1
        self._held.append(held)
        self._held_bytes += len(held.data)
        return self._ready(frame.time_ns)

    def finish(self) -> list[Frame]:
        """Return what still waits."""
        made = []
        while self._held:
            made.append(self._next())
        return made

    def interface(self, name: str | None) -> str | None:
        """Replace an interface's name, unless it is one that every kernel gives."""
        if name is None or _COMMON_INTERFACE.fullmatch(name):
            return name
        return self._interfaces.setdefault(name, f"interface{len(self._interfaces) + 1}")

    def _ready(self, now_ns: int) -> list[Frame]:
        made = []
        while self._held:
            first = self._held[0]
            full = len(self._held) > HELD_FRAMES or self._held_bytes > HELD_BYTES
            if not (first.ready or full or now_ns - first.frame.time_ns > HELD_NS):
                break
            made.append(self._next())
        return made

    def _next(self) -> Frame:
        held = self._held.popleft()
        self._held_bytes -= len(held.data)
        if not held.ready:
            self.unfinished += 1
            held.give_up()
        self.written += 1
        return held.build(self.interface(held.frame.interface))
