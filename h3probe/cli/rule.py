"""`h3probe rule`: the catalogue, and one rule explained."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from h3probe.cli import nearest
from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from h3probe.diagnose.rule import Rule
    from h3probe.show.console import Console


@click.command(
    epilog="""\b
Examples:
  h3probe rule                   all rules
  h3probe rule fallback-delay    what it looks for, what to do, sources
"""
)
@click.argument("slug", required=False)
def rule(slug: str | None) -> None:
    """List the rules, or explain the one named SLUG, as it stands in a finding."""
    from h3probe.diagnose.rules import CATALOGUE  # noqa: PLC0415 - loaded when asked for
    from h3probe.show.console import Console  # noqa: PLC0415 - the same

    console = Console(sys.stdout)
    if slug is None:
        _list(console, CATALOGUE)
    elif slug in CATALOGUE:
        _page(console, CATALOGUE[slug])
    else:
        hint = nearest(slug, CATALOGUE) or "; `h3probe rule` lists them"
        raise UserError(f"no rule '{slug}'{hint}")


def _list(console: Console, catalogue: Mapping[str, Rule]) -> None:
    width = max(len(slug) for slug in catalogue)
    for slug, entry in catalogue.items():
        console.row([(f"{slug:<{width}}  ", "bold")], entry.title)
    console.blank()
    console.note("h3probe rule SLUG explains one.")


def _page(console: Console, entry: Rule) -> None:
    console.row([(entry.slug, "bold"), (f"  (usually: {entry.severity})", "dim")], "")
    console.text(entry.title, indent=2)
    for title, text in (("Looks for", entry.looks_for), ("What to do", entry.advice)):
        console.blank()
        console.row([(f"  {title:<12}", "bold")], text)
    for number, source in enumerate(entry.sources):
        if number == 0:
            console.blank()
        console.row([(f"  {'Sources' if number == 0 else '':<12}", "bold")], source)
