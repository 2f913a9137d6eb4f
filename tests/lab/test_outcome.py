from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from h3probe.lab.outcome import HttpVersion, Outcome, parse_outcome, write_outcome

VERSIONS = st.sampled_from(get_args(HttpVersion))
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=2, max_size=20)
PORTS = st.none() | st.integers(1, 65535)


@given(st.integers(1, 99), VERSIONS, st.integers(100, 599), st.none() | VALUES, st.integers(0, 99_999), PORTS)
def test_an_answer_is_read_as_it_was_written(  # noqa: PLR0917 - hypothesis gives them by place
    number: int, version: HttpVersion, status: int, alt_svc: str | None, millis: int, port: int | None
) -> None:
    """The line of an answer loses nothing."""
    outcome = Outcome(number, version, status, alt_svc, millis / 1000, None, port)
    assert parse_outcome(write_outcome(outcome)) == outcome


def test_a_failure_is_read_as_it_was_written() -> None:
    """So does the line of a failure."""
    outcome = Outcome(2, None, None, None, 0.5, error="no response in time")
    assert write_outcome(outcome) == "request 2: no response in time after 500 ms"
    assert parse_outcome(write_outcome(outcome)) == outcome


@given(st.text(max_size=100))
def test_any_line_is_read_or_left_alone(line: str) -> None:
    """No line raises anything."""
    outcome = parse_outcome(line)
    assert outcome is None or outcome.seconds >= 0
