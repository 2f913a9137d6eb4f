from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.cli.lab_tables import draw_articles, draw_scenarios
from h3probe.lab.clients import BuiltinClient
from h3probe.show.console import Console
from tests.lab.made_up import EXPERIMENTS, results

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("width", [80, 140])
def test_the_articles_table(width: int, golden: Callable[[Path, str], None]) -> None:
    """The table of made-up results is the one that was looked at and found right."""
    stream = io.StringIO()
    draw_articles(Console(stream, width=width, environ={}), EXPERIMENTS, results())
    golden(GOLDEN / f"articles.{width}.txt", stream.getvalue())


def test_scenarios(golden: Callable[[Path, str], None]) -> None:
    """So are the lines of scenarios: expected, got, and h3probe's verdict."""
    stream = io.StringIO()
    draw_scenarios(Console(stream, width=100, environ={}), results(), BuiltinClient())
    golden(GOLDEN / "scenarios.100.txt", stream.getvalue())
