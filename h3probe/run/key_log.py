"""The secrets of a command under watch: where it writes them, and what of that is said to the person."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.run.private_file import create_private
from h3probe.run.settings import complain_if_empty, environment_to_add_to, tell_settings
from h3probe.vantage import privileges
from h3probe.vantage.key_log import KeyLogTail, key_log_environment
from h3probe.vantage.proxy_settings import kind_of

if TYPE_CHECKING:
    from contextlib import ExitStack

    from h3probe.run.end import Plan
    from h3probe.run.output import Output

NO_JAVA: Final = (
    "Java writes no key log, whatever it is told: what it sends stays encrypted here; --client-log has its HttpClient "
    "tell of its requests"
)


def ask_for_keys(
    stack: ExitStack, plan: Plan, output: Output, environment: dict[str, str] | None, user: privileges.User | None
) -> tuple[KeyLogTail | None, dict[str, str] | None]:
    """Make the file that the plan's command writes its secrets to, what reads it, and the command's environment.

    Without a wish for it there is none, and the environment stays as it is.

    Args:
        stack: Ends it.
        plan: What is to be run.
        output: Says what was set, and what is not to be had.
        environment: The command's environment so far; None for the one it would have anyway.
        user: Whom the command runs as, when this process is root.

    Raises:
        UserError: The file holds something already, or cannot be made.
    """
    if plan.keylog is None:
        return None, environment
    kind = kind_of(plan.command)
    if kind == "java":
        output.note(NO_JAVA)
        return None, environment
    path = Path(plan.keylog).absolute()
    with privileges.acting_as(user):
        os.close(create_private(path, force=plan.force))
    own = environment_to_add_to(environment, user)
    environment, lines = key_log_environment(kind, plan.command, path, environment=own)
    tell_settings(output, lines)
    tail = stack.enter_context(KeyLogTail(path))
    complain_if_empty(stack, tail, output, _nothing(path))
    return tail, environment


def _nothing(path: Path) -> str:
    return (
        f"the command wrote no TLS secrets to {path}: not every TLS library does (Go's, Java's and "
        ".NET's do not), or it could not write there (another root, container or user)"
    )
