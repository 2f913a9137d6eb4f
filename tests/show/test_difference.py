from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from h3probe.show.console import Console
from h3probe.show.difference import show

from . import samples


def draw(width: int, differences: list[object] | None = None) -> str:
    """What a terminal of this width shows."""
    stream = io.StringIO()
    names = ("home.pcapng", "office \x1b[31m.pcapng")
    show(Console(stream, width=width, environ={}), names, samples.differences() if differences is None else [])
    return stream.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 81, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Both columns are wrapped, wide characters too, and nothing in them controls the terminal."""
    printed = draw(width)
    assert all(cell_len(line) <= width for line in printed.splitlines())
    assert "\x1b" not in printed
    assert "not in this capture" in " ".join(printed.split())


def test_a_and_b_stand_side_by_side_in_80_columns() -> None:
    """Each fact of B begins where B's heading stands, and changes that are noise are called so."""
    lines = draw(80).splitlines()
    heading = next(line for line in lines if line.split() == ["A", "B"])
    for label, a, b in [
        ("HTTP/3", "used", "3 over HTTP/2"),
        ("QUIC", "established", "unanswered, end not seen"),
        ("QUIC ready", "122 ms", "-"),
        ("TCP ready", "100 ms", "150 ms (noise)"),
        ("lost", "30.0 s", "2.79 s (-27.2 s)"),
        ("head start", "20 ms", "1.20 s (+1.18 s)"),
    ]:
        row = next(line for line in lines if line.startswith(label + " "))
        assert row[heading.index("A") : heading.index("B")].strip() == a
        assert row[heading.index("B") :] == b


def test_in_a_narrow_terminal_a_stands_above_b() -> None:
    """Where there is no room for two columns each side has lines of its own."""
    printed = draw(40)
    assert "HTTP/3      A used\n" in printed
    assert "            B 3 over HTTP/2\n" in printed


def test_the_figures_name_the_noise() -> None:
    """How many differ is said, and what was taken for noise; of nothing to compare that."""
    said = " ".join(draw(80).split())
    assert "2 origins differ, 1 the same; times that differ by less than 250 ms or 25% of the larger one" in said
    assert draw(80, []).endswith("Neither capture has anything to judge.\n")
