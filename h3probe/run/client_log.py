"""The client's own log beside a run: asked for, announced to the person."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.errors import UserError
from h3probe.vantage import privileges
from h3probe.vantage.clientlog.jdk import CATEGORIES
from h3probe.vantage.clientlog.pipe import LogPipe
from h3probe.vantage.proxy_settings import client_log_environment, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from h3probe.run.end import Plan
    from h3probe.run.output import Output


def ask_for_log(
    stack: ExitStack,
    plan: Plan,
    output: Output,
    environment: dict[str, str] | None,
    user: privileges.User | None,
) -> tuple[LogPipe | None, dict[str, str] | None]:
    """Make what reads the log of the plan's command, and the environment in which that writes one.

    Without a wish for the log there is none, and the environment stays as it is.

    Args:
        stack: Ends it.
        plan: What is to be run.
        output: Says what was set, and what is not to be had.
        environment: The command's environment so far; None for the one it would have anyway.
        user: Whom the command runs as, when this process is root.

    Raises:
        UserError: This system has no way to do it.
    """
    if not plan.client_log:
        return None, environment
    if sys.platform == "win32":
        raise UserError("--client-log is not there on Windows; --client-log of `explain` is")
    kind = kind_of(plan.command)
    if environment is None and user is not None:
        environment = privileges.environment_of(user)
    told, lines = client_log_environment(kind, CATEGORIES, environment=environment)
    for line in lines:
        output.note(f"set for the command: {line}")
    if kind == "native":
        output.note(_native(plan.command))
    elif not plan.show_log:
        output.note("the log is kept out of the command's standard error; --show-log lets it through")
    return stack.enter_context(LogPipe(java=kind != "native", show=plan.show_log)), told


def _native(command: Sequence[str]) -> str:
    name = Path(command[0]).name
    if not name.startswith("curl"):
        return f"no log of {name} is known; the JDK's client, curl and Chromium have one"
    asked = any(a == "--verbose" or (a.startswith("-") and not a.startswith("--") and "v" in a) for a in command[1:])
    return (
        "curl's log is read" if asked else "curl logs nothing unless it is asked to: curl -v --trace-ids --trace-time"
    )
