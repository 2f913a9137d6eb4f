"""Blocks of frames, for the tests of what takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from h3probe.events import Block
from h3probe.events.block import PADDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.events import Frame


def in_a_block(frames: Sequence[Frame]) -> Block:
    """The frames, all of one interface, as the wide socket's reader gives them."""
    captured = np.array([len(frame.data) for frame in frames], np.int64)
    return Block(
        frames[0].number,
        frames[0].link_type,
        bytearray(b"".join(frame.data for frame in frames) + bytes(PADDING)),
        np.cumsum(captured) - captured,
        captured,
        np.array([frame.length for frame in frames], np.int64),
        np.array([frame.time_ns for frame in frames], np.int64),
        frames[0].interface,
    )
