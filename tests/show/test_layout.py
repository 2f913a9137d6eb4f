import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from h3probe.show.layout import ASCII, Symbols, shorten, symbols_for, terminal_width, wants_color, wrap, writable


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@given(st.text(), st.integers(2, 60))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    """No line is wider than asked for, and all that is not space is still there, in order."""
    lines = wrap(writable(text, "utf-8"), width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(writable(text, "utf-8").split())


def test_wrap_breaks_at_spaces_and_long_words_last() -> None:
    """Words stay whole where they can; a word longer than a line begins on a line of its own."""
    assert wrap("one two abcdefghijkl m", 8) == ["one two", "abcdefgh", "ijkl m"]
    assert wrap("", 8) == [""]


def test_long_names_break_at_their_signs() -> None:
    """The parts of a class's name, and of a URL, stay whole where they fit."""
    assert wrap("java.net.http.HttpConnectTimeoutException: it", 30) == [
        "java.net.http.",
        "HttpConnectTimeoutException:",
        "it",
    ]
    assert wrap("https://example.org/path/page", 22) == ["https://example.org/", "path/page"]
    assert wrap(".日本語日", 6) == [".日本", "語日"]


def test_wide_characters_count_twice() -> None:
    """East Asian text is measured in cells."""
    assert wrap("日本語日本語", 6) == ["日本語", "日本語"]


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P"])), st.integers(1, 40))
def test_shortened_text_fits(text: str, width: int) -> None:
    """What is cut ends in the sign for it and is no wider than asked for."""
    short = shorten(text, width, "…")
    assert cell_len(short) <= width
    assert short == text or short.endswith("…")


def test_shorten_keeps_the_port() -> None:
    """An address loses its middle, never its port."""
    assert shorten("[2001:db8::7:8]:40001", 16, "…", tail=6) == "[2001:db8…:40001"


@pytest.mark.parametrize(("encoding", "symbols"), [("utf-8", Symbols()), ("ascii", ASCII), ("latin-1", ASCII)])
def test_signs_follow_the_encoding(encoding: str, symbols: Symbols) -> None:
    """Where arrows cannot be encoded, ASCII stands in for all signs."""
    assert symbols_for(encoding) == symbols


@given(st.text(st.characters(exclude_categories=())), st.sampled_from(["ascii", "cp1252", "utf-8", None, "no-such"]))
def test_writable_text_can_be_written(text: str, encoding: str | None) -> None:
    """No text makes a stream of any encoding fail."""
    shown = writable(text, encoding)
    assert shown.isprintable()
    shown.encode("utf-8" if encoding == "utf-8" else "cp1252" if encoding == "cp1252" else "ascii")


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        (Terminal(), {"TERM": "xterm-256color"}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (io.StringIO(), {"TERM": "xterm"}, False),
        (io.StringIO(), {"TERM": "xterm", "FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_is_asked_for_politely(stream: io.StringIO, environ: dict[str, str], expected: bool) -> None:  # noqa: FBT001 - a parameter
    """A terminal gets colour unless it cannot or its user does not want it; a pipe gets none unless asked."""
    assert wants_color(stream, environ) is expected


@pytest.mark.parametrize(("columns", "width"), [("100", 100), ("", 80), ("0", 80), ("wide", 80), ("-3", 80), ("²", 80)])
def test_width_without_a_terminal(columns: str, width: int) -> None:
    """COLUMNS decides where it is a number; a pipe is 80 wide."""
    assert terminal_width(io.StringIO(), {"COLUMNS": columns}) == width
