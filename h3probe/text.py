"""Text from the network made fit to be seen, and numbers made fit to be read."""

from __future__ import annotations

import unicodedata

LONGEST_PATH = 4096
"""What a file may be called on Linux; as `limit`, a name that is not cut."""
MAX_COMBINING = 2
"""Marks on one letter that real writing systems need; more of them run over the lines above and below."""


def bare_name(name: str) -> str:
    """A host's name as it is compared: in lower case, without the dot of the root (RFC 9110, 4.2.3; RFC 1034, 3.1)."""
    return name.lower().rstrip(".")


def clean(text: str, limit: int = 256) -> str:
    r"""Make text from the network harmless for a terminal and for the eye.

    Everything that does not print as itself becomes a visible escape: control characters (ESC, CSI, line
    ends), bidirectional overrides, zero-width and private characters, lone surrogates, spaces other than
    U+0020. Applied twice it changes nothing more.

    Args:
        text: Any string.
        limit: Characters to return at most; what is cut leaves a `…` behind, beyond them.

    Returns:
        `\x1b`, `\u202e` and the like in place of the characters above, the rest as it was.
    """
    if text.isascii() and text.isprintable():
        return text if len(text) <= limit else text[:limit] + "…"
    shown: list[str] = []
    marks = 0
    for character in text[: limit + 1]:
        marks = marks + 1 if unicodedata.category(character) in {"Mn", "Me"} else 0
        # A mark with no letter before it would land on whatever the program itself printed there.
        if not character.isprintable() or marks > MAX_COMBINING or (marks and not shown):
            shown.append(escape(character))
            marks = 0
        else:
            shown.append(character)
    cleaned = "".join(shown)
    return cleaned if len(cleaned) <= limit else cleaned[:limit] + "…"


def escape(character: str) -> str:
    r"""Spell one character as Python would in a string: `\x1b`, `\u202e`, `\U000e0001`."""
    point = ord(character)
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def seconds(value: float) -> str:
    """A duration as people say it, to about three digits.

    Args:
        value: Seconds; negative ones keep their sign.

    Returns:
        `16 µs`, `2.4 ms`, `93 ms`, `2.75 s`, `30.0 s`, `1 min 0 s`, `2 h 5 min`.
    """
    if value < 0:
        return "-" + seconds(-value)
    # Each limit is where rounding would reach the next unit: 0.9996 s is "1.00 s", not "1000 ms".
    if value < 0.000_999_5:
        return f"{value * 1e6:.0f} µs" if value else "0 s"
    if value < 0.009_95:
        return f"{value * 1e3:.1f} ms"
    if value < 0.999_5:
        return f"{value * 1e3:.0f} ms"
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 59.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(value / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun: `1 packet`, `12,345 packets`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
