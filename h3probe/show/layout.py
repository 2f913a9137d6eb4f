"""Cells and lines: wrapping, shortening, and what a stream's terminal can show.

Widths are in terminal cells: an East Asian wide character takes two, a combining mark none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len, set_cell_size

from h3probe.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_WIDTH = 80
LONGEST = 4000
"""Characters of one text that are shown at most."""
SIGNS = "./,:;&?=-_"
"""After these a word may be broken that is too long for a line."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """The signs of the console, all told apart by shape and not by colour alone."""

    outgoing: str = "→"
    incoming: str = "←"
    neither: str = "·"
    good: str = "✓"
    bad: str = "✗"
    notice: str = "!"
    info: str = "·"
    plain: str = "•"
    cut: str = "…"
    line: str = "─"
    times: str = "×"  # noqa: RUF001 - a multiplication sign is meant
    advice: str = "→"


ASCII = Symbols("->", "<-", "--", "+", "x", "!", "-", "*", "...", "-", "x", "->")

_SPELLINGS = str.maketrans(
    {"→": "->", "←": "<-", "…": "...", "×": "x", "·": "-", "•": "*", "–": "-", "—": "-", "µ": "u", "’": "'"}  # noqa: RUF001 - the same
)


def symbols_for(encoding: str | None) -> Symbols:
    """The signs that a stream of this encoding can carry."""
    try:
        "→←·✓✗•…─×µ".encode(encoding or "ascii")  # noqa: RUF001 - the same
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return Symbols()


def writable(text: str, encoding: str | None) -> str:
    """Clean a text and spell what the encoding lacks in ASCII, so that writing it cannot fail."""
    text = clean(text, LONGEST)
    if text.isascii():
        return text
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text.translate(_SPELLINGS).encode("ascii", "backslashreplace").decode("ascii")
    return text


def wants_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to colour by default: a terminal that can, and nobody who said no (https://no-color.org)."""
    if environ.get("NO_COLOR") or environ.get("TERM", "") in {"dumb", "unknown"}:
        return False
    return bool(environ.get("FORCE_COLOR")) or stream.isatty()


def terminal_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Columns to fill: COLUMNS, else the terminal's own width, else 80."""
    columns = environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):  # no terminal, or no file at all
        return DEFAULT_WIDTH


def wrap(text: str, width: int) -> list[str]:
    """Break a text at its spaces into lines of at most `width` cells; a longer word is broken where it must be.

    Returns:
        At least one line; none has spaces at its end.
    """
    width = max(width, 2)  # a wide character has to fit
    lines: list[str] = []
    line = ""
    room = width
    for word in text.split():
        size = cell_len(word)
        needed = size + 1 if line else size
        if needed <= room:
            line, room = (f"{line} {word}" if line else word), room - needed
            continue
        if line:
            lines.append(line)
        *full, line = _pieces(word, width) if size > width else [word]
        lines += full
        room = width - cell_len(line)
    return [*lines, line] if line or not lines else lines


def _pieces(word: str, width: int) -> list[str]:
    """Cut a word into pieces of at most `width` cells, after one of `SIGNS` where that leaves no line short."""
    pieces: list[str] = []
    piece, used = "", 0
    for character in word:
        size = cell_len(character)
        while used + size > width:  # a wide character may want more room than one sign leaves
            sign = max(map(piece.rfind, SIGNS))
            keep = sign + 1 if sign > len(piece) // 4 else len(piece)
            pieces.append(piece[:keep])
            piece = piece[keep:]
            used = cell_len(piece)
        piece, used = piece + character, used + size
    return [*pieces, piece]


def shorten(text: str, width: int, cut: str, tail: int = 0) -> str:
    """Cut a text to `width` cells, the sign `cut` in the place of what is missing.

    Args:
        text: Any text.
        width: Cells at most; where not even `tail` and `cut` fit, they are what remains.
        cut: `…` or the like.
        tail: Characters at the end to keep (a port).
    """
    if cell_len(text) <= width:
        return text
    end = text[len(text) - tail :]
    return set_cell_size(text, max(width - len(cut) - cell_len(end), 0)).rstrip() + cut + end
