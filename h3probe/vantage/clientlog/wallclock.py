"""The time of a log that tells a clock's face and nothing more: no date, no zone, or both in an unknown language."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from h3probe.track.clock import NS

# Clocks of all zones agree on the minutes within a quarter of an hour: what differs by more is zone, or date.
QUARTER_NS: Final = 900 * NS
# How much more the client's own clock counts than a server's `Date`.
OWN_CLOCK: Final = 100
_ANCHORS: Final = 10_000
_FACE: Final = re.compile(r"(?<![\d:])(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?![\d:])")


class WallClock:
    """Times of one log, relative to a start that moments known in UTC (`anchor`) settle.

    Args:
        hours: After how many hours the face shows the same again: 12 or 24. Two lines further apart than half of that
            are taken for closer.

    Attributes:
        now_ns: The time of the latest face, from an unknown start; None before the first one.
        within_ns: How far off the face may be.
    """

    def __init__(self, hours: int) -> None:
        self._period_ns = hours * 3600 * NS
        self.now_ns: int | None = None
        self.within_ns = 0
        self._bases: Counter[int] = Counter()

    def face(self, text: str) -> bool:
        """Look for a clock's face (`1:14:45`, `13:14:45.123456`) in a text, and go on to it."""
        found = _FACE.search(text)
        if found is None:
            return False
        hour, minute, second = int(found[1]), int(found[2]), int(found[3])
        fraction = found[4] or ""
        face_ns = (hour * 3600 + minute * 60 + second) * NS + int(fraction.ljust(9, "0"))
        if self.now_ns is None:
            self.now_ns = face_ns % self._period_ns
        else:
            half = self._period_ns // 2
            self.now_ns += (face_ns - self.now_ns + half) % self._period_ns - half
        self.within_ns = max(self.within_ns, NS // 10 ** len(fraction))
        return True

    def anchor(self, utc_ns: int, weight: int = 1) -> None:
        """Take note that the latest face was at this moment, by and large."""
        if self.now_ns is not None and (len(self._bases) < _ANCHORS):
            self._bases[_base(utc_ns, self.now_ns)] += weight

    def base_ns(self, end_ns: int) -> int:
        """Return what is to be added to this clock's times to have nanoseconds since the epoch.

        Args:
            end_ns: When the log ended, for one without anchors.
        """
        if self._bases:
            return self._bases.most_common(1)[0][0]
        return _base(end_ns, self.now_ns or 0)


def _base(utc_ns: int, face_ns: int) -> int:
    return (utc_ns - face_ns + QUARTER_NS // 2) // QUARTER_NS * QUARTER_NS


def http_date(text: str) -> int | None:
    """The nanoseconds since the epoch of an HTTP date (RFC 9110, 5.6.7); None where it is none."""
    try:
        moment = parsedate_to_datetime(text[:64].strip())
        return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()) * NS
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def iso_utc(text: str) -> int | None:
    """The nanoseconds since the epoch of `2026-11-30T13:15:16.35Z`, to the second; None where it is none."""
    try:
        return int(datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()) * NS
    except (ValueError, OverflowError):
        return None


class EpochClock(WallClock):
    """The clock of a log whose times are the epoch's already."""

    def __init__(self) -> None:
        super().__init__(24)

    def base_ns(self, end_ns: int) -> int:
        """Nothing is to be added."""
        del end_ns
        return 0
