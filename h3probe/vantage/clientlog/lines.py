"""Bytes into lines, bounded: a line may be long, and may not have ended yet."""

from __future__ import annotations

from typing import Final

# Longer lines are read up to here.
LONGEST_LINE: Final = 65_536


class Lines:
    """Splits bytes at line feeds.

    Args:
        longest: Bytes of a line that are kept; the rest is dropped.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[str]:
        """Take bytes; return the lines that are whole now, without their ends, as UTF-8 as far as they are."""
        *whole, rest = data.split(b"\n")
        lines: list[str] = []
        for part in whole:
            self._rest += part[: self._longest - len(self._rest)]
            lines.append(text_of(bytes(self._rest)))
            self._rest.clear()
        self._rest += rest[: self._longest - len(self._rest)]
        return lines

    def finish(self) -> list[str]:
        """Return the last line, where it has no end."""
        last = [text_of(bytes(self._rest))] if self._rest else []
        self._rest.clear()
        return last


def text_of(line: bytes) -> str:
    """A line without its end, as text; what is no UTF-8 stands as U+FFFD."""
    return line.rstrip(b"\r\n").decode(errors="replace")
