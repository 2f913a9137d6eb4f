"""Words for people: hostile text made harmless, durations made readable."""

from __future__ import annotations

import unicodedata

# Cc control, Cf format (bidi overrides, zero-width), Cs surrogates, Co private use, Cn unassigned,
# Zl and Zp line and paragraph separators: none of them may reach a terminal from the network.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str, limit: int = 256) -> str:
    """Return `text` with what could move a cursor or reorder a line spelled out as an escape.

    Args:
        text: Anything, usually from the network.
        limit: The most characters kept; what is cut is marked with an ellipsis.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(
        c if unicodedata.category(c) not in _UNSAFE else f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}"
        for c in cut
    )


def seconds(value: float) -> str:
    """Return a duration as people say it: `93 ms`, `2.75 s`, `1 min 5 s`."""
    size = abs(value)
    if size < 0.000_95:
        return f"{value * 1e6:.0f} µs"
    if size < 0.0095:
        return f"{value * 1e3:.1f} ms"
    if size < 0.9995:
        return f"{value * 1e3:.0f} ms"
    if size < 9.995:
        return f"{value:.2f} s"
    if size < 119.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(size), 60)
    return f"{'-' if value < 0 else ''}{minutes} min {rest} s"
