from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.show.ndjson import to_json
from h3probe.show.ndjson_read import from_json

from . import samples


def test_every_record_is_read_as_it_was_written() -> None:
    """What is read and written again is the same line, of any record, its parts included."""
    for record in samples.all_records():
        read = from_json(to_json(record))
        assert type(read) is type(record)
        assert to_json(read) == to_json(record)


@pytest.mark.parametrize(
    "line", ["{}", "[]", "1", '{"type":"quic"}', '{"type":"none"}', '{"type":"dns","nothing":1}', "[" * 100_000]
)
def test_what_is_no_record_is_refused(line: str) -> None:
    """A line of something else is a ValueError."""
    with pytest.raises(ValueError, match="not a record"):
        from_json(line)


@given(st.text(max_size=80))
def test_any_line_is_read_or_refused(line: str) -> None:
    """No line raises anything but ValueError."""
    try:
        from_json(line)
    except ValueError:
        return
