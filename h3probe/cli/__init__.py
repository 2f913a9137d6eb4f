"""The command line's entrance: commands by name, loaded when used, and the one place that turns errors into words.

No command is imported before it is asked for, so that `h3probe --version` costs next to nothing.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import gc
import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING

import click

from h3probe import __version__
from h3probe.errors import UserError
from h3probe.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXIT_USAGE = 2
EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h
EXIT_OUTPUT = 74  # EX_IOERR
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell counts
EXIT_PIPE_CLOSED = 141  # 128 + SIGPIPE, as of a program that does not catch it

COMMANDS = {
    "watch": ("h3probe.cli.watch:watch", "Watch live traffic and say what it shows."),
    "explain": ("h3probe.cli.explain:explain", "The same for capture files."),
    "report": ("h3probe.cli.report:report", "The same as an HTML file to share."),
    "diff": ("h3probe.cli.diff:diff", "What differs between two captures, and why."),
    "export": ("h3probe.cli.export:export", "A capture as HAR or qlog."),
    "bundle": ("h3probe.cli.bundle:bundle", "Make one file of a capture, for a bug report."),
    "redact": ("h3probe.cli.redact:redact", "Make a capture that can be shared."),
    "demo": ("h3probe.cli.demo:demo", "See it work: no privileges, nothing to install."),
    "lab": ("h3probe.cli.lab:lab", "Test servers to try any client against."),
    "rule": ("h3probe.cli.rule:rule", "List the rules, or explain one."),
    "schema": ("h3probe.cli.schema:schema", "Print the JSON Schema of --json."),
}
"""Each command's place, and the help that is shown without loading it."""

EPILOG = """\b
Examples:
  h3probe demo                            a tour, 15 seconds
  sudo h3probe watch -- java -jar app.jar run a program and watch it
  h3probe watch --relay 8443=example.org:443
                                          watch without privileges
  h3probe explain capture.pcapng          explain a recording

\b
Exit status: 0 no problem, 1 a problem was found, 2 wrong usage or
unreadable input.
"""


class LazyGroup(click.Group):
    """A group whose commands are named in `COMMANDS` and imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All names, in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        """Import one command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name][0]} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Answer an unknown command with the nearest names."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"no command '{name}'{nearest(name, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="h3probe", message="%(prog)s %(version)s")
def cli() -> None:
    """Say which HTTP version each request of a client really used, and why it was not HTTP/3.

    h3probe looks from outside: at live traffic (watch) or at capture files (explain).
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """Known names that look like this one, as the end of a message; empty when none does."""
    close = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: The arguments after the program's name; None takes `sys.argv`.

    Returns:
        The exit status. A command ends with `ctx.exit(status)` or returns the status.
    """
    _open_standard_streams()
    if "_H3PROBE_COMPLETE" in os.environ:  # a shell asks for completions
        cli.main(prog_name="h3probe")
    try:
        return _run(sys.argv[1:] if args is None else list(args))
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_PIPE_CLOSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except UserError as error:
        return _complain(str(error), error.exit_status)
    except click.UsageError as error:
        return _usage(error)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except Exception as error:  # noqa: BLE001 - the last resort: nobody is shown a traceback who did not ask
        return _internal(error)
    finally:
        if args is None:
            gc.freeze()  # The program ends: what it leaves behind need not be searched for garbage once more.


def _open_standard_streams() -> None:
    """Open those that are closed on nothing; the next file or socket would become one of them, and a command's."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _run(args: list[str]) -> int:
    try:
        with cli.make_context("h3probe", args) as ctx:
            result = cli.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    finally:
        sys.stdout.flush()  # a full disk or a closed pipe is to be met here, not at the interpreter's end
    return result if isinstance(result, int) else 0


def _usage(error: click.UsageError) -> int:
    """Wrong usage: one line; but the whole help where nothing was asked for."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    command = error.ctx.command_path if error.ctx else "h3probe"
    hint = _where(error.option_name) if isinstance(error, click.NoSuchOption) and not error.possibilities else ""
    return _complain(f"{error.format_message().rstrip('.')}{hint} ({command} --help)", EXIT_USAGE)


def _where(option: str) -> str:
    """Commands that have an option, as the end of a message; empty where none has."""
    found = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        if command is not None and any(option in parameter.opts for parameter in command.params):
            found.append(f"h3probe {name} {option}")
    return f"; there is {' and '.join(found[:3])}" if found else ""


def _internal(error: Exception) -> int:
    if os.environ.get("H3PROBE_DEBUG"):
        traceback.print_exception(error)
        return EXIT_INTERNAL
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}:
        _silence_stdout()
        return _complain(error.strerror or str(error), EXIT_OUTPUT)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return _complain(f"internal error: {what}; please report it; H3PROBE_DEBUG=1 shows the traceback", EXIT_INTERNAL)


def _complain(message: str, status: int) -> int:
    """One line on stderr, whatever the message holds."""
    click.echo("h3probe: " + clean(" ".join(message.split()), 1000), err=True)
    return status


def _silence_stdout() -> None:
    """Point stdout to nowhere: the interpreter flushes it once more at its end."""
    with contextlib.suppress(OSError, ValueError):  # stdout is no file
        stdout = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stdout)
        os.close(null)
