"""Where things stand in a waterfall: one time axis for all connections of an origin, long gaps cut out of it.

Pure geometry, in the units of the drawing (pixels at its natural size). A cut is never silent: it has a place of its
own on the axis, wider for a longer gap, and its duration is written there.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from typing import TYPE_CHECKING

from h3probe.text import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_CUTS = 10
"""Gaps cut out of one axis at the most; each takes room, and two attempts of a client have five each."""
TELLING = 0.2
"""A gap is worth a cut while it takes more than this of what is drawn to scale."""
DETAIL = 150
"""To scale, a gap this many times as long as the shortest one makes the shortest one vanish."""
SHORTEST = 0.000_5
"""Seconds: what is closer together need not be told apart by its place."""
LEAST_CUT = 0.3
"""Seconds: a shorter gap stays, since the lengths of a race's bars are to be compared."""
CUT_LEAST, CUT_MOST = 34.0, 74.0
POINT = 18.0
"""Room of a stretch in which only one thing happens."""
TICK_ROOM = 58.0
LABEL_SIZE = 11.5
"""Height of a label's letters; nobody knows here which font will draw them, so the widths are those of a wide one."""
NARROW, WIDE = frozenset(" .,:;'|!()[]ijltfr"), frozenset("mwMW_@%")


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the axis.

    Attributes:
        begin: Seconds since the first packet.
        end: The same.
        left: Where it begins in the drawing.
        right: Where it ends.
        cut: Whether it is a gap that is not drawn to scale.
    """

    begin: float
    end: float
    left: float
    right: float
    cut: bool

    @property
    def middle(self) -> float:
        """Where its name stands."""
        return (self.left + self.right) / 2

    @property
    def name(self) -> str:
        """How long it is."""
        return seconds(self.end - self.begin)


@dataclass(frozen=True, slots=True)
class Axis:
    """Time from left to right.

    Attributes:
        stretches: Without holes, in order; all that are no cuts have one scale.
    """

    stretches: tuple[Stretch, ...]

    @property
    def right(self) -> float:
        """Its right end."""
        return self.stretches[-1].right

    @property
    def cuts(self) -> list[Stretch]:
        """The gaps that are cut out."""
        return [stretch for stretch in self.stretches if stretch.cut]

    def x(self, at: float) -> float:
        """Where a moment stands; before the first one and after the last one, at the end."""
        index = bisect_right(self.stretches, at, key=lambda stretch: stretch.begin) - 1
        stretch = self.stretches[max(index, 0)]
        length = stretch.end - stretch.begin
        if length <= 0:
            return round(stretch.middle, 1)
        part = min(max((at - stretch.begin) / length, 0.0), 1.0)
        return round(stretch.left + part * (stretch.right - stretch.left), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and times to write below the axis, none of them on another one."""
        placed: list[tuple[float, str]] = []
        for stretch in self.stretches:
            if stretch.cut:
                continue
            for at in (stretch.begin, *_round_times(stretch)):
                x = self.x(at)
                room = [abs(x - other) for other, _ in placed]
                if not room or min(room) >= TICK_ROOM:
                    placed.append((x, f"{at:.3f} s" if at else "0 s"))
        return placed


def make_axis(times: Iterable[float], left: float, right: float) -> Axis:
    """Lay out an axis for things that happen at these times.

    Args:
        times: Seconds, in any order, at least one.
        left: Where the axis begins in the drawing.
        right: Where it ends.
    """
    ordered = sorted({round(at, 9) for at in times})  # no capture tells more than nanoseconds
    cuts = _cuts(ordered)
    # What is to scale: runs of times between the cuts.
    runs: list[tuple[float, float]] = []
    begin = ordered[0]
    for before, after in cuts:
        runs.append((begin, before))
        begin = after
    runs.append((begin, ordered[-1]))
    widths = _cut_widths([after - before for before, after in cuts])
    to_scale = sum(end - start for start, end in runs)
    free = right - left - POINT * len(runs)
    if widths and (not to_scale or sum(widths) > free):  # nothing but moments, or many cuts: these take what there is
        widths = [width * free / sum(widths) for width in widths]
    scale = max(free - sum(widths), 0.0) / to_scale if to_scale else 0.0
    stretches: list[Stretch] = []
    x = left
    for index, (start, end) in enumerate(runs):
        width = (end - start) * scale + POINT
        stretches.append(Stretch(start, end, x, x + width, cut=False))
        x += width
        if index < len(cuts):
            stretches.append(Stretch(end, cuts[index][1], x, x + widths[index], cut=True))
            x += widths[index]
    return Axis(tuple(stretches))


def _cuts(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """The gaps to cut out: the longest ones, while they hide what lies between the others."""
    gaps = sorted(pairwise(ordered), key=lambda pair: pair[0] - pair[1])
    lengths = [after - before for before, after in gaps]
    shortest = max(min(lengths, default=0.0), SHORTEST)
    rest = sum(lengths)
    chosen = 0
    for length in lengths[:MOST_CUTS]:
        if length < max(LEAST_CUT, TELLING * rest, DETAIL * shortest):
            break
        rest -= length
        chosen += 1
    return sorted(gaps[:chosen])


def _cut_widths(lengths: Sequence[float]) -> list[float]:
    """A place each, wider for a longer gap; the steps are those of the logarithm."""
    if not lengths:
        return []
    low, high = log10(min(lengths)), log10(max(lengths))
    span = (high - low) or 1.0
    return [CUT_LEAST + (CUT_MOST - CUT_LEAST) * (log10(length) - low) / span for length in lengths]


def _round_times(stretch: Stretch) -> list[float]:
    """Round times within a stretch, as many as there is room for."""
    length = stretch.end - stretch.begin
    fitting = int((stretch.right - stretch.left) // (2 * TICK_ROOM))
    if length <= 0 or not fitting:
        return []
    least = length / fitting
    power = 10.0 ** floor(log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)
    first = floor(stretch.begin / step) + 1
    return [number * step for number in range(first, first + fitting + 1) if number * step <= stretch.end]


@dataclass(frozen=True, slots=True)
class Label:
    """A text in the drawing.

    Attributes:
        x: Where it is anchored.
        text: What it says.
        anchor: `start` or `end`: to which side of `x` it stands.
    """

    x: float
    text: str
    anchor: str


def text_width(text: str, size: float = LABEL_SIZE) -> float:
    """How wide a label is, about."""
    return size * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if letter in NARROW:
        return 0.37
    if letter in WIDE:
        return 0.9
    return 0.7 if letter.isupper() else 0.63 if letter.isascii() else 1.0


def place_labels(
    wanted: Iterable[tuple[float, str]], left: float, right: float, size: float = LABEL_SIZE
) -> list[Label]:
    """Place texts beside points of one line; what finds no room is left out.

    Args:
        wanted: A point and its text, the most important one first.
        left: Where the line begins.
        right: Where it ends.
        size: Height of the letters.
    """
    taken: list[tuple[float, float]] = []
    placed: list[Label] = []
    for x, text in wanted:
        width = text_width(text, size)
        for anchor, start in (("start", x - 5), ("end", x + 5 - width)):
            fits = start >= left - 5 and start + width <= right
            if fits and all(start + width + 8 <= a or start >= b + 8 for a, b in taken):
                taken.append((start, start + width))
                placed.append(Label(start if anchor == "start" else start + width, text, anchor))
                break
    return placed
