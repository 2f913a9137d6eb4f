"""Many packets in pcapng at once: Enhanced Packet Blocks made with numpy (draft-ietf-opsawg-pcapng, 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from h3probe.capture.pcapng import ENHANCED_PACKET

if TYPE_CHECKING:
    from h3probe.events import Block

_HEAD = 28
_AROUND = 32


def enhanced_packets(block: Block, interface: int) -> bytes:
    """The packets of a block, as `PcapngWriter.packet` writes each of them.

    Args:
        block: The packets; their times become ticks of a nanosecond.
        interface: Its number in the file.
    """
    captured = block.captured
    sizes = (captured + 3 & ~3) + _AROUND
    starts = np.cumsum(sizes) - sizes
    made = np.zeros(int(sizes.sum()), np.uint8)
    words, at = made.view("<u4"), starts >> 2
    ticks = np.maximum(block.times_ns, 0)
    head = (ENHANCED_PACKET, sizes, interface, ticks >> 32, ticks & 0xFFFFFFFF, captured, block.lengths)
    for place, value in enumerate(head):
        words[at + place] = value
    words[at + (sizes >> 2) - 1] = sizes
    data = np.frombuffer(block.data, np.uint8)
    for length in np.unique(captured).tolist():  # a few: headers with or without options
        rows = np.flatnonzero(captured == length)
        part = np.arange(length)
        made[(starts[rows] + _HEAD)[:, None] + part] = data[block.starts[rows][:, None] + part]
    return made.tobytes()
