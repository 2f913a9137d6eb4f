"""`h3probe redact`: from one file to another of its kind, and the mapping beside it."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from h3probe import __version__
from h3probe.capture import PcapngWriter
from h3probe.errors import UserError
from h3probe.events import CaptureEnded, Dropped, Frame, Secrets, Unreadable
from h3probe.records import SummaryRecord
from h3probe.redact import Mapping, Redactor
from h3probe.redact.events import EventRedactor
from h3probe.run.bundling import LONGEST_NAME, bundle_folder, size_of
from h3probe.run.explaining import Asked, explain
from h3probe.run.folder import BUNDLE_SUFFIX, FolderRecorder
from h3probe.run.tapping import OVERHEAD, Tapping
from h3probe.run.whole_file import STDOUT, ended_in_order, open_whole, refuse_existing
from h3probe.show.progress import Progress
from h3probe.vantage.files import ProxyEvents, open_source
from h3probe.vantage.proxy_events import format_event
from h3probe.vantage.recorded import Recorded, read_environment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from h3probe.capture import CaptureReader
    from h3probe.records import AnyRecord, Moment


@dataclass(slots=True)
class Redacted:
    """What was done.

    Attributes:
        frames: Packets read; of a file of the proxy's events, these.
        written: How many of them were written.
        dropped: How many were left out, by reason.
        unfinished: Frames whose name was never whole.
        secrets: Blocks of TLS secrets left out.
        comments: Comments left out.
        unreadable: Parts of the file that could not be read.
        truncated: Whether it could not be read to its end.
        bundle: What is in a bundle, in words; None for captures.
    """

    frames: int = 0
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0
    secrets: int = 0
    comments: int = 0
    unreadable: int = 0
    truncated: bool = False
    bundle: str | None = None


def redact(  # noqa: PLR0913 - one parameter per thing that is asked for
    source: str,
    target: str,
    *,
    kept: tuple[str, ...],
    map_file: str | None,
    force: bool,
    progress: Progress | None = None,
) -> Redacted:
    """Redact a capture, a bundle, or a file of the proxy's events.

    Args:
        source: What is to be redacted, `-` for a capture on standard input.
        target: Where it goes, as another of its kind (a capture as pcapng), mode 0600, there only once it is whole.
        kept: Host names and addresses that stay.
        map_file: Where the mapping is kept, and taken from where it exists; None to forget it.
        force: Replace what is there.
        progress: Told how far it is.

    Raises:
        CaptureError: The source cannot be read, or is none of them.
        UserError: The target exists or cannot be written, or the mapping cannot be read.
    """
    _refuse_outputs(source, target, map_file, force=force)
    mapping = _mapping(map_file, kept)
    progress = progress or Progress(None)
    with open_source(source) as reader:
        is_bundle = isinstance(reader, Recorded)
        if is_bundle != target.endswith(".zip"):
            raise UserError(
                f"{source} is a bundle, and so is what comes of it: name it NAME{BUNDLE_SUFFIX}"
                if is_bundle
                else f"{source} is no bundle; `h3probe bundle` makes one of it, which can be redacted then"
            )
        progress.begin("redacting", size_of([source]))
        if isinstance(reader, Recorded):
            done = _bundle(source, Path(target), Redactor(mapping), map_file, force=force, progress=progress)
        else:
            with open_whole(target, force=force) as stream:
                if isinstance(reader, ProxyEvents):
                    done = _events(reader, stream, EventRedactor(mapping))
                else:
                    done = _capture(reader, stream, Redactor(mapping), progress)
                _keep(mapping, map_file)  # first: without it there would be a file that nobody can go on from
    return done


def _refuse_outputs(source: str, target: str, map_file: str | None, *, force: bool) -> None:
    """Refuse names, before any work, under which something would be lost, or shared by mistake."""
    refuse_existing(target, force=force, sources=(source, map_file or ""))
    if map_file is not None:
        if map_file == STDOUT or Path(map_file).resolve() == Path(target).resolve():
            raise UserError("what undoes the redaction goes into a file of its own: name another one with --map")
        refuse_existing(map_file, force=True, sources=(source,))


@dataclass(slots=True)
class _Reading(Tapping):
    """What is observed on the way to the recorder; an `Output`, and a `Tap`, that keep nothing."""

    wants_moments: ClassVar = False
    dropped: int | None = None

    def moments(self, moments: Iterable[Moment]) -> None:
        """They are made anew."""

    def records(self, records: Iterable[AnyRecord]) -> None:
        """They are made anew, but for how the capture ended."""
        for record in records:
            if isinstance(record, SummaryRecord):
                self.dropped = record.dropped
                self.observed(CaptureEnded(record.truncated, record.dropped))

    def close(self) -> None:
        """Nothing is held back."""


def _bundle(  # noqa: PLR0913 - as of `redact`
    source: str, target: Path, redactor: Redactor, map_file: str | None, *, force: bool, progress: Progress
) -> Redacted:
    """Redact what was recorded, and conclude and draw everything else anew."""
    reading = _Reading(progress)
    try:
        with (
            ended_in_order(),
            tempfile.TemporaryDirectory(prefix=f".{target.name[:LONGEST_NAME]}.", dir=target.parent) as name,
        ):
            folder, environment = Path(name), read_environment(source)
            recorder = FolderRecorder(folder, reading, environment, full=True, force=True, redactor=redactor)
            reading.recorder = recorder
            explain(Asked((source,)), reading, reading)
            recorder.close(reading.dropped)
            if recorder.failed is not None:
                raise UserError(f"{target} cannot be written: {recorder.failed}")
            _keep(redactor.mapping, map_file)
            made = bundle_folder(folder, target, force=force, progress=progress)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from error
    done = Redacted(secrets=recorder.dropped_secrets, bundle=made.in_words)
    done.frames = redactor.taken + redactor.dropped.total()
    done.written, done.dropped, done.unfinished = redactor.written, redactor.dropped, redactor.unfinished
    return done


def _events(reader: ProxyEvents, stream: BinaryIO, redactor: EventRedactor) -> Redacted:
    """Redact a file of the proxy's events, line by line."""
    done = Redacted()
    for event in reader:
        if isinstance(event, Unreadable):
            done.unreadable += 1
            continue
        done.frames += 1
        made = redactor.event(event)
        if made is None:
            done.dropped["what the proxy's own log said"] += 1
            continue
        stream.write(format_event(made).encode("utf-8", "replace") + b"\n")
        done.written += 1
    return done


