"""Reads what only counts: after everything else, now and then, and in blocks once there is much of it.

Nobody waits for it. So it stays in its ring for two seconds, or until that is half full, which is long enough for most
transfers to be over: what reading takes is not taken from them.
"""

from __future__ import annotations

import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from h3probe.events import Uncounted
from h3probe.vantage.bulk import flows_of
from h3probe.vantage.ordinary import SEGMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from h3probe.events import Block, Frame
    from h3probe.vantage.bulk import Bulk, Ports
    from h3probe.vantage.packets import Packet, Source
    from h3probe.vantage.ring import Ring

LOOK_S: Final = 2.0
"""How long it may wait; less than a connection is kept for late packets (`h3probe.track.quic.LINGER_NS`)."""
RECORDED_LOOK_S: Final = 0.1
"""Likewise where it is recorded: in a file it stands behind what decided in the meantime."""
AT_ONCE: Final = 8_192
"""Packets read at once in blocks, and by and large: some milliseconds."""
FRAMES_AT_ONCE: Final = 128
"""Likewise one by one."""
LARGE: Final = 4_096
"""Packets from which on numpy is loaded for them."""


class Wide:
    """The wide socket's reader.

    Args:
        source: Has the socket, as soon as there is one.
        numbers: Where frame numbers come from.
        frame: Makes a frame of a packet; None for a copy of one.

    Attributes:
        look_s: How long packets may wait.
        one_by_one: Whether each packet is to be a frame, however many there are.
        more_waits: Whether there was more than was read at the last look.
        copies: Packets of blocks that were left out, since they are seen on another interface as well.
        unread: Those that were left behind at the end.
    """

    def __init__(self, source: Source, numbers: Iterator[int], frame: Callable[[Packet], Frame | None]) -> None:
        self._source = source
        self._numbers = numbers
        self._frame = frame
        self._late: list[Packet] = []
        self._looked = time.monotonic()
        self._received = 0
        self.more_waits = False
        self._seen = self._reported = 0
        self.look_s = LOOK_S
        self.one_by_one = False
        self.copies = self.unread = 0

    def read(self, late: list[Packet], bulk: Bulk | None, *, at_once: bool = False) -> list[Frame | Block]:
        """What waits, in part; nothing before it is time to look.

        Args:
            late: Packets that only count, and came to the narrow socket before it was told.
            bulk: Told of what is read.
            at_once: Whether it is time.
        """
        self._late += late
        ring = self._source.wide
        if ring is None and not self._late:
            self._looked = time.monotonic()
            return []
        if not (at_once or self.more_waits or self._is_time(ring)):
            return []
        self._looked = time.monotonic()
        late, self._late = self._late, []
        waiting = len(late) + (0 if ring is None else ring.unread())
        in_blocks = self._seen + waiting >= LARGE and not self.one_by_one
        most = AT_ONCE if in_blocks else FRAMES_AT_ONCE
        taken, total = self._take(ring, most)
        self.more_waits = total >= most
        self._seen += len(late) + total
        if in_blocks:
            try:
                found, flows = self._blocks(ring, taken, late, bulk)
            except ImportError:  # the user who called sudo may not read root's Python
                in_blocks, self.one_by_one = False, True
        if not in_blocks:
            found, flows = self._frames(ring, taken, late)
        if bulk is not None:
            received = 0 if ring is None else ring.statistics()[0]
            bulk.counted(flows, total, received - self._received)
            self._received = received
            bulk.calm_down(time.time_ns())
        return found

    def _is_time(self, ring: Ring | None) -> bool:
        if len(self._late) >= LARGE or time.monotonic() - self._looked >= self.look_s:
            return True
        return ring is not None and ring.waits(2)

    def _take(self, ring: Ring | None, most: int) -> tuple[list[tuple[bytes, int]], int]:
        taken: list[tuple[bytes, int]] = []
        total = 0
        while ring is not None and total < most and (piece := ring.take_block()) is not None:
            taken.append(piece)
            total += piece[1]
        return taken, total

    def _frames(
        self, ring: Ring | None, taken: list[tuple[bytes, int]], late: list[Packet]
    ) -> tuple[list[Frame | Block], dict[Ports, tuple[int, int]]]:
        packets = [each for piece in taken if ring is not None for each in ring.packets(*piece)]
        frames = [frame for packet in (*late, *packets) if (frame := self._frame(packet)) is not None]
        return [*frames], flows_of(packets)

    def _blocks(
        self, ring: Ring | None, taken: list[tuple[bytes, int]], late: list[Packet], bulk: Bulk | None
    ) -> tuple[list[Frame | Block], dict[Ports, tuple[int, int]]]:
        from h3probe.vantage import counting  # noqa: PLC0415 - it needs numpy, which takes its time to load

        found = [counting.gather(late, SEGMENT)] if late else []
        flows: dict[Ports, tuple[int, int]] = {}
        if taken and ring is not None:
            found.append(counting.read_taken(taken, ring.name))
            flows = counting.flows_in(found[-1].blocks, bulk.apart.flows if bulk is not None else ())
        self.copies += sum(each.copies for each in found)
        blocks = [block for each in found for block in each.blocks]
        return [*counting.numbered(blocks, self._numbered)], flows

    def _numbered(self, count: int) -> int:
        first = next(self._numbers)
        deque(islice(self._numbers, count - 1), maxlen=0)
        return first

    @property
    def given(self) -> int:
        """Packets of the socket that were read."""
        return 0 if self._source.wide is None else self._source.wide.given

    @property
    def holds_back(self) -> bool:
        """Whether there are packets of the narrow socket that it has not given."""
        return bool(self._late)

    def waiting(self) -> int:
        """Packets of the socket that were not."""
        return 0 if self._source.wide is None else self._source.wide.unread()

    @property
    def lost(self) -> int:
        """Packets that were not counted."""
        ring = self._source.wide
        return self.unread + (0 if ring is None else ring.statistics()[1])

    def losses(self) -> list[Uncounted]:
        """What was lost since the last call."""
        lost = self.lost
        if lost == self._reported:
            return []
        lost, self._reported = lost - self._reported, lost
        return [Uncounted(lost, "more came than could be counted")]
