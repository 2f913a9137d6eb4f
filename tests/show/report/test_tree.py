"""Names and values in a tree."""

from __future__ import annotations

from h3probe.show.report.tree import MOST, Field, listed


def test_what_is_none_is_left_out() -> None:
    """A field has the children that are known."""
    field = Field.of("UDP", ("Source port", 1), ("MTU", None), Field("Inside", "x"))
    assert [child.name for child in field.children] == ["Source port", "Inside"]
    assert field.children[0].value == "1"


def test_many_are_cut() -> None:
    """A list says how many more there are; a field's children are limited."""
    assert listed([]) is None
    assert (listed(range(MOST + 2)) or "").endswith("47 and 2 more")
    assert len(Field.of("x", *(("n", n) for n in range(MOST * 2))).children) == MOST
