"""The options about what is expected: `--expect` and `--junit`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from h3probe.cli.options import gathered

if TYPE_CHECKING:
    from h3probe.engine import Engine
    from h3probe.records import HttpVersion

VERSIONS: dict[str, HttpVersion] = {"h3": "HTTP/3", "h2": "HTTP/2", "http/1.1": "HTTP/1.1"}
"""The words for a version: the ones of ALPN."""


@dataclass(frozen=True, slots=True)
class ExpectOptions:
    """What was given.

    Attributes:
        expect: The version.
        junit: A file's name.
    """

    expect: str | None
    junit: str | None

    @property
    def version(self) -> HttpVersion | None:
        """The version expected of every exchange; None for no expectation.

        Raises:
            UsageError: A report is wanted of no expectation.
            UserError: A report cannot be written there.
        """
        if self.expect is None and self.junit is not None:
            raise click.UsageError("--junit is for --expect")
        if self.junit is not None:
            from h3probe.errors import UserError  # noqa: PLC0415 - only where it is used

            path = Path(self.junit)
            if os.path.isdir(path) or not os.path.isdir(path.absolute().parent):  # noqa: PTH112 - Path.is_dir may raise
                raise UserError(f"--junit {self.junit}: write the name of a file, in a folder that is there")
        return None if self.expect is None else VERSIONS[self.expect]

    def report(self, engine: Engine) -> None:
        """Write what came of it, where that is wanted.

        Raises:
            UserError: It cannot be written.
        """
        if self.junit is None:
            return
        from h3probe.errors import UserError  # noqa: PLC0415 - only where it is used
        from h3probe.show.junit import to_junit  # noqa: PLC0415

        try:
            Path(self.junit).write_text(to_junit(engine.expectations), encoding="utf-8")
        except OSError as error:
            raise UserError(f"--junit {self.junit}: {error.strerror or error}") from error


_OPTIONS = (
    click.option("--expect", type=click.Choice(list(VERSIONS), case_sensitive=False),
                 help="Exit with 1 unless every exchange is known to be of this version (with --origin: to it)."),
    click.option("--junit", metavar="FILE", help="With --expect: write a JUnit report, a test case for each origin."),
)  # fmt: skip

expect_options = gathered(ExpectOptions, "expect", _OPTIONS)
"""Adds them all; the function gets them as one argument, `expect`."""
