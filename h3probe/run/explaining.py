"""Captures explained from their beginning to their end: what `explain` prints, and what reports are made of."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from h3probe.capture import CaptureReader
from h3probe.engine import Engine
from h3probe.errors import KeyLogError
from h3probe.events import Counted, Frame
from h3probe.filters import Filters
from h3probe.records import FindingRecord, StoryOutline, SummaryRecord, VerdictRecord
from h3probe.run.replaying import Replay
from h3probe.run.thinned import thinned
from h3probe.text import count
from h3probe.vantage.clientlog.file import ClientLogFile
from h3probe.vantage.files import STDIN, merge, open_source, read_key_log
from h3probe.vantage.remote import shown
from h3probe.wire.packet import TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from h3probe.events import Event, Told
    from h3probe.records import AnyRecord, HttpVersion, Moment
    from h3probe.run.output import Output
    from h3probe.track.tracker import Tracker
    from h3probe.vantage.files import ProxyEvents
    from h3probe.vantage.recorded import Recorded
    from h3probe.wire.packet import Transported

# Moments are handed on in handfuls.
HANDFUL = 256
MOST_MOMENTS = MOST_RECORDS = MOST_CONCLUSIONS = 5_000
"""Moments, records, and findings and verdicts that a report is made of."""

BEGINNING = "This is the beginning: more happened than a page can show. `h3probe explain` tells all of it."


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be explained.

    Attributes:
        files: Captures, and events of the proxy; several are read as one. `-` is standard input, read as it comes.
        filters: What is to be reported.
        expects: The version that every exchange is expected to be of; None for no expectation.
        key_log: A file of TLS secrets.
        client_logs: Logs of the client's own.
        one_by_one: Whether each packet is looked at, however large a capture is; what is said is the same.
        name: What records call the source; None for the names of the files.
    """

    files: tuple[str, ...]
    filters: Filters = field(default_factory=Filters)
    expects: HttpVersion | None = None
    key_log: str | None = None
    client_logs: tuple[str, ...] = ()
    one_by_one: bool = False
    name: str | None = None

    @property
    def source(self) -> str:
        """What the output calls the files."""
        return self.name or ", ".join(map(shown, self.files))


