"""`h3probe schema`: the output contract for programs."""

from __future__ import annotations

import json

import click


@click.command(
    epilog="""\b
Example:
  h3probe schema > h3probe.schema.json
"""
)
def schema() -> None:
    """Print the JSON Schema (2020-12) of one line of --json output."""
    from h3probe.show.schema import json_schema  # noqa: PLC0415 - loaded when asked for

    click.echo(json.dumps(json_schema(), indent=2))
