from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from h3probe.track.table import BoundedTable, RecencyTable


def test_what_was_used_least_recently_leaves_first() -> None:
    """Looking an entry up keeps it; the one that nobody asked for has to leave, and is given back and counted."""
    table: BoundedTable[str, int] = BoundedTable(2)
    table.put("a", 1)
    table.put("b", 2)
    assert table.get("a") == 1
    assert table.put("c", 3) == [2]
    assert ("b" in table, "a" in table, "c" in table) == (False, True, True)
    assert table.evicted == 1


def test_setting_an_entry_again_evicts_nobody() -> None:
    """A key that is there is replaced in place of leaving twice."""
    table: BoundedTable[str, int] = BoundedTable(2)
    table.put("a", 1)
    table.put("b", 2)
    assert table.put("a", 3) == []
    assert table.put("c", 4) == [2]
    assert table.get("a") == 3


def test_taking_an_entry_out_is_no_eviction() -> None:
    """What its owner takes out is not counted as memory that ran out."""
    table: BoundedTable[str, int] = BoundedTable(2)
    table.put("a", 1)
    assert (table.pop("a"), table.pop("a"), table.get("a")) == (1, None, None)
    assert (len(table), table.evicted) == (0, 0)


def test_entries_may_leave_while_they_are_gone_through() -> None:
    """A sweep forgets entries while it iterates."""
    table: BoundedTable[int, int] = BoundedTable(9)
    for key in range(5):
        table.put(key, key)
    for value in table:
        table.pop(value)
    assert len(table) == 0


@given(st.integers(1, 8), st.lists(st.tuples(st.sampled_from(["put", "get", "pop"]), st.integers(0, 20))))
def test_the_limit_holds_and_nothing_is_lost(limit: int, steps: list[tuple[str, int]]) -> None:
    """Whatever is done with it, a table stays within its limit, and every entry put is held, evicted or taken out."""
    table: BoundedTable[int, int] = BoundedTable(limit)
    held: set[int] = set()
    for step, key in steps:
        if step == "put":
            gone = table.put(key, key)
            held = (held | {key}) - set(gone)
        elif step == "get":
            assert table.get(key) == (key if key in held else None)
        else:
            assert table.pop(key) == (key if key in held else None)
            held.discard(key)
        assert len(table) == len(held) <= limit
        assert set(table) == held


def test_uses_told_late_count_at_their_time() -> None:
    """Of three entries that leaves which was used least recently, in whatever order the uses were told."""
    table: RecencyTable[str, int] = RecencyTable(3)
    for number, key in enumerate("abc"):
        table.now = number
        table.put(key, number)
    table.now = 10
    assert table.get("b") == 1
    table.use("a", 9)
    table.use("a", 5)
    table.now = 11
    assert table.put("d", 3) == [2]
    assert table.put("e", 4) == [0]
    assert table.put("f", 5) == [1]
    assert table.evicted == 3
    assert table.peek("a") is None


@given(st.lists(st.tuples(st.sampled_from(("put", "get", "pop")), st.integers(0, 9)), max_size=80))
def test_a_recency_table_is_a_bounded_table(steps: list[tuple[str, int]]) -> None:
    """While uses are told at once, both hold the same entries."""
    bounded: BoundedTable[int, int] = BoundedTable(4)
    recency: RecencyTable[int, int] = RecencyTable(4)
    for now, (step, key) in enumerate(steps):
        recency.now = now
        if step == "put":
            assert bounded.put(key, key) == recency.put(key, key)
        elif step == "get":
            assert bounded.get(key) == recency.get(key)
        else:
            assert bounded.pop(key) == recency.pop(key)
        assert len(recency) == len(bounded)
        assert all(key in recency for key in range(10) if key in bounded)


def test_who_has_to_leave_is_asked_first() -> None:
    """An entry of which later uses are told then stays, and the next one leaves."""
    table: RecencyTable[str, str] = RecencyTable(2)
    table.on_leave = lambda value: table.use(value, 5) if value == "a" else None
    for number, key in enumerate("ab"):
        table.now = number
        table.put(key, key)
    table.now = 6
    assert table.put("c", "c") == ["b"]
