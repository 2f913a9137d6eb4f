"""A moment at which a packet proved something: its frame number and its time."""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """Where and when.

    Attributes:
        frame: Frame number from 1; None where no packet shows it, but the proxy's report does.
        time_ns: Nanoseconds since the epoch.
    """

    frame: int | None
    time_ns: int
