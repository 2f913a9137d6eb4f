"""Differences between two captures for people: A and B side by side, and below them what explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from h3probe.diagnose.difference import NOISE_S, NOISE_SHARE
from h3probe.show.layout import wrap
from h3probe.text import count, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h3probe.records import DifferenceRecord, DifferenceSide, TimeDifference
    from h3probe.show.console import Console, Part

LABEL = 12
"""Cells of the first column, the gap after it included."""
GAP = 2
LEAST_COLUMN = 20
"""Cells; with narrower columns A stands above B."""
TIMES = {"quic-ready": "QUIC ready", "tcp-ready": "TCP ready", "cost": "lost", "head-start": "head start"}
NOTHING = "-"

Row = tuple[str, str, str]
"""A label, and what A and B have."""


def show(console: Console, names: tuple[str, str], differences: Sequence[DifferenceRecord]) -> None:
    """Print them all, those that are the same last and in one line each."""
    for letter, name in zip("AB", names, strict=True):
        console.row([(f"{letter}  ", "bold")], name)
    changed = [difference for difference in differences if not difference.same]
    for difference in changed:
        console.heading(_title(difference))
        for row in _rows(difference):
            _draw(console, row)
        console.row([(f"{console.symbols.advice} ", "bold")], difference.sentence)
    same = [difference for difference in differences if difference.same]
    if same:
        console.heading("No difference")
        for difference in same:
            console.row([(f"{console.symbols.good} ", "green")], f"{_title(difference)}: {difference.sentence}")
    console.blank()
    console.note(_figures(len(changed), len(same)))


def _title(difference: DifferenceRecord) -> str:
    clients = {side.client for side in (difference.a, difference.b) if side is not None}
    origin = difference.origin or "origin not known"
    return f"{origin}, client {clients.pop()}" if len(clients) == 1 else origin


def _rows(difference: DifferenceRecord) -> Iterator[Row]:
    a, b = difference.a, difference.b
    yield "", "A", "B"
    if a is not None and b is not None and a.client != b.client:
        yield "client", a.client, b.client
    yield "verdict", _verdict(a), _verdict(b)
    for label, texts in (
        ("HTTP/3", (_http3(a), _http3(b))),
        ("QUIC", (_outcomes(a, "quic"), _outcomes(b, "quic"))),
        ("TCP", (_outcomes(a, "tcp"), _outcomes(b, "tcp"))),
        ("findings", (", ".join(a.rules) if a else "", ", ".join(b.rules) if b else "")),
    ):
        if any(texts):
            yield label, texts[0] or NOTHING, texts[1] or NOTHING
    for time in difference.times:
        yield TIMES[time.what], _seconds(time.a), _seconds(time.b) + _change(time)


def _verdict(side: DifferenceSide | None) -> str:
    return "not in this capture" if side is None else side.verdict


def _http3(side: DifferenceSide | None) -> str:
    if side is None:
        return ""
    if side.versions:
        return ", ".join(f"{number} over {version}" for version, number in sorted(side.versions.items()))
    return {True: "used", False: "not used", None: "not known"}[side.http3]


def _outcomes(side: DifferenceSide | None, transport: str) -> str:
    if side is None:
        return ""
    outcomes = side.quic if transport == "quic" else side.tcp
    return ", ".join(outcome or "end not seen" for outcome in outcomes)


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else seconds(value)


def _change(time: TimeDifference) -> str:
    if time.change is None:
        return ""
    return " (noise)" if time.noise else f" ({'+' if time.change > 0 else ''}{seconds(time.change)})"


def _draw(console: Console, row: Row) -> None:
    label, *texts = (console.say(text) for text in row)
    width = (console.width - LABEL - GAP) // 2
    if width >= LEAST_COLUMN:
        first, second = (wrap(text, width) for text in texts)
        for number in range(max(len(first), len(second))):
            left = first[number] if number < len(first) else ""
            right = second[number] if number < len(second) else ""
            parts: list[Part] = [
                (f"{label if number == 0 else '':<{LABEL}}", "dim"),
                (left + " " * (width - cell_len(left) + GAP), "" if label else "bold"),
                (right, "" if label else "bold"),
            ]
            console.line(parts)
    elif label:
        for letter, text in zip("AB", texts, strict=True):
            console.row([(f"{label if letter == 'A' else '':<{LABEL}}", "dim"), (f"{letter} ", "bold")], text)


def _figures(changed: int, same: int) -> str:
    if not changed:
        return f"No difference in {count(same, 'origin')}." if same else "Neither capture has anything to judge."
    noise = f"times that differ by less than {seconds(NOISE_S)} or {NOISE_SHARE:.0%} of the larger one are noise"
    return f"{count(changed, 'origin')} {'differs' if changed == 1 else 'differ'}, {same} the same; {noise}."
