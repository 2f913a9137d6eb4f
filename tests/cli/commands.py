"""Commands that end in every way a command can, for the tests of the entrance."""

import click

from h3probe.errors import PrivilegeError


class OwnStatusError(PrivilegeError):
    """A user's error with a status of its own."""

    exit_status = 5


ENDS = {
    "user": PrivilegeError("no right to capture;\nrun it with sudo \x1b[31m"),
    "own-status": OwnStatusError("no"),
    "interrupt": KeyboardInterrupt(),
    "internal": ZeroDivisionError("division\nby zero"),
    "disk-full": OSError(28, "No space left on device"),
    "usage": click.UsageError("--a and --b exclude each other."),
    "abort": click.Abort(),
}


@click.command()
@click.argument("end")
@click.pass_context
def finish(ctx: click.Context, end: str) -> int:
    """End as told."""
    if end in ENDS:
        raise ENDS[end]
    if end == "exit":
        ctx.exit(1)
    return 3
