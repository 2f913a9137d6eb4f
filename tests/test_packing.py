"""Many objects in little room."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from h3probe.packing import Packing, Shelf
from h3probe.records import VerdictRecord

if TYPE_CHECKING:
    from collections.abc import Sequence


def verdict(number: int, sentence: str = "HTTP/2: no QUIC packet was sent to this origin.") -> VerdictRecord:
    """One of many that are alike."""
    return VerdictRecord(f"verdict-{number}", 1.5, None, f"host-{number}.test:443", "10.0.0.1", None, sentence, ["a"])


def shelf(records: Sequence[VerdictRecord | None], plain: int) -> Shelf[VerdictRecord | None]:
    """A shelf with these on it."""
    made: Shelf[VerdictRecord | None] = Shelf(plain)
    for record in records:
        made.append(record)
    return made


@given(st.lists(st.none() | st.builds(verdict, st.integers(0, 9), st.text(max_size=400))), st.integers(0, 8))
def test_gives_what_was_put_on_it(records: list[VerdictRecord | None], plain: int) -> None:
    """Whatever the records are, and wherever packing begins, each comes back as it was, in its place."""
    found = shelf(records, plain)
    assert [*found] == records
    assert len(found) == len(records)
    assert [found[place] for place in reversed(range(len(records)))] == records[::-1]


def test_takes_little_room() -> None:
    """Of records that are alike a packed one takes less than a tenth of what its strings alone would."""
    records = [verdict(number) for number in range(1_000)]
    packed = shelf(records, 100)._packed
    strings = sum(sys.getsizeof(text) for r in records for text in (r.id, r.origin, r.client, r.sentence))
    assert sum(map(len, packed)) < strings / 10


def test_what_is_like_the_samples_takes_less() -> None:
    """One that differs in a word from what is known takes some bytes, and comes back whatever is known."""
    one = verdict(77)
    known, unknown = Packing([verdict(1), verdict(2)]), Packing([])
    assert known.unpack(known.pack(one)) == unknown.unpack(unknown.pack(one)) == one
    assert len(known.pack(one)) < len(unknown.pack(one)) / 4
