"""One block on its way through `Thinning`: which of its frames matter, and what is counted between them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from h3probe.track.clock import JUMP_NS
from h3probe.track.names import DNS_PORTS
from h3probe.track.steady import steady
from h3probe.track.thinning_sums import FEW, Flow, Sums
from h3probe.wire.columns import read_columns
from h3probe.wire.ordinary import OrdinaryFrames

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h3probe.events import Block, Counted, Frame
    from h3probe.track.thinning import Thinning
    from h3probe.track.thinning_sums import Flags, Key, Numbers
    from h3probe.track.tracker import Connection
    from h3probe.wire.packet import Transported

    type Matter = Frame | Transported | Counted

# A flow is worth being counted if so many of its frames are still to come in this block, or if it began so many blocks
# ago that it will be there in the next ones too.
_WORTH, _OLD = 24, 2
_NONE = np.uint64(0)


class Pass:
    """One block on its way; frames are named by their place in it, flows by their number in it (`group`).

    What is looked up frame by frame stands in byte arrays and memory views, of which numpy has views where it works on
    many of them: numpy takes several times as long to get at a single number.
    """

    def __init__(self, thinning: Thinning, block: Block) -> None:
        self.thinning = thinning
        self.tracker = thinning.tracker
        self.block = block
        self.columns = columns = read_columns(block, DNS_PORTS)
        self.ordinary = OrdinaryFrames(block, columns)
        clock, times = self.tracker.clock, block.times_ns
        began = int(times[0]) if clock.start_ns is None else clock.now_ns
        # The capture's time after each frame.
        self.now = np.maximum.accumulate(np.maximum(times, began))
        before = np.concatenate(([began], self.now[:-1]))
        self.disorder = (times < before).tobytes()
        # Damaged time stamps are for the clock to judge, frame by frame.
        self.frozen = bool((times - before >= JUMP_NS).any())
        self.sweep_at = self._next_sweep(0)
        self.groups: memoryview[int] = memoryview(columns.group)
        self.order: memoryview[int] = memoryview(columns.order)
        self.station: memoryview[int] = memoryview(columns.station)
        self.kind, self.alone, self.upward = columns.kind.tobytes(), columns.alone.tobytes(), columns.upward.tobytes()
        self.places: dict[Key, int] | None = None
        self.at = 0
        self.flows: list[Flow | None] = list(map(thinning.find, columns.keys))
        self.sums = Sums(block, columns, self.flows)
        # Two of each flow, for its directions (down, up): kinds of frames that are counted, stations that are known.
        self.kinds = np.zeros(2 * len(columns.keys), np.uint8)
        self.stations = np.zeros(2 * len(columns.keys), np.uint64)
        # What is counted, and of that what is not handed on yet.
        self.skipped, self.pending = bytearray(len(block)), bytearray(len(block))
        self.all_skipped, self.all_pending = np.frombuffer(self.skipped, bool), np.frombuffer(self.pending, bool)
        known = [(group, flow) for group, flow in enumerate(self.flows) if flow is not None]
        for group, flow in known:
            self._know(group, flow)
        if known and not self.frozen:
            frames = np.flatnonzero(columns.kind)
            self.all_skipped[frames] = self.all_pending[frames] = self._counts(frames)
        self.waiting = 1 in self.skipped

    def events(self) -> Iterator[Matter]:
        """What `Thinning.events` gives."""
        index, count = self._next(0), len(self.block)
        while index < count:
            if self.waiting:
                yield from self._due(index)
            self.at = index
            group = self.groups[index]
            fact = self.ordinary.fact(index, group) if group >= 0 else None
            yield self.block.frame(index) if fact is None else fact
            self._fed(index, group)
            index = self._next(index + 1)
        yield from self._flush(self.columns.order, count)

    def _next(self, start: int) -> int:
        """The next frame that matters, from `start` on; the number of frames when none does."""
        index = self.skipped.find(0, start)
        return index if 0 <= index < self.sweep_at else min(self.sweep_at, len(self.skipped))

    def _due(self, index: int) -> Sequence[Counted]:
        """What was counted before a frame and has to do with it."""
        group = self.groups[index]
        self.skipped[index] = self.pending[index] = False
        if self.disorder[index] or index == self.sweep_at or (group < 0 and not self.alone[index]):
            return self._flush(self.columns.order, index)
        if group >= 0 and self.flows[group] is not None:
            return self._flush_flow(index, group)
        return ()

    def _fed(self, index: int, group: int) -> None:
        """A frame was fed: find out whether frames after it matter that were thought not to, or the other way round."""
        if index == self.sweep_at:
            self.sweep_at = self._next_sweep(index + 1)
        if self.tracker.unwatched:
            for flow in self.thinning.settled():
                self._lost(flow, index)
        if group < 0:
            lost = None if self.alone[index] else self.thinning.fed()
            if lost is not None:
                self._lost(lost, index)
        elif self.kind[index] or self.flows[group] is not None:
            self._after(index, group)

    def _next_sweep(self, start: int) -> int:
        """The first frame after which the tracker looks for what is over."""
        return start + int(np.searchsorted(self.now[start:], self.tracker.next_sweep_ns))

    def _lost(self, flow: Flow, index: int) -> None:
        """A flow's frames matter again, one by one."""
        group = self._group(flow)
        if group is not None:
            self.flows[group] = None
            self._look_again(index, group)

    def _group(self, flow: Flow) -> int | None:
        """The number of a flow in this block, where it has any frames in it."""
        if self.places is None:
            self.places = {key: group for group, key in enumerate(self.columns.keys)}
        group = self.places.get(flow.key)
        return group if group is not None and self.flows[group] is flow else None

    def catch_up(self, flow: Flow) -> None:
        """Tell the tracker at once, in the middle of a frame, what was counted of a flow."""
        group = self._group(flow)
        if group is not None:
            for counted in self._flush_flow(self.at, group):
                self.tracker.count(counted)

    def _after(self, index: int, group: int) -> None:
        """Find out whether a flow's frames matter one by one, now that one was fed."""
        flow = self.flows[group]
        lasts = flow is not None or self._goes_on(index, group)
        if not lasts and self.order[self.columns.starts[group]] != index:
            return  # Whether it is old is asked once in a block.
        now = steady(self.tracker)
        if flow is not None and (now is None or now[0].connection is not flow.state.connection):
            self.thinning.remove(flow)
            self._lost(flow, index)
            return
        if now is None:
            return
        state, from_client = now
        up, station = self.upward[index], self.station[index]
        if flow is None:
            if not lasts and not self._is_old(state.connection):
                return
            flow = self.flows[group] = Flow(self.columns.keys[group], state, from_client == bool(up))
            self.thinning.add(flow)
        elif flow.state == state and station in (0, flow.stations[up]):
            return
        flow.state = state
        flow.stations[up] = station or flow.stations[up]
        self._know(group, flow)
        self._look_again(index, group)

    def _goes_on(self, index: int, group: int) -> bool:
        """Whether many of a flow's frames are still to come in this block."""
        start, end = self.columns.starts[group : group + 2]
        return self.order[max(end - 1 - _WORTH, start)] > index

    def _is_old(self, connection: Connection | None) -> bool:
        """Whether a connection has been there for several blocks."""
        first = None if connection is None else connection.first.frame
        return first is not None and first < self.block.first - _OLD * len(self.block)

    def _know(self, group: int, flow: Flow) -> None:
        """Fill in what is known of a flow."""
        state, at = flow.state, 2 * group
        self.kinds[at + flow.client_up], self.kinds[at + (not flow.client_up)] = state.client, state.server
        self.stations[at], self.stations[at + 1] = flow.stations
        self.sums.know(group, flow)

    def _look_again(self, index: int, group: int) -> None:
        """Decide anew which of a flow's later frames are counted."""
        end, flow = self.columns.starts[group + 1], self.flows[group]
        start = bisect_right(self.order, index, self.columns.starts[group], end)
        if self.frozen or start == end:
            return
        if end - start <= FEW:
            for place in self.order[start:end]:
                counts = flow is not None and self._count_one(place, flow)
                self.skipped[place] = self.pending[place] = counts
                self.waiting = self.waiting or counts
            return
        rest = self.columns.order[start:end]
        counted = np.zeros(len(rest), np.bool_) if flow is None else self._counts(rest)
        self.all_skipped[rest] = self.all_pending[rest] = counted
        self.waiting = self.waiting or bool(counted.any())

    def _counts(self, frames: Numbers) -> Flags:
        """Which of these frames, all ordinary, are counted."""
        columns = self.columns
        at = 2 * columns.group[frames] + columns.upward[frames]
        station = columns.station[frames]
        fits: Flags = (columns.kind[frames] & self.kinds[at]) != 0
        fits &= (station == _NONE) | (station == self.stations[at])
        return fits

    def _count_one(self, place: int, flow: Flow) -> bool:
        """The same of one frame."""
        up, state = self.upward[place], flow.state
        kinds = state.client if up == flow.client_up else state.server
        return bool(self.kind[place] & kinds) and self.station[place] in (0, flow.stations[up])

    def _flush_flow(self, until: int, group: int) -> Sequence[Counted]:
        """What was counted of one flow up to a frame."""
        start, end = self.columns.starts[group : group + 2]
        end = bisect_left(self.order, until, start, end)
        if end - start > FEW:
            return self._flush(self.columns.order[start:end], until)
        chosen = [place for place in self.order[start:end] if self.pending[place]]
        for place in chosen:
            self.pending[place] = False
        return (self.sums.of_few(chosen),) if chosen else ()

    def _flush(self, order: Numbers, until: int) -> Sequence[Counted]:
        """What was counted of these frames up to one."""
        chosen = order[self.all_pending[order] & (order < until)] if self.waiting else order[:0]
        if not len(chosen):
            return ()
        self.all_pending[chosen] = False
        return (self.sums.of_few(chosen.tolist()) if len(chosen) <= FEW else self.sums.of(chosen),)
