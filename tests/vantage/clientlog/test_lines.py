from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from h3probe.vantage.clientlog.lines import Lines


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_chunks_make_no_difference(chunks: list[bytes]) -> None:
    """However the bytes come, the lines are the same, cut at the longest, and none is lost."""
    lines = Lines(10)
    got = [line for chunk in chunks for line in lines.feed(chunk)] + lines.finish()
    *whole, rest = b"".join(chunks).split(b"\n")
    wanted = [*whole, *([rest] if rest else [])]
    assert got == [line[:10].rstrip(b"\r\n").decode(errors="replace") for line in wanted]


def test_what_is_held_is_bounded() -> None:
    """A line without an end takes no more than the longest."""
    lines = Lines(10)
    for _ in range(100):
        assert lines.feed(b"x" * 1000) == []
    assert len(lines._rest) == 10
