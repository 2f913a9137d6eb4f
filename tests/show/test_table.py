from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from h3probe.show.console import Console
from h3probe.show.table import Row, Table

TABLE = Table(
    ("what", "how", "why"),
    (1, 1, 2),
    [
        ("One", [Row(("+", "green"), [["a name"], ["it was done like this"], ["a reason", "another one, " * 9]])]),
        ("Two", [Row(("x", "red"), [["unbreakable" * 6], [], ["東京 " * 20 + "\x1b[31m"]])]),
    ],
)


def draw(width: int) -> str:
    """What a terminal of this width shows."""
    stream = io.StringIO()
    TABLE.draw(Console(stream, width=width, environ={}))
    return stream.getvalue()


@pytest.mark.parametrize("width", [40, 60, 79, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Cells are wrapped within their columns, wide characters and long words too; nothing controls the terminal."""
    printed = draw(width)
    assert all(cell_len(line) <= width for line in printed.splitlines())
    assert "\x1b" not in printed


def test_columns_stand_beside_each_other_where_they_fit() -> None:
    """With room enough each column begins at its heading."""
    heading, *rest = draw(120).splitlines()
    row = next(line for line in rest if line.startswith("+ "))
    assert [row.index(text) for text in ("a name", "it was", "a reason")] == [
        heading.index(text) for text in ("what", "how", "why")
    ]


def test_columns_stand_below_each_other_where_they_do_not_fit() -> None:
    """In a narrow terminal each cell has a line of its own, with its column's name."""
    printed = draw(60)
    assert "+ what  a name\n" in printed
    assert "  how   it was done like this\n" in printed
    assert "  why   a reason\n" in printed
