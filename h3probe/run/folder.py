"""`-w NAME.h3probe.zip`: the folder that grows while a run goes on, and that a bundle is made of when it is over."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from h3probe.capture.bundle import CAPTURE, ENVIRONMENT, EVENTS, MEMBERS, OBSERVED
from h3probe.errors import UserError
from h3probe.events import Counted, Frame, Secrets, SocketOwner
from h3probe.redact.events import EventRedactor
from h3probe.run.environment import TRIMMED, WHOLE
from h3probe.run.growing_file import GrowingFile
from h3probe.run.recorder import Recorder
from h3probe.run.redacted_environment import redacted_environment, what_was_redacted
from h3probe.run.whole_file import replacing
from h3probe.show.ndjson import to_json
from h3probe.vantage.proxy_events import format_observed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from h3probe.events import Event, Told
    from h3probe.records import AnyRecord
    from h3probe.redact import Redactor
    from h3probe.run.output import Output

BUNDLE_SUFFIX = ".h3probe.zip"


class FolderRecorder(Recorder):
    """Writes packets, what else is observed, and what is concluded, each into a file of its own.

    Args:
        folder: Made, mode 0700.
        output: Says what goes wrong.
        environment: What is known of where this happens.
        full: As of `Recorder`.
        force: Replace what an earlier run left there.
        secrets: Keep TLS secrets, in the capture; else what they told is kept, and they are not.
        redactor: As of `Recorder`. What is concluded is then told of when the bundle is made, from what is left.

    Attributes:
        dropped_secrets: Blocks of secrets that were left out.

    Raises:
        UserError: There is something in the folder, or it cannot be made.
    """

    def __init__(  # noqa: PLR0913 - as of `Recorder`
        self,
        folder: Path,
        output: Output,
        environment: dict[str, Any],
        *,
        full: bool,
        force: bool,
        secrets: bool = False,
        redactor: Redactor | None = None,
    ) -> None:
        self.folder = folder
        self._secrets = secrets
        self._event_redactor = None if redactor is None else EventRedactor(redactor.mapping)
        _make(folder, force=force)
        super().__init__(folder / CAPTURE, output, full=full, force=force, redactor=redactor)
        self._observed = GrowingFile(folder / OBSERVED, force=force)
        self._events = GrowingFile(folder / EVENTS, force=force)
        self.dropped_secrets = 0
        whole = full and environment.get("packets_kept") != TRIMMED
        self._environment = environment | {"packets_kept": WHOLE if whole else TRIMMED}
        if redactor is not None:
            self._environment = redacted_environment(self._environment, redactor)
        self._write_environment()

    @property
    def summary(self) -> str:
        """What was written, in a few words."""
        return f"{self._written} to {self.folder}"

    def observed(self, event: Event) -> None:
        """Write what is no packet."""
        if isinstance(event, Secrets):
            self._take_secrets(event)
        elif not isinstance(event, Frame | Counted | SocketOwner):
            told = event if self._event_redactor is None else self._event_redactor.event(event)
            if told is not None:
                self._line(self._observed, format_observed(told, self.last_number))

    def decrypted(self, event: Told) -> None:
        """Write what decrypted traffic tells, which nobody can decrypt again without the secrets."""
        if not self._secrets:
            self.observed(event)

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Write what is concluded."""
        for record in records if self._event_redactor is None else ():
            self._line(self._events, to_json(record))

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        super().flush()
        self._observed.flush()
        self._events.flush()

    def close(self, dropped: int | None) -> None:
        """Close the files."""
        super().close(dropped)
        for file in (self._observed, self._events):
            with suppress(OSError):  # told of already, or the capture is whole all the same
                file.close()
        if self._redactor is not None:
            self._environment["redacted"] = what_was_redacted(self._redactor)
            with suppress(UserError):  # it says less then
                self._write_environment()

    def _write_environment(self) -> None:
        with replacing(self.folder / ENVIRONMENT, force=True) as stream:
            text = json.dumps(self._environment, indent=2, ensure_ascii=False) + "\n"
            stream.write(text.encode("utf-8", "replace"))

    def _take_secrets(self, event: Secrets) -> None:
        if not self._secrets:
            self.dropped_secrets += 1
        elif not self.stopped:
            try:
                self._writer.secrets(event.key_log)
            except OSError as error:
                self._fail(error)

    def _line(self, file: GrowingFile, line: str) -> None:
        if self.stopped:
            return
        try:
            file.write(line.encode("utf-8", "replace") + b"\n")
        except OSError as error:
            self._fail(error)


def folder_of(bundle: Path) -> Path:
    """Where a bundle's members grow: beside it, `NAME.h3probe`."""
    return bundle.with_suffix("")


def bundle_of(source: Path) -> Path:
    """The name of the bundle that a capture, or the folder of a run, becomes by default: beside it."""
    place = source.absolute()
    is_folder = os.path.isdir(place)  # noqa: PTH112 - pathlib's raises where a name is too long
    stem = place.name.removesuffix(".h3probe") if is_folder else place.name.partition(".")[0]
    return place.with_name(f"{stem or place.name}{BUNDLE_SUFFIX}")


def remove(folder: Path) -> None:
    """Remove a folder that has become a bundle; what else somebody put there stays, and the folder with it."""
    for member in MEMBERS:
        (folder / member).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _make(folder: Path, *, force: bool) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        left = any((folder / member).exists() for member in MEMBERS)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror or error}") from error
    if left and not force:
        raise UserError(
            f"{folder} holds an earlier run: `h3probe bundle {folder}` makes a file of it, --force replaces it"
        )
