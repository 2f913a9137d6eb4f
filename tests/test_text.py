import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.text import clean, count, seconds


@given(st.text(st.characters(exclude_categories=())))
def test_cleaned_text_prints_as_itself(text: str) -> None:
    """Whatever comes in, lone surrogates included, nothing that a terminal obeys or hides comes out."""
    assert clean(text).isprintable()


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 40))
def test_cleaning_is_idempotent_and_bounded(text: str, limit: int) -> None:
    """Cleaned text passes a second time unchanged and is never longer than the limit and the cut's sign."""
    once = clean(text, limit)
    assert clean(once, limit) == once
    assert len(once) <= limit + 1


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\r\nb\tc", r"a\x0d\x0ab\x09c"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("\U000e0041", r"\U000e0041"),
        ("\udcff", r"\udcff"),
        ("a\xa0b", r"a\xa0b"),
        ("Bücher 日本語", "Bücher 日本語"),
        ("\u0301a", r"\u0301a"),
        ("a" + "\u0301" * 4, "a\u0301\u0301\\u0301\u0301"),
    ],
)
def test_escapes_are_visible(raw: str, shown: str) -> None:
    """Control, bidi, invisible and stacked characters become escapes; letters of any language stay."""
    assert clean(raw) == shown


def test_marks_on_one_letter_never_exceed_two() -> None:
    """Combining marks cannot be piled up over neighbouring lines, however many are sent."""
    run = 0
    for character in clean("a" + "\u0301" * 100):
        run = run + 1 if unicodedata.combining(character) else 0
        assert run <= 2


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0 s"),
        (0.000_016, "16 µs"),
        (0.000_999_6, "1.0 ms"),
        (0.002_4, "2.4 ms"),
        (0.009_96, "10 ms"),
        (0.093, "93 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (2.75, "2.75 s"),
        (9.996, "10.0 s"),
        (30.012, "30.0 s"),
        (59.96, "1 min 0 s"),
        (60.2, "1 min 0 s"),
        (3599.6, "1 h 0 min"),
        (7500.0, "2 h 5 min"),
        (-0.093, "-93 ms"),
    ],
)
def test_seconds_are_said_as_people_say_them(value: float, said: str) -> None:
    """Durations change unit where rounding does, and never read `1000 ms` or `60.0 s`."""
    assert seconds(value) == said


@given(st.floats(0, 1e9))
def test_seconds_never_overflow_their_unit(value: float) -> None:
    """No duration shows a number that belongs to the next unit."""
    number, unit, *rest = seconds(value).split()
    assert float(number) < {"µs": 1000, "ms": 1000, "s": 60, "min": 60, "h": 1e9}[unit]
    assert not rest or float(rest[0]) < 60


def test_count_chooses_the_plural() -> None:
    """One is singular, all else plural, and thousands are grouped."""
    assert [count(1, "packet"), count(12345, "packet"), count(0, "loss", "losses")] == [
        "1 packet", "12,345 packets", "0 losses",
    ]  # fmt: skip