def _capture(reader: CaptureReader, stream: BinaryIO, redactor: Redactor, progress: Progress) -> Redacted:
    done = Redacted()
    writer = PcapngWriter(stream, application=f"h3probe {__version__} redact")
    lost = 0
    for event in reader:
        match event:
            case Frame():
                done.frames += 1
                progress.advance(len(event.data) + OVERHEAD)
                for frame in redactor.frame(event):
                    writer.packet(frame)
            case Dropped():
                lost += event.count
            case Secrets():
                done.secrets += 1
            case Unreadable():
                done.unreadable += 1
    for frame in redactor.finish():
        writer.packet(frame)
    if reader.dropped is not None and redactor.written:
        writer.statistics(0, None, lost)
    done.comments, done.truncated = len(reader.comments), reader.truncated
    done.written, done.dropped, done.unfinished = redactor.written, redactor.dropped, redactor.unfinished
    return done


def _mapping(map_file: str | None, kept: tuple[str, ...]) -> Mapping:
    if map_file is None or not Path(map_file).exists():
        return Mapping(kept=kept)
    try:
        return Mapping.from_json(Path(map_file).read_text(encoding="utf-8"), kept=kept)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{map_file} cannot be read: {error}") from error
    except UserError as error:
        raise UserError(f"{map_file}: {error}") from error


def _keep(mapping: Mapping, map_file: str | None) -> None:
    if map_file is not None:
        with open_whole(map_file, force=True) as stream:
            stream.write(mapping.to_json().encode())
