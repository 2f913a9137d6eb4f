"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


def output_options[F: Callable[..., Any]](function: F) -> F:
    """Add `--json`, `--origin` and `--port`."""
    function = click.option(
        "--json", "as_json", is_flag=True, help="Print NDJSON records, one a line, as they settle."
    )(function)
    function = click.option(
        "--origin",
        "origins",
        metavar="HOST[:PORT]",
        multiple=True,
        help="Only this origin (repeatable).",
    )(function)
    return click.option(
        "--port", "ports", type=click.IntRange(0, 65535), multiple=True, help="Only this server port (repeatable)."
    )(function)
