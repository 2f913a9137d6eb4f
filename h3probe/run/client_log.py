"""The client's own log beside a run: asked for, announced to the person."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError
from h3probe.run.settings import complain_if_empty, environment_to_add_to, tell_settings
from h3probe.vantage import privileges
from h3probe.vantage.clientlog.jdk import CATEGORIES
from h3probe.vantage.clientlog.pipe import LogPipe
from h3probe.vantage.clientlog.tail import NetLogTail
from h3probe.vantage.proxy_settings import client_log_environment, is_chromium, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from h3probe.run.end import Plan
    from h3probe.run.output import Output


NETLOG: Final = "--log-net-log="


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for.

    Attributes:
        plan: With the command as it is to be run.
        environment: The command's; None for the one it would have anyway.
        log: What reads the log; None where none was asked for.
    """

    plan: Plan
    environment: dict[str, str] | None
    log: LogPipe | NetLogTail | None = None

    @property
    def stderr(self) -> int | None:
        """What the command gets as its standard error; None for this process's own."""
        return None if self.log is None else self.log.write_end


def ask_for_log(
    stack: ExitStack,
    plan: Plan,
    output: Output,
    environment: dict[str, str] | None,
    user: privileges.User | None,
) -> Asked:
    """Make what reads the log of the plan's command, and what has that write one.

    Without a wish for the log there is none, and everything stays as it is.

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
        return Asked(plan, environment)
    if sys.platform == "win32":
        raise UserError("--client-log is not there on Windows; --client-log of `explain` is")
    named = [argument.removeprefix(NETLOG) for argument in plan.command if argument.startswith(NETLOG)]
    if named or is_chromium(plan.command):
        return _netlog(stack, plan, output, environment, user, named[-1] if named else None)
    kind = kind_of(plan.command)
    own = environment_to_add_to(environment, user)
    told, lines = client_log_environment(kind, CATEGORIES, environment=own)
    tell_settings(output, lines)
    if kind == "native":
        output.note(_native(plan.command))
    elif not plan.show_log:
        output.note("the log is kept out of the command's standard error; --show-log lets it through")
    return Asked(plan, told, stack.enter_context(LogPipe(java=kind != "native", show=plan.show_log)))


def _netlog(  # noqa: PLR0913, PLR0917 - as `ask_for_log`, and the file that the command names itself
    stack: ExitStack,
    plan: Plan,
    output: Output,
    environment: dict[str, str] | None,
    user: privileges.User | None,
    named: str | None,
) -> Asked:
    """Read Chromium's NetLog where the command writes it, or have it written to a file that is gone afterwards."""
    if named is None:
        with privileges.acting_as(user):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="h3probe-"))
        path = Path(folder, "netlog.json")
        program, *arguments = plan.command
        plan = replace(plan, command=(program, f"{NETLOG}{path}", *arguments))
        output.note(f"added to the command: {NETLOG}{path} (removed at the end; give the option yourself to keep it)")
    else:
        path = Path(named)
        output.note(f"the NetLog that the command writes is read: {path}")
    tail = stack.enter_context(NetLogTail(path, time.time_ns()))
    complain_if_empty(stack, tail, output, _nothing(path))
    return Asked(plan, environment, tail)


def _nothing(path: Path) -> str:
    return (
        f"nothing came in the NetLog {path}: a browser that ran already with this profile may have taken the command "
        "over (--user-data-dir=FOLDER gives it one of its own)"
    )


def _native(command: Sequence[str]) -> str:
    name = Path(command[0]).name
    if not name.startswith("curl"):
        return f"no log of {name} is known; the JDK's client, curl and Chromium have one"
    asked = any(a == "--verbose" or (a.startswith("-") and not a.startswith("--") and "v" in a) for a in command[1:])
    return (
        "curl's log is read" if asked else "curl logs nothing unless it is asked to: curl -v --trace-ids --trace-time"
    )
