"""Captures, and the folders of runs, made into one file that tells the story."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from h3probe.capture import bundle
from h3probe.capture.pcapng_write import PcapngWriter
from h3probe.errors import UserError
from h3probe.events import CaptureEnded, Frame, Secrets
from h3probe.records import QuicRecord, SummaryRecord, TcpRecord
from h3probe.run.environment import WHOLE, of_capture
from h3probe.run.explaining import Asked, Gist, explain
from h3probe.run.folder import FolderRecorder
from h3probe.run.recorder import APPLICATION
from h3probe.run.tapping import OVERHEAD, Tapping
from h3probe.run.whole_file import STDOUT, ended_in_order, refuse_existing, replacing
from h3probe.show.annotate import Annotator
from h3probe.show.ndjson import to_json
from h3probe.show.report import render, wanted_packets
from h3probe.text import clean, count
from h3probe.vantage.files import open_capture
from h3probe.vantage.recorded import is_recorded, read_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

    from h3probe.records import AnyRecord, Moment
    from h3probe.show.progress import Progress

LONGEST_NAME = 60
"""Signs of a bundle's name in that of what it is made of: 240 bytes at most, and a name has 255."""
TAIL = 1 << 16
"""The end of a file of records, with its last line."""
README = """\
{title}
{line}
Made by h3probe {version}: which HTTP version each request of a client used, and why not HTTP/3.
report.html        open it in a browser: the story, with its evidence (no network access)
capture.pcapng     the packets; Wireshark shows h3probe's comments beside them ({kept})
events.ndjson      what h3probe concluded, one JSON object a line (`h3probe schema` describes it)
observed.ndjson    what else was observed: owners of sockets, the proxy's events, the client's own log
environment.json   versions, system, interfaces, proxy settings without credentials, what was dropped
{holds}.
`h3probe explain FILE` reads it all back and gives the same answer.
"""
WITHOUT_PAYLOAD = "It holds addresses, host names and paths of requests; no bodies, cookies, credentials or TLS secrets"
WITH_PAYLOAD = "It holds whole packets, with whatever was in them: look before you share it"
REDACTED = "Addresses, names, paths, connection IDs and credentials are replaced, by the same for the same"


