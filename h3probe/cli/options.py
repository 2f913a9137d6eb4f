"""Options that several commands share."""

from __future__ import annotations

import functools
import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import DataclassInstance

    from h3probe.filters import Filters


class NumberRange(click.FloatRange):
    """A number within bounds, which "nan" is not, though no comparison says so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's own
        """Return the number, or fail as click does."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def output_options[F: Callable[..., Any]](function: F) -> F:
    """Add `--json`, `--origin` and `--port`."""
    return json_option(filter_options(function))


def json_option[F: Callable[..., Any]](function: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print NDJSON records, one a line, as they settle.")(
        function
    )


def filter_options[F: Callable[..., Any]](function: F) -> F:
    """Add `--origin` and `--port`, whose values `make_filters` reads."""
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


def make_filters(origins: Sequence[str], ports: Sequence[int]) -> Filters:
    """What `--origin` and `--port` let through.

    Raises:
        UserError: An origin is none.
    """
    from h3probe.filters import Filters, parse_origin  # noqa: PLC0415 - the decoders load here

    return Filters(origins=frozenset(map(parse_origin, origins)) or None, ports=frozenset(ports) or None)


def witness_options[F: Callable[..., Any]](function: F) -> F:
    """Add `--client-log` and `--keylog`: what tells of the exchanges in captured packets."""
    function = click.option(
        "--keylog",
        metavar="FILE",
        help="Decrypt with the TLS secrets in FILE, which a client wrote where SSLKEYLOGFILE told it to.",
    )(function)
    return click.option(
        "--client-log",
        "logs",
        metavar="FILE",
        multiple=True,
        help="A log of the client's own: the JDK's HttpClient, curl -v, Chromium's NetLog (repeatable).",
    )(function)


def gathered(
    kind: type[DataclassInstance], name: str, options: Sequence[Callable[..., Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a decorator that adds options, and hands their values over as one argument.

    Args:
        kind: What holds the values: a field for each option.
        name: The argument's name.
        options: Made by `click.option`, in the order in which the help has them.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def gathering(*args: Any, **values: Any) -> None:  # noqa: ANN401 - whatever click calls it with
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            function(*args, **values)

        for option in reversed(options):
            gathering = option(gathering)
        return gathering

    return decorate
