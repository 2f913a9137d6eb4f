"""One live run: events in, lines and records out, a capture file beside them."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.events import Block, Counted, Frame, RunEnded, TimePassed, Unreadable
from h3probe.records import OWNER_NOT_KNOWN
from h3probe.run.replaying import run_began
from h3probe.run.steady import SteadyClock
from h3probe.track.timeline import process_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from h3probe.engine import Engine
    from h3probe.events import Event
    from h3probe.records import AnyRecord, Moment
    from h3probe.run.attribution import Attribution
    from h3probe.run.output import Output
    from h3probe.run.recorder import Recorder
    from h3probe.track.thinning import Thinning
    from h3probe.track.tracker import Connection
    from h3probe.wire.packet import Transported

# How often what is quiet is looked at.
TICK_S = 0.02
SETTLE_S = 1.0


class Session:
    """Joins the engine with what surrounds it while a run goes on.

    Args:
        engine: Explains.
        output: Shows.
        attribution: Names processes; None where that is not possible.
        recorder: Writes the capture file; None without `-w`.

    Attributes:
        on_moments: Told of what happens.
        clock: Corrects the times of events.
        translate: Gives each event as it is to be taken.
    """

    def __init__(
        self, engine: Engine, output: Output, attribution: Attribution | None, recorder: Recorder | None
    ) -> None:
        self.engine = engine
        self.output = output
        self.translate: Callable[[Event | Block], Event | Block] = lambda event: event
        self.on_moments: Callable[[list[Moment]], None] = lambda _: None
        self.clock = SteadyClock()
        self._attribution = attribution
        self._recorder = recorder
        self._lines: deque[Moment] = deque()
        self._settled_at = time.monotonic()
        self._began = False
        self._thinning: Thinning | None = None
        if attribution is not None:
            engine.filters.wanted = attribution.wanted
            engine.filters.pending = attribution.pending
            engine.tells_opened = True

    def events(self, events: Iterable[Event | Block]) -> None:
        """Take events, in order."""
        self._begin()
        step = self.clock.look()
        events = [self.translate(self.clock.corrected(event)) for event in events]
        if step is not None:
            self.output.note(step)
            events.append(Unreadable(step))
        if self._attribution is not None:
            for event in events:
                if isinstance(event, Frame):
                    self._attribution.sniffed(event)
        for event in events:
            if isinstance(event, Block):
                self._thin_out(event)
                continue
            self._take(event)
            if self._thinning is not None:
                self._thinning.fed()
        self._show()

    def _thin_out(self, block: Block) -> None:
        if self._thinning is None:
            from h3probe.track.thinning import Thinning  # noqa: PLC0415 - numpy, which is loaded where there are blocks

            self._thinning = Thinning(self.engine.tracker)
        looked_at: dict[int, Frame] = {}
        for event in self._thinning.events(block):
            self._feed(event)
            if self._recorder is not None and not isinstance(event, Counted):
                place = (event.number if isinstance(event, Frame) else event.frame) - block.first
                looked_at[place] = self._recorder.kept(block.frame(place), self.engine.tracker)
        if self._recorder is not None:
            self._recorder.block(block, looked_at, self.engine.tracker)

    def _take(self, event: Event) -> None:
        self._feed(event)
        if self._recorder is not None:
            self._recorder.take(event, self.engine.tracker)

    def _feed(self, event: Event | Transported) -> None:
        records = self.engine.feed(event)
        if self._attribution is not None:
            for connection in self.engine.take_opened():
                self._attribution.opened(connection)
        if records:
            self._tell(records)

    def tick(self) -> None:
        """Let time pass: to be called every `TICK_S` or so."""
        self._begin()
        if self._attribution is not None:
            self._attribution.poll()
        if self._recorder is not None:
            self._recorder.flush_if_due()
        now = time.monotonic()
        if now - self._settled_at >= SETTLE_S:
            self._settled_at = now
            self._advance()
        self._show()

    def finish(self, *, dropped: int | None, client_over: bool = False) -> None:
        """End the run: settle, conclude, close the file.

        Args:
            dropped: Packets that were lost.
            client_over: Whether the command under watch has ended.
        """
        self.engine.client_over = client_over
        self._begin()
        if self._attribution is not None:
            self._attribution.poll()
        self._show(final=True)
        now_ns = self.clock.now_ns()
        if self._recorder is not None:
            self._recorder.observed(RunEnded(now_ns, client_over=client_over, dropped=dropped))
        self._tell(self.engine.advance(now_ns))
        self._show(final=True)
        self._tell(self.engine.finish(dropped=dropped))
        if self._recorder is not None:
            self._recorder.close(dropped)
            self.output.note(self._recorder.summary)
        self.output.close()

    def _begin(self) -> None:
        """Note what the run was told; by its first event, or its first tick, it has been told everything."""
        if self._recorder is None or self._began:
            return
        self._began = True
        self._recorder.observed(run_began(self.engine, self._attribution))
        self.engine.on_decrypted = self._recorder.decrypted
        if self._attribution is not None:
            self._attribution.on_owner = self._recorder.observed

    def _advance(self) -> None:
        now_ns = self.clock.now_ns()
        records = self.engine.advance(now_ns)
        if records and self._recorder is not None:
            self._recorder.observed(TimePassed(now_ns))
        self._tell(records)

    def _tell(self, records: list[AnyRecord]) -> None:
        self.output.records(records)
        if self._recorder is not None:
            self._recorder.records(records)

    def _show(self, *, final: bool = False) -> None:
        """Print lines in order; one whose process may still become known holds the ones after it, briefly."""
        moments = self.engine.take_moments()
        self.on_moments(moments)
        self._lines.extend(moments)
        while self._lines:
            moment = self._lines[0]
            if not final and self._is_pending(moment):
                return
            self._lines.popleft()
            connection = self.engine.connection(moment.connection)
            if connection is not None:
                if not self.engine.filters.connection(connection):
                    continue
                moment = replace(moment, process=process_info(connection.process))
                if moment.frame == connection.first.frame and self._may_be_a_strangers(connection):
                    moment = replace(moment, text=f"{moment.text}; {OWNER_NOT_KNOWN}")
            self.output.moments([moment])

    def _may_be_a_strangers(self, connection: Connection) -> bool:
        """Whether a command's connections alone are wanted, and nobody can say that this is one."""
        return self.engine.wants_command and self.engine.alone is None and connection.process is None

    def _is_pending(self, moment: Moment) -> bool:
        connection = self.engine.connection(moment.connection)
        return connection is not None and self._attribution is not None and self._attribution.pending(connection)