@dataclass(slots=True)
class Found(Tapping):
    """What is said about packets, as far as a bundle needs it; an `Output`, and a `Tap`.

    Attributes:
        lines: Gets the records, a line each; None where they are recorded.
        annotator: What stands beside which packet.
        told: What a report is made of.
        guesses: What clients were recognised from the wire.
    """

    wants_moments: ClassVar[bool] = True

    lines: BinaryIO | None = None
    annotator: Annotator = field(default_factory=Annotator)
    told: Gist = field(default_factory=Gist)
    guesses: set[str] = field(default_factory=set)

    @property
    def summary(self) -> SummaryRecord | None:
        """The last record."""
        return self.told.summary

    @property
    def in_words(self) -> str:
        """What is in the bundle."""
        if self.summary is None:
            return "nothing"
        records = self.summary.records
        verdicts, findings = records.get("verdict", 0), records.get("finding", 0)
        return f"{count(self.summary.packets, 'packet')}, {count(verdicts, 'verdict')}, {count(findings, 'finding')}"

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Take them."""
        records = list(records)
        self.annotator.records(records)
        self.told.records(records)
        if self.recorder is not None:
            self.recorder.records(records)
        for record in records:
            if self.lines is not None:
                self.lines.write(to_json(record).encode("utf-8", "replace") + b"\n")
            if isinstance(record, QuicRecord | TcpRecord) and record.client_guess is not None:
                self.guesses.add(record.client_guess)
            if isinstance(record, SummaryRecord) and self.recorder is not None:
                self.recorder.observed(CaptureEnded(record.truncated, record.dropped))

    def moments(self, moments: Iterable[Moment]) -> None:
        """Take them."""
        moments = list(moments)
        self.annotator.moments(moments)
        self.told.moments(moments)

    def close(self) -> None:
        """It has all been said."""
        self.told.close()


def bundle_captures(asked: Asked, target: Path, *, full: bool, force: bool, progress: Progress) -> Found:
    """Make a bundle of captures, and of what belongs to them.

    Args:
        asked: The captures, events of the proxy, and logs.
        target: The bundle.
        full: Keep payload too; and the secrets of a key log, which open nothing without it.
        force: Replace what is there.
        progress: Told how far it is.

    Returns:
        What is said about them.

    Raises:
        UserError: They cannot be read, or the bundle cannot be written.
    """
    refuse_existing(str(target), force=force, sources=(*asked.files, *asked.client_logs, asked.key_log or ""))
    found = Found(progress)
    try:
        with (
            ended_in_order(),
            tempfile.TemporaryDirectory(prefix=f".{target.name[:LONGEST_NAME]}.", dir=target.parent) as name,
        ):
            folder = Path(name)
            secrets = full and asked.key_log is not None
            recorder = FolderRecorder(folder, found, _recorded_where(asked), full=full, force=True, secrets=secrets)
            found.recorder = recorder
            progress.begin("reading", size_of(asked.files))
            names = ", ".join(Path(name).name for name in asked.files)
            explain(replace(asked, name=names), found, found, outlines=found.told.stories)
            if found.summary is not None and not found.summary.packets:
                raise UserError(f"{asked.source}: there are no packets in it to make a bundle of")
            recorder.close(None if found.summary is None else found.summary.dropped)
            if recorder.failed is not None:
                raise UserError(f"{target} cannot be written: {recorder.failed}")
            _pack(folder, target, found, force=force)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from error
    return found


def bundle_folder(folder: Path, target: Path, *, force: bool, progress: Progress) -> Found:
    """Make a bundle of the folder of a run, whether or not that came to its end.

    Raises:
        UserError: It holds no run, or the bundle cannot be written.
    """
    refuse_existing(str(target), force=force)
    found = Found(progress)
    try:
        with tempfile.TemporaryFile(prefix=f".{target.name[:LONGEST_NAME]}.", dir=target.parent) as lines:
            if not _is_complete(folder / bundle.EVENTS):
                found.lines = lines
            progress.begin("reading", size_of([str(folder / bundle.CAPTURE)]))
            # The folder's place is nobody's business.
            explain(Asked((str(folder),), name=target.name), found, found, outlines=found.told.stories)
            _pack(folder, target, found, force=force)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from error
    return found


def _recorded_where(asked: Asked) -> dict[str, Any]:
    """What a bundle that is bundled again says of where it was recorded; nothing is known of other captures."""
    if len(asked.files) != 1 or asked.files[0] == STDOUT or not is_recorded(asked.files[0]):
        return of_capture(asked.files)
    environment = read_environment(asked.files[0]) or of_capture(asked.files)
    if asked.client_logs or asked.key_log:  # which may name whatever there was
        environment.pop("redacted", None)
    return environment


def _pack(folder: Path, target: Path, found: Found, *, force: bool) -> None:
    """Write the bundle: the packets with comments, and everything else as it is."""
    with (
        replacing(target, force=force) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        environment = _environment(folder, found)
        title = clean(target.name)  # a name may be no text, and a line of a text file is one line
        archive.writestr(bundle.README, _readme(title, environment))
        shown = _write_capture(archive, folder / bundle.CAPTURE, found, _said(environment, "os"))
        for member in (bundle.OBSERVED, bundle.EVENTS):
            with _source(folder / member, found) as source, archive.open(member, "w", force_zip64=True) as sink:
                shutil.copyfileobj(source, sink)
        told = json.dumps(environment, indent=2, ensure_ascii=False) + "\n"
        archive.writestr(bundle.ENVIRONMENT, told.encode("utf-8", "replace"))
        archive.writestr(bundle.REPORT, render(found.told, shown, title=title).encode("utf-8", "replace"))


def _said(environment: Mapping[str, Any], name: str) -> str | None:
    """What an environment says, in one line; a bundle that is bundled again may have anything there."""
    value = environment.get(name)
    return clean(value) if isinstance(value, str) else None


def _readme(title: str, environment: Mapping[str, Any]) -> str:
    kept = _said(environment, "packets_kept")
    return README.format(
        title=title,
        line="=" * len(title),
        version=_said(environment, "h3probe"),
        kept=kept,
        holds=REDACTED if "redacted" in environment else WITH_PAYLOAD if kept == WHOLE else WITHOUT_PAYLOAD,
    )


def _write_capture(archive: zipfile.ZipFile, capture: Path, found: Found, system: str | None) -> dict[int, Frame]:
    """Write the packets with their comments; return those that the report shows the fields of."""
    wanted = wanted_packets(found.told)
    shown: dict[int, Frame] = {}
    found.progress.begin("writing", size_of([str(capture)]))
    with open_capture(capture) as reader, archive.open(bundle.CAPTURE, "w", force_zip64=True) as sink:
        writer = PcapngWriter(sink, application=APPLICATION, os=system, comment=found.annotator.whole)
        for event in reader:
            if isinstance(event, Secrets):
                writer.secrets(event.key_log)
            elif isinstance(event, Frame):
                said = found.annotator.annotation(event.number)
                writer.packet(event, comment=said.text if said else None, pid=said.pid if said else None)
                if event.number in wanted:
                    shown[event.number] = event
                found.progress.advance(len(event.data) + OVERHEAD)
        if writer.interfaces and reader.dropped is not None:
            writer.statistics(0, None, reader.dropped)
    return shown


def _environment(folder: Path, found: Found) -> dict[str, Any]:
    """What is known of where it happened, with what came of it."""
    environment = of_capture([folder.name])
    with suppress(OSError, ValueError):
        environment = dict(json.loads((folder / bundle.ENVIRONMENT).read_bytes()))
    summary = found.summary
    environment["seen_on_the_wire"] = {"clients": sorted(found.guesses)}
    environment["dropped"] = {
        "packets": None if summary is None else summary.dropped,
        "cut_short": None if summary is None else summary.truncated,
        "connections_forgotten": None if summary is None else summary.evicted,
        "comments": found.annotator.left_out,
        "blocks_of_secrets": 0 if found.recorder is None else found.recorder.dropped_secrets,
    }
    return environment


def _source(path: Path, found: Found) -> BinaryIO:
    """A member as it was written, or the records that a run that was cut off did not come to."""
    if path.name == bundle.EVENTS and found.lines is not None:
        found.lines.seek(0)
        return found.lines
    return path.open("rb") if path.exists() else Path(os.devnull).open("rb")


def _is_complete(events: Path) -> bool:
    """Whether a file of records ends with the last one that there can be."""
    with suppress(OSError), events.open("rb") as stream:
        stream.seek(max(0, events.stat().st_size - TAIL))
        last = stream.read().rstrip(b"\n").rpartition(b"\n")[2]
        return last.startswith(b'{"type":"summary"')
    return False


def size_of(files: Iterable[str]) -> int | None:
    """Give the bytes of files together; None where that is not known."""
    try:
        return sum(Path(name).stat().st_size for name in files)
    except OSError:
        return None