@dataclass(slots=True)
class Explained:
    """What there is to say about captures; an `Output` that keeps everything.

    Attributes:
        all_records: In the order in which they were settled; the summary is the last one.
        all_moments: In the order in which they became known.
        notes: What is no result.
        stories: Which connections belong together.
    """

    wants_moments: ClassVar[bool] = True

    all_records: list[AnyRecord] = field(default_factory=list)
    all_moments: list[Moment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stories: list[StoryOutline] = field(default_factory=list)

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Keep them."""
        self.all_records += records

    def moments(self, moments: Iterable[Moment]) -> None:
        """Keep them."""
        self.all_moments += moments

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)

    def close(self) -> None:
        """Nothing is held back."""


@dataclass(slots=True)
class Gist(Explained):
    """As much of it as a report is made of: nobody reads further, and the rest would take memory.

    Attributes:
        summary: The last record, which counts them all.
        kept: How many records there were, by whether they conclude something.
        left_out: How many records and moments are not here.
    """

    summary: SummaryRecord | None = None
    kept: Counter[bool] = field(default_factory=Counter)
    left_out: int = 0

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Keep the first ones, and the last."""
        for record in records:
            concludes = isinstance(record, FindingRecord | VerdictRecord)
            self.kept[concludes] += 1
            if isinstance(record, SummaryRecord):
                self.summary = record
            elif self.kept[concludes] > (MOST_CONCLUSIONS if concludes else MOST_RECORDS):
                self.left_out += 1
                continue
            self.all_records.append(record)

    def moments(self, moments: Iterable[Moment]) -> None:
        """Keep the first ones."""
        moments = list(moments)
        room = MOST_MOMENTS - len(self.all_moments)
        self.all_moments += moments[:room]
        self.left_out += max(len(moments) - room, 0)

    def close(self) -> None:
        """Say that it is not all."""
        if self.left_out and BEGINNING not in self.notes:
            self.note(BEGINNING)


def explained(asked: Asked, found: Explained | None = None) -> Explained:
    """Explain, and give all of it at once, or as much of it as `found` keeps.

    Raises:
        CaptureError: A file cannot be read, or is no capture.
        KeyLogError: The secrets cannot be read.
        UserError: A client's log cannot be read, or is none.
    """
    found = Explained() if found is None else found
    explain(asked, found, outlines=found.stories)
    return found


class Tap(Protocol):
    """Whoever wants what is explained, too."""

    def take(self, event: Event, tracker: Tracker) -> None:
        """Take an event that the tracker has just taken."""

    def observed(self, event: Event) -> None:
        """Take secrets that are in none of the files."""

    def decrypted(self, event: Told) -> None:
        """Take what decrypted traffic tells."""


class Reading(Protocol):
    """Whoever shows how far it is."""

    def advance(self, size: int) -> None:
        """So many bytes more were read."""

    def end(self) -> None:
        """All was read: what is said of it comes now."""


def explain(
    asked: Asked,
    output: Output,
    tap: Tap | None = None,
    reading: Reading | None = None,
    outlines: list[StoryOutline] | None = None,
) -> Engine:
    """Explain, and hand everything on as it is settled.

    Args:
        asked: What is to be explained.
        output: Gets what there is to say.
        tap: Gets what it is said about.
        reading: Is told how far it is.
        outlines: Where the outlines of the stories go.

    Returns:
        The engine, which knows how it ended.

    Raises:
        CaptureError, KeyLogError, UserError: As `explained`.
    """
    with ExitStack() as stack:
        readers = _open(asked, stack)
        stack.enter_context(_seldom_collected())
        engine = _engine(asked, readers, tap)
        engine.outlines = outlines
        engine.tracker.timeline.muted = not output.wants_moments
        live = STDIN in asked.files
        replay = Replay(engine)
        if tap is not None:
            engine.on_decrypted = tap.decrypted
            asked = replace(asked, one_by_one=True)
        handful_ends = HANDFUL
        events = _events(asked, readers, engine)
        for event in events if reading is None else _told_of(events, readers, reading):
            number = _frame_number(event) if output.wants_moments else 0
            if number > handful_ends:
                handful_ends = ((number - 1) // HANDFUL + 1) * HANDFUL
                output.moments(engine.take_moments())
            records = replay.feed(event)
            if tap is not None and not isinstance(event, TcpSegment | UdpDatagram):  # it has each frame as it is
                tap.take(event, engine.tracker)
            if records:
                output.records(records)
            if live or (output.wants_moments and not number and not isinstance(event, Counted)):
                output.moments(engine.take_moments())
        output.moments(engine.take_moments())
        dropped = [reader.dropped for reader in readers if reader.dropped is not None]
        truncated = any(reader.truncated for reader in readers)
        for records in engine.settle():
            output.records(records)
        for records in engine.ending(truncated=truncated, dropped=sum(dropped) if dropped else None):
            output.records(records)
        for note in _witnesses_of_nothing(asked, engine):
            output.note(note)
        output.close()
    return engine


def _witnesses_of_nothing(asked: Asked, engine: Engine) -> Iterator[str]:
    """What was given beside the packets and tells nothing of them: it is another run's, likely."""
    decrypter = engine.tracker.decrypter
    if asked.key_log is not None and decrypter is not None and decrypter.settled and not decrypter.settled[True]:
        connections = count(decrypter.settled[False], "connection")
        yield f"{asked.key_log} opens 0 of {connections} here: it is the key log of another run, or not complete"
    told = [s for s in engine.tracker.told.facts.exchanges if s.told.known_from == "client-log"]
    answered = [s for s in told if s.told.status is not None]
    astray = sum(s.connection is None for s in answered)
    if asked.client_logs and astray:
        of = f" of {count(len(answered), 'answered request')}" if astray < len(answered) else ""
        what = f"{astray:,}{of}" if of else count(astray, "answered request")
        yield (
            f"{what} in {', '.join(asked.client_logs)} {'is' if astray == 1 else 'are'} about no connection that is "
            f"found here{'' if of else ': it is the log of another run, likely'}"
        )


def _told_of(
    events: Iterator[Event | Transported], readers: list[CaptureReader | ProxyEvents | Recorded], reading: Reading
) -> Iterator[Event | Transported]:
    """The events, while it is told how far the readers are."""
    known = 0
    for number, event in enumerate(events):
        if number % HANDFUL == 0:
            now = sum(reader.offset for reader in readers if isinstance(reader, CaptureReader))
            reading.advance(now - known)
            known = now
        yield event
    reading.end()


def _frame_number(event: Event | Transported) -> int:
    """The number of the frame that an event is, or was decoded from; 0 for any other event."""
    if isinstance(event, TcpSegment | UdpDatagram):
        return event.frame
    return event.number if isinstance(event, Frame) else 0


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let Python look for garbage less often: hardly any is made that is not gone by itself, and much is kept."""
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _events(
    asked: Asked, readers: list[CaptureReader | ProxyEvents | Recorded], engine: Engine
) -> Iterator[Event | Transported]:
    """Everything there is to feed: of a large capture that is read alone, the packets that matter and counts."""
    reader = readers[0]
    if asked.one_by_one or len(readers) > 1 or asked.client_logs or not isinstance(reader, CaptureReader):
        return merge([*readers, *map(ClientLogFile, asked.client_logs)])
    return thinned(reader, engine.tracker)


def events(asked: Asked) -> Iterator[Event]:
    """Read the same events once more, with the same frame numbers.

    Raises:
        CaptureError, UserError: As `explained`.
    """
    with ExitStack() as stack:
        readers = _open(asked, stack)
        yield from merge([*readers, *map(ClientLogFile, asked.client_logs)])


def frames(asked: Asked, numbers: Collection[int]) -> dict[int, Frame]:
    """Give the frames with these numbers, for a closer look at what proves something.

    Raises:
        CaptureError, UserError: As `explained`.
    """
    wanted = set(numbers)
    found: dict[int, Frame] = {}
    for event in events(asked):
        if isinstance(event, Frame) and event.number in wanted:
            found[event.number] = event
            if len(found) == len(wanted):
                break
    return found


def _open(asked: Asked, stack: ExitStack) -> list[CaptureReader | ProxyEvents | Recorded]:
    readers: list[CaptureReader | ProxyEvents | Recorded] = []
    for name in asked.files:
        readers.append(open_source(name))
        stack.push(readers[-1])
    return readers


def _engine(asked: Asked, readers: list[CaptureReader | ProxyEvents | Recorded], tap: Tap | None) -> Engine:
    formats = {reader.format for reader in readers}
    kind = next(iter(formats)) if len(formats) == 1 else None
    engine = Engine(asked.source, kind, replace(asked.filters), expects=asked.expects)
    if formats == {"ndjson"}:  # what went past the proxy is in no event of its
        engine.vantage = "proxy"
    engine.packs = not asked.client_logs and all(isinstance(reader, CaptureReader) for reader in readers)
    if asked.key_log is not None:
        _add_secrets(engine, asked.key_log, tap)
    return engine


def _add_secrets(engine: Engine, path: str, tap: Tap | None) -> None:
    for secrets in read_key_log(path):
        engine.feed(secrets)
        if tap is not None:
            tap.observed(secrets)
    decrypter = engine.tracker.decrypter
    if decrypter is None or not len(decrypter.keys):
        raise KeyLogError(f"{path} holds no TLS secrets: it is not what SSLKEYLOGFILE makes a client write")
