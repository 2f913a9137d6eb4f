"""`h3probe redact`: from one capture file to another, and the mapping beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from h3probe import __version__
from h3probe.capture import PcapngWriter
from h3probe.errors import UserError
from h3probe.events import Dropped, Frame, Secrets, Unreadable
from h3probe.redact import Mapping, Redactor
from h3probe.run.whole_file import STDOUT, open_whole, refuse_existing
from h3probe.vantage.files import open_capture


@dataclass(slots=True)
class Redacted:
    """What was done.

    Attributes:
        frames: Frames read.
        written: Frames written.
        dropped: Frames left out, by reason.
        unfinished: Frames whose name was never whole.
        secrets: Blocks of TLS secrets left out.
        comments: Comments left out.
        unreadable: Parts of the file that could not be read.
        truncated: Whether it could not be read to its end.
    """

    frames: int = 0
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0
    secrets: int = 0
    comments: int = 0
    unreadable: int = 0
    truncated: bool = False


def redact(source: str, target: str, *, kept: tuple[str, ...], map_file: str | None, force: bool) -> Redacted:
    """Redact a capture file.

    Args:
        source: A capture, `-` for standard input.
        target: Where the redacted one goes: a pcapng file, mode 0600, there only once it is whole.
        kept: Host names and addresses that stay.
        map_file: Where the mapping is kept, and taken from where it exists; None to forget it.
        force: Replace what is there.

    Raises:
        CaptureError: The source cannot be read, or is no capture.
        UserError: The target exists or cannot be written, or the mapping cannot be read.
    """
    _refuse_outputs(source, target, map_file, force=force)
    mapping = _mapping(map_file, kept)
    done = Redacted()
    with open_capture(source) as reader, open_whole(target, force=force) as stream:
        redactor = Redactor(mapping)
        writer = PcapngWriter(stream, application=f"h3probe {__version__} redact")
        lost = 0
        for event in reader:
            match event:
                case Frame():
                    done.frames += 1
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
        _keep(mapping, map_file)  # first: without it there would be a capture that nobody can go on from
    done.written, done.dropped, done.unfinished = redactor.written, redactor.dropped, redactor.unfinished
    return done


def _refuse_outputs(source: str, target: str, map_file: str | None, *, force: bool) -> None:
    """Refuse names, before any work, under which something would be lost, or shared by mistake."""
    refuse_existing(target, force=force, sources=(source, map_file or ""))
    if map_file is not None:
        if map_file == STDOUT or Path(map_file).resolve() == Path(target).resolve():
            raise UserError("what undoes the redaction goes into a file of its own: name another one with --map")
        refuse_existing(map_file, force=True, sources=(source,))


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
