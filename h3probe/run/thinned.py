"""A capture read fast: its first packets one by one, and once it turns out to be large, in blocks."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.capture import CaptureReader
    from h3probe.events import Event
    from h3probe.track.tracker import Tracker
    from h3probe.wire.packet import Transported

LARGE = 2 * 1024 * 1024
"""Bytes from which on loading numpy is worth its while."""


def thinned(reader: CaptureReader, tracker: Tracker) -> Iterator[Event | Transported]:
    """What there is to feed to the engine; each event has to be fed before the next one is asked for.

    Args:
        reader: The capture.
        tracker: The engine's.
    """
    if _size(reader) < LARGE:
        # Compressed, or as it comes: only reading tells how large it is.
        for event in reader:
            yield event
            if reader.offset >= LARGE:
                break
        else:
            return
    from h3probe.track.thinning import Thinning  # noqa: PLC0415 - it needs numpy, which takes its time to load

    thinning = Thinning(tracker)
    while True:
        # Whoever has secrets looks into every packet.
        block = reader.block() if tracker.decrypter is None else None
        if block is not None:
            yield from thinning.events(block)
            continue
        for event in reader:
            yield event
            thinning.fed()
            break
        else:
            return


def _size(reader: CaptureReader) -> int:
    """The size of an uncompressed file; 0 where it is not known."""
    stream = reader.stream
    if stream is None or reader.compression is not None:
        return 0
    try:
        found = os.fstat(stream.fileno())
    except (OSError, AttributeError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
