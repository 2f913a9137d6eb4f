"""What explains, as functions of bytes: whatever they are, nothing is raised, and the last record is a summary.

A capture file, a bundle or a log may also be refused with its one error.
"""

from __future__ import annotations

import io
import json
from contextlib import suppress
from typing import TYPE_CHECKING
from unittest import mock

from fuzz.pieces import split
from h3probe.capture import CaptureReader, PcapngWriter, blocks, read_capture
from h3probe.capture.bundle import MEMBERS, Bundle
from h3probe.engine import Engine
from h3probe.errors import CaptureError, DecodeError
from h3probe.events import Frame, Secrets
from h3probe.redact import Mapping as Names
from h3probe.redact import Redactor
from h3probe.run import thinned
from h3probe.run.explaining import Explained
from h3probe.run.replaying import Replay
from h3probe.show import report
from h3probe.show.console import Console
from h3probe.show.end import render_end
from h3probe.show.har import har
from h3probe.show.ndjson import to_json
from h3probe.show.ndjson_read import from_json
from h3probe.track import thinning_pass
from h3probe.vantage.proxy_events import parse_observed
from h3probe.vantage.recorded import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from h3probe.events import Event
    from h3probe.records import AnyRecord
    from h3probe.wire.packet import Transported

RAW = 101
MILLISECOND_NS = 1_000_000
CHUNK = 1 << 16


def explain(events: Iterable[Event | Transported], engine: Engine | None = None) -> list[AnyRecord]:
    """Run an engine, and hold it to its contract."""
    subject = Engine("fuzz", None) if engine is None else engine
    replay = Replay(subject)
    records = [record for event in events for record in replay.feed(event)]
    records += subject.finish()
    subject.take_moments()
    assert [record.type for record in (records[0], records[-1])] == ["capture", "summary"]
    for record in records:
        assert to_json(record).isprintable()
    return records


def ip_packets(data: bytes) -> Iterator[Frame]:
    """IP packets, each behind its length in two bytes, a millisecond apart."""
    for number, each in enumerate(split(data), 1):
        yield Frame(number, number * MILLISECOND_NS, RAW, each, len(each))


def engine(data: bytes) -> None:
    """IP packets: everything from decoding to verdicts."""
    explain(ip_packets(data))


def shown(data: bytes) -> None:
    """IP packets, and what is shown of them to people and to other programs."""
    frames = list(ip_packets(data))
    show(frames, {frame.number: frame for frame in frames})


def show(events: Iterable[Event], frames: Mapping[int, Frame]) -> None:
    """Explain events, and show that in every way there is."""
    found, text = Explained(), io.StringIO()
    subject = Engine("fuzz", None, outlines=found.stories)
    found.records(explain(_with_moments(events, subject, found), subject))
    found.moments(subject.take_moments())
    for record in found.all_records:
        assert from_json(to_json(record)) == record
    json.dumps(har(found.all_records), allow_nan=False)
    console = Console(text)
    for moment in found.all_moments:
        console.moment(moment)
    render_end(console, found.all_records)
    for shown_as in (text.getvalue(), report.render(found, frames, title="fuzz")):
        assert shown_as.replace("\n", "").isprintable()


def _with_moments(events: Iterable[Event], subject: Engine, found: Explained) -> Iterator[Event]:
    for event in events:
        yield event
        found.moments(subject.take_moments())


def capture(data: bytes) -> None:
    """A file that may be a capture."""
    with suppress(CaptureError):
        explain(read_capture(io.BytesIO(data)))


def bundle(data: bytes) -> None:
    """A file that may be a bundle, of which every member is read, and which is played back; and a line of one."""
    with suppress(DecodeError):
        parse_observed(data)
    with suppress(CaptureError, OSError):
        found = Bundle(io.BytesIO(data), name="fuzz")
        for name in MEMBERS:
            member = found.open(name)
            while member is not None and member.read(CHUNK):
                pass
    with suppress(CaptureError):
        explain(Recorded("fuzz", io.BytesIO(data)))


def redacted(frames: Iterable[Frame]) -> None:
    """Redact frames: as many bytes in each that is let through, and nothing that could be read cannot be any more."""
    frames = list(frames)
    redactor = Redactor(Names(bytes(32)))
    made = [frame for each in frames for frame in redactor.frame(each)] + redactor.finish()
    kept = {frame.number for frame in made}
    assert len(made) + redactor.dropped.total() == len(frames)
    lengths = {frame.number: len(frame.data) for frame in frames}
    assert all(len(frame.data) == lengths[frame.number] for frame in made)
    stream = io.BytesIO()
    writer = PcapngWriter(stream, application="fuzz")
    for frame in made:
        writer.packet(frame)
    before, after = Engine("fuzz", None), Engine("fuzz", None)
    explain((frame for frame in frames if frame.number in kept), before)
    explain(read_capture(io.BytesIO(stream.getvalue())) if made else (), after)
    assert after.tracker.decoder.malformed <= before.tracker.decoder.malformed


def redact(data: bytes) -> None:
    """IP packets, redacted."""
    redacted(ip_packets(data))


def said(file: bytes, secrets: bytes = b"", *, in_blocks: bool) -> list[str]:
    """What is said of a capture, with its packets counted in blocks or looked at one by one."""
    subject = Engine("fuzz", None)
    if secrets:
        subject.feed(Secrets(secrets))
    with read_capture(io.BytesIO(file)) as reader:
        events = _in_small_blocks(reader, subject) if in_blocks else iter(reader)
        records = explain(events, subject)
    return [to_json(record) for record in records]


def _in_small_blocks(reader: CaptureReader, subject: Engine) -> Iterator[Event | Transported]:
    """As if the capture were large."""
    with (
        mock.patch.object(thinned, "LARGE", 0),
        mock.patch.object(thinning_pass, "_WORTH", 1),
        mock.patch.object(thinning_pass, "FEW", 3),
        mock.patch.object(blocks, "FEWEST", 1),
        mock.patch.object(blocks, "ONE_BY_ONE", 0),
        mock.patch.object(blocks, "SIZE", 4096),
    ):
        yield from thinned.thinned(reader, subject.tracker)
