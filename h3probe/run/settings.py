"""What a command under watch is given to be seen by: its environment, and what of that is said to the person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from h3probe.vantage import privileges

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import ExitStack

    from h3probe.run.output import Output


class Tail(Protocol):
    """What reads a file that the command writes.

    Attributes:
        empty: Whether nothing came.
    """

    empty: bool


def environment_to_add_to(environment: dict[str, str] | None, user: privileges.User | None) -> dict[str, str] | None:
    """The command's environment so far, or that of the user it runs as; None for this process's own."""
    return privileges.environment_of(user) if environment is None and user is not None else environment


def tell_settings(output: Output, lines: Iterable[str]) -> None:
    """Say what was set for the command."""
    for line in lines:
        output.note(f"set for the command: {line}")


def complain_if_empty(stack: ExitStack, tail: Tail, output: Output, words: str) -> None:
    """Say so at the end of a run that went well, where nothing came of what was asked for."""

    def say(kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and tail.empty:
            output.note(words)

    stack.push(say)
