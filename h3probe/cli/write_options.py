"""The options of `watch` that write down what is seen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from h3probe.cli.options import gathered
from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.run.output import Output
    from h3probe.run.recorder import Recorder, Rotation

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
SIZE = re.compile(r"(\d{1,12})([kmg]?)b?", re.IGNORECASE)
SMALLEST = 10**5


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What was given, as it was given.

    Attributes:
        write: The file, or the bundle.
        full: Whether payload is kept.
        force: Whether what is there is replaced.
        rotate: The size after which another file is begun.
        keep: How many of these stay.
        redact: Whether names, addresses and credentials are replaced in it.
    """

    write: str | None
    full: bool
    force: bool
    rotate: str | None
    keep: int | None
    redact: bool

    @property
    def bundle(self) -> Path | None:
        """The bundle that is to be made; None for a file of packets, or none."""
        if self.write is None:
            return None
        from h3probe.run.folder import BUNDLE_SUFFIX  # noqa: PLC0415 - who writes nothing need not wait for a recorder

        return Path(self.write) if self.write.endswith(BUNDLE_SUFFIX) else None

    def check(self, *, keyed: bool) -> None:
        """Refuse what does not go together.

        Args:
            keyed: Whether there is a file of TLS secrets, which `--force` is for as well.

        Raises:
            UsageError: It does not.
            UserError: The bundle is there already.
        """
        wrong = {
            "--full is for the file of --write": self.full and self.write is None,
            "--redact is for the file of --write": self.redact and self.write is None,
            "--redact and --full exclude each other: payload becomes noise": self.redact and self.full,
            "--rotate is for the file of --write": self.rotate is not None and self.write is None,
            "--force is for the files of --write and --keylog": self.force and self.write is None and not keyed,
            "--keep is for the files of --rotate": self.keep is not None and self.rotate is None,
            "--write needs the name of a file; standard output has the report": self.write == "-",
            "--rotate and --keylog exclude each other: the first file would have all the secrets": keyed
            and self.rotate is not None,
        }
        for message, holds in wrong.items():
            if holds:
                raise click.UsageError(message)
        self._rotation()
        if self.write is None or self.bundle is None:
            return
        if self.rotate is not None:
            raise click.UsageError("--rotate makes captures; a bundle of one of them is made by `h3probe bundle`")
        from h3probe.run.whole_file import refuse_existing  # noqa: PLC0415 - only where it is used

        refuse_existing(str(self.bundle), force=self.force)

    def recorder(
        self, output: Output, *, command: Sequence[str], interfaces: Sequence[str], keyed: bool
    ) -> Recorder | None:
        """Open what is to be written; None where nothing is.

        Args:
            output: Says what goes wrong.
            command: What is run.
            interfaces: What is watched.
            keyed: Whether there are TLS secrets: a capture gets them, unless it is redacted; a bundle what they tell,
                and not them.

        Raises:
            UserError: It cannot be written.
        """
        if self.write is None:
            return None
        redactor = None
        if self.redact:
            from h3probe.redact import Mapping, Redactor  # noqa: PLC0415 - only where it is used

            redactor = Redactor(Mapping())
        if self.bundle is not None:
            from h3probe.run.environment import of_run  # noqa: PLC0415 - only where it is used
            from h3probe.run.folder import FolderRecorder, folder_of  # noqa: PLC0415

            environment = of_run(command, interfaces)
            return FolderRecorder(
                folder_of(self.bundle), output, environment, full=self.full, force=self.force, redactor=redactor
            )
        if keyed and redactor is None:
            from h3probe.run.keyed_recorder import KeyedRecorder  # noqa: PLC0415 - only where it is used

            return KeyedRecorder(self.write, output, force=self.force)
        from h3probe.run.recorder import Recorder  # noqa: PLC0415 - only where it is used

        rotation = self._rotation()
        return Recorder(self.write, output, full=self.full, force=self.force, rotation=rotation, redactor=redactor)

    def finish(self, output: Output) -> None:
        """Make the bundle, when the run is over; what it is made of stays where that fails."""
        if self.bundle is None:
            return
        from h3probe.run.bundling import bundle_folder  # noqa: PLC0415 - only where it is used
        from h3probe.run.folder import folder_of, remove  # noqa: PLC0415
        from h3probe.show.progress import shown_progress  # noqa: PLC0415

        folder = folder_of(self.bundle)
        try:
            with shown_progress() as progress:
                found = bundle_folder(folder, self.bundle, force=self.force, progress=progress)
        except UserError as error:
            output.note(f"{error}; `h3probe bundle {folder}` tries again")
            return
        remove(folder)
        output.note(f"{self.bundle} written: {found.in_words}")

    def _rotation(self) -> Rotation | None:
        if self.rotate is None:
            return None
        found = SIZE.fullmatch(self.rotate)
        size = 0 if found is None else int(found[1]) * UNITS[found[2].lower()]
        if size < SMALLEST:
            raise click.UsageError(f"--rotate {self.rotate!r}: write a size from 100k on, as 50M or 1G")
        from h3probe.run.recorder import Rotation  # noqa: PLC0415 - only where it is used

        return Rotation(size, self.keep)


_OPTIONS = (
    click.option("-w", "--write", "write", metavar="FILE",
                 help="Write all that is seen: to a pcapng file, or, as NAME.h3probe.zip, to a bundle for a report."),
    click.option("--full", is_flag=True, help="With -w: keep payload too, not handshakes and headers alone."),
    click.option("--force", is_flag=True, help="With -w and --keylog: replace a file that holds something."),
    click.option("--redact", is_flag=True,
                 help="With -w: replace addresses, names and credentials in the file, as `h3probe redact` does."),
    click.option("--rotate", metavar="SIZE",
                 help="With -w: begin another file, NAME.0001.pcapng and so on, after this size (50M, 1G)."),
    click.option("--keep", metavar="N", type=click.IntRange(min=1),
                 help="With --rotate: keep the last N files, and delete older ones."),
)  # fmt: skip

write_options = gathered(WriteOptions, "write", _OPTIONS)
"""Adds them all; the function gets them as one argument, `write`."""
