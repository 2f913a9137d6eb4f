"""A table of texts: columns side by side where the terminal is wide enough, else one below the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from h3probe.show.layout import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h3probe.show.console import Console, Part

_GAP = 2
_LEAST_COLUMN = 18
"""Cells; with narrower columns texts cannot be read."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row.

    Attributes:
        mark: A sign before it, one cell, and its style.
        cells: A text for each column, or several paragraphs.
    """

    mark: Part
    cells: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        columns: Their headings.
        shares: How the width is divided among them.
        groups: Rows under a title each.
    """

    columns: Sequence[str]
    shares: Sequence[int]
    groups: Sequence[tuple[str, Sequence[Row]]]

    def draw(self, console: Console) -> None:
        """Print it."""
        room = console.width - _GAP - _GAP * (len(self.columns) - 1)
        widths = [room * share // sum(self.shares) for share in self.shares]
        beside = min(widths) >= _LEAST_COLUMN
        if beside:
            headings: list[Part] = [(" " * _GAP, "")]
            headings += [(self._padded(name, width), "dim") for name, width in zip(self.columns, widths, strict=True)]
            console.line(headings)
        for title, rows in self.groups:
            console.heading(title)
            for row in rows:
                if beside:
                    self._beside(console, row, widths)
                else:
                    self._below(console, row)

    def _beside(self, console: Console, row: Row, widths: Sequence[int]) -> None:
        columns = [list(_paragraphs(console, cell, width)) for cell, width in zip(row.cells, widths, strict=True)]
        for number in range(max(map(len, columns))):
            parts: list[Part] = [(row.mark[0] + " ", row.mark[1]) if number == 0 else (" " * _GAP, "")]
            for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
                text = column[number] if number < len(column) else ""
                parts.append((self._padded(text, width), "bold" if place == 0 else ""))
            console.line(parts)

    def _below(self, console: Console, row: Row) -> None:
        labels = [f"{name}  " for name in self.columns]
        width = max(map(len, labels))
        first: list[Part] = [(row.mark[0] + " ", row.mark[1])]
        for place, (label, cell) in enumerate(zip(labels, row.cells, strict=True)):
            for number, text in enumerate(cell):
                before: list[Part] = first if place == number == 0 else [(" " * _GAP, "")]
                console.row([*before, (f"{label if number == 0 else '':<{width}}", "dim")], text)

    @staticmethod
    def _padded(text: str, width: int) -> str:
        return text + " " * (width - cell_len(text) + _GAP)


def _paragraphs(console: Console, texts: Sequence[str], width: int) -> Iterator[str]:
    for text in texts:
        yield from wrap(console.say(text), width)
