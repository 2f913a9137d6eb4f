"""What matters of a block of frames, one by one, and what is left of it, counted.

A capture of a day is downloads for the most part. Once a connection is ready, a packet of it that neither opens nor
ends anything changes a handful of numbers; `Thinning` finds these packets with numpy, and hands on their sums. It is
driven between a reader and the tracker: each event has to be fed before the next one is asked for, since what matters
depends on what the tracker knows by then. What it knows in the end is the same as if each frame had been fed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from h3probe.events import Answer, Counted, FlowCount, SideCount
from h3probe.track.clock import JUMP_NS
from h3probe.track.names import DNS_PORTS
from h3probe.track.quic import HISTORY_LIMIT
from h3probe.track.steady import Steady, steady
from h3probe.track.tcp import SMALLEST_RESPONSE
from h3probe.wire.columns import flow_name, read_columns
from h3probe.wire.ordinary import OrdinaryFrames
from h3probe.wire.packet import TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from numpy.typing import NDArray

    from h3probe.events import Block, Frame
    from h3probe.track.tracker import Connection, Tracker
    from h3probe.wire.packet import Transported

    type Flags = NDArray[np.bool_]
    type Numbers = NDArray[np.int64]
    type Key = tuple[int, ...]
    type Matter = Frame | Transported | Counted

FLOWS_LIMIT = 65_536
"""Flows that are remembered to have no connection."""

# A flow is worth being counted if so many of its frames are still to come in this block: of one that began in it, of
# one from an earlier block. One that is older than that will be there in the next ones too.
_WORTH, _WORTH_EARLIER = 24, 6
# Fewer frames than these are summed up faster without numpy.
_FEW = 24
# Sequence numbers further apart than this may have gone round.
_FAR = 1 << 30
_NOWHERE = -(1 << 62)
_NONE = np.uint64(0)


@dataclass(slots=True)
class _Flow:
    """A flow whose ordinary packets are counted.

    Attributes:
        key: Its name in the columns.
        state: What is known of it.
        client_up: Whether the client's packets are those that go upward.
        stations: Of either direction (down, up), the station that was seen to send it.
    """

    key: Key
    state: Steady
    client_up: bool
    stations: list[int] = field(default_factory=lambda: [0, 0])


class Thinning:
    """Thins out blocks for one tracker."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self._flows: dict[Key, _Flow] = {}
        self._by_connection: dict[str, _Flow] = {}
        self._link_type = -1
        self._pass: _Pass | None = None
        tracker.quic.flows.on_leave = lambda flow: self._catch_up(flow.connections)
        tracker.tcp.table.on_leave = lambda connection: self._catch_up([connection])

    def events(self, block: Block) -> Iterator[Matter]:
        """The frames that matter, each after the counts of those before it that have to do with it."""
        if block.link_type != self._link_type:
            # The tracker takes note of link types frame by frame.
            self._link_type = block.link_type
            self.tracker.decoder.link_types.add(block.link_type)
            for flow in list(self._flows.values()):
                self.remove(flow)
        if len(self._flows) - len(self._by_connection) > FLOWS_LIMIT:
            self._flows = {flow.key: flow for flow in self._by_connection.values()}
        self.settled()
        self._pass = _Pass(self, block)
        return self._pass.events()

    def find(self, key: Key) -> _Flow | None:
        """The flow with this name, if its packets are counted."""
        return self._flows.get(key)

    def add(self, flow: _Flow) -> None:
        """Count a flow's packets from now on."""
        self._flows[flow.key] = flow
        if flow.state.connection is not None:
            self._by_connection[flow.state.connection.id] = flow
            self.tracker.watched.add(flow.state.connection.id)

    def remove(self, flow: _Flow) -> None:
        """Count them no longer."""
        self._flows.pop(flow.key, None)
        if flow.state.connection is not None:
            self._by_connection.pop(flow.state.connection.id, None)
            self.tracker.watched.discard(flow.state.connection.id)

    def _catch_up(self, connections: Sequence[Connection]) -> None:
        """Connections that were used least recently, as far as the tracker knows, are about to be let go of."""
        for connection in connections:
            flow = self._by_connection.get(connection.id)
            if flow is not None and self._pass is not None:
                self._pass.catch_up(flow)

    def fed(self) -> _Flow | None:
        """Let go of the flow of the frame that was fed last, of no block, if it is no longer steady; return it."""
        fact = self.tracker.fact
        flow = self.find(flow_name(fact)) if isinstance(fact, UdpDatagram | TcpSegment) else None
        if flow is None:
            return None
        now = steady(self.tracker)
        if now is not None and now[0] == flow.state:
            return None
        self.remove(flow)
        return flow

    def settled(self) -> list[_Flow]:
        """Let go of the flows whose connections were settled; return them."""
        lost = []
        while self.tracker.unwatched:
            flow = self._by_connection.get(self.tracker.unwatched.pop())
            if flow is not None:
                self.remove(flow)
                lost.append(flow)
        return lost


class _Pass:
    """One block on its way; frames are named by their place in it, flows by their number in it (`group`)."""

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
        self.disorder = times < before
        # Damaged time stamps are for the clock to judge, frame by frame.
        self.frozen = bool((times - before >= JUMP_NS).any())
        self.sweep_at = self._next_sweep(0)
        self.groups = columns.group.tolist()
        self.places: dict[Key, int] | None = None
        self.at = 0
        flows = len(columns.keys)
        self.flows: list[_Flow | None] = list(map(thinning.find, columns.keys))
        # By group, and by direction (down, up) or side (client, server): kinds of frames that are counted, stations
        # that are known, sequence numbers that are expected.
        self.kinds = np.zeros((flows, 2), np.uint8)
        self.stations = np.zeros((flows, 2), np.uint64)
        self.expected = np.zeros((flows, 2), np.int64)
        self.client_up = np.zeros(flows, np.bool_)
        # What is counted, and of that what is not handed on yet.
        self.skipped = np.zeros(len(block), np.bool_)
        known = [group for group, flow in enumerate(self.flows) if flow is not None]
        if known:
            self._know(known)
        if known and not self.frozen:
            frames = np.flatnonzero(columns.kind)
            self.skipped[frames] = self._counts(frames)
        self.pending = self.skipped.copy()
        self.waiting = bool(self.skipped.any())

    def events(self) -> Iterator[Matter]:
        """What `Thinning.events` gives."""
        at, count = 0, len(self.block)
        while at < count:
            at = yield from self._from(at, count)
        yield from self._flush(count)

    def _from(self, at: int, count: int) -> Generator[Matter, None, int]:
        """Go on up to the end, or to where more frames matter than was thought; return where that is."""
        for index in [*(np.flatnonzero(~self.skipped[at:]) + at).tolist(), count]:
            while self.sweep_at < index:
                at = self.sweep_at
                self.skipped[at] = False
                if (yield from self._feed(at)):
                    return at + 1
            if index < count and not self.skipped[index] and (yield from self._feed(index)):
                return index + 1
        return count

    def _feed(self, index: int) -> Generator[Matter, None, bool]:
        """Hand on one frame; return whether frames after it matter that were thought not to."""
        group, sweeps = self.groups[index], index == self.sweep_at
        if self.waiting:
            lone = bool(self.columns.alone[index])
            if self.disorder[index] or sweeps or (group < 0 and not lone):
                yield from self._flush(index)
            elif group >= 0 and self.flows[group] is not None:
                yield from self._flush(index, group)
            self.pending[index] = False
        self.at = index
        fact = self.ordinary.fact(index, group) if group >= 0 else None
        yield self.block.frame(index) if fact is None else fact
        if sweeps:
            self.sweep_at = self._next_sweep(index + 1)
        again = False
        if self.tracker.unwatched:
            for flow in self.thinning.settled():
                again = self._lost(flow, index) or again
        if group >= 0:
            return self._after(index, group) or again
        return self._after_odd(index) or again

    def _next_sweep(self, start: int) -> int:
        """The first frame after which the tracker looks for what is over."""
        return start + int(np.searchsorted(self.now[start:], self.tracker.next_sweep_ns))

    def _lost(self, flow: _Flow, index: int) -> bool:
        """A flow's frames matter again, one by one; return whether any of this block was thought not to."""
        group = self._group(flow)
        if group is None:
            return False
        self.flows[group] = None
        return self._look_again(index, group)

    def _group(self, flow: _Flow) -> int | None:
        """The number of a flow in this block, where it has any frames in it."""
        if self.places is None:
            self.places = {key: group for group, key in enumerate(self.columns.keys)}
        group = self.places.get(flow.key)
        return group if group is not None and self.flows[group] is flow else None

    def catch_up(self, flow: _Flow) -> None:
        """Tell the tracker at once, in the middle of a frame, what was counted of a flow."""
        group = self._group(flow)
        if group is not None:
            for counted in self._flush(self.at, group):
                self.tracker.count(counted)

    def _after_odd(self, index: int) -> bool:
        """As `_after`, for a frame that is not ordinary."""
        lost = None if self.columns.alone[index] else self.thinning.fed()
        return lost is not None and self._lost(lost, index)

    def _after(self, index: int, group: int) -> bool:
        """Find out whether a flow's frames matter one by one, now that one was fed; return as `_feed`."""
        flow = self.flows[group]
        if flow is None and not self.columns.kind.item(index):
            return False
        now = steady(self.tracker)
        if flow is not None and (now is None or now[0].connection is not flow.state.connection):
            self.thinning.remove(flow)
            return self._lost(flow, index)
        if now is None:
            return False
        state, from_client = now
        up, station = int(self.columns.upward.item(index)), self.columns.station.item(index)
        if flow is None:
            if not self._is_worth(index, group, state.connection):
                return False
            flow = self.flows[group] = _Flow(self.columns.keys[group], state, from_client == bool(up))
            self.thinning.add(flow)
        elif flow.state == state and station in (0, flow.stations[up]):
            return False
        flow.state = state
        flow.stations[up] = station or flow.stations[up]
        self._know([group])
        return self._look_again(index, group)

    def _is_worth(self, index: int, group: int, connection: Connection | None) -> bool:
        """Whether a flow lasts long enough for its frames to be counted."""
        first = self.block.first
        if connection is not None and connection.first.frame is not None:
            first = connection.first.frame
        if first < self.block.first - 2 * len(self.block):
            return True
        ahead = _WORTH_EARLIER if first < self.block.first else _WORTH
        last = self.columns.starts[group + 1] - 1
        return last - ahead >= self.columns.starts[group] and self.columns.order.item(last - ahead) > index

    def _know(self, groups: list[int]) -> None:
        """Fill in what is known of flows."""
        flows = [flow for group in groups if (flow := self.flows[group]) is not None]
        states = [flow.state for flow in flows]
        self.kinds[groups] = [
            (state.server, state.client) if flow.client_up else (state.client, state.server)
            for flow, state in zip(flows, states, strict=True)
        ]
        self.stations[groups] = np.array([flow.stations for flow in flows], np.uint64)
        self.client_up[groups] = [flow.client_up for flow in flows]
        self.expected[groups] = [state.expected() for state in states]

    def _look_again(self, index: int, group: int) -> bool:
        """Decide anew which of a flow's later frames are counted; return whether more of them matter than before."""
        if self.frozen:
            return False
        columns = self.columns
        order = columns.order[columns.starts[group] : columns.starts[group + 1]]
        rest = order[np.searchsorted(order, index, "right") :]
        if not len(rest):
            return False
        counted = np.zeros(len(rest), np.bool_) if self.flows[group] is None else self._counts(rest)
        more = bool((self.skipped[rest] & ~counted).any())
        self.skipped[rest] = self.pending[rest] = counted
        self.waiting = self.waiting or bool(counted.any())
        return more

    def _counts(self, frames: Numbers) -> Flags:
        """Which of these frames, all ordinary, are counted."""
        columns = self.columns
        groups, up = columns.group[frames], columns.upward[frames].astype(np.int64)
        station = columns.station[frames]
        fits: Flags = (columns.kind[frames] & self.kinds[groups, up]) != 0
        fits &= (station == _NONE) | (station == self.stations[groups, up])
        return fits

    def _flush(self, until: int, group: int | None = None) -> Iterator[Counted]:
        """What was counted up to a frame, of all flows or of one."""
        if not self.waiting:
            return
        order = self.columns.order
        if group is not None:
            order = order[self.columns.starts[group] : self.columns.starts[group + 1]]
        chosen = order[self.pending[order] & (order < until)]
        if len(chosen):
            self.pending[chosen] = False
            yield self._sums(chosen)

    def _sums(self, chosen: Numbers) -> Counted:
        """The sums of frames that stand flow by flow."""
        if len(chosen) <= _FEW:
            few = chosen.tolist()
            latest = max(map(self.block.times_ns.item, few))
            return Counted(len(few), latest, tuple(self._one_by_one(few)))
        groups = self.columns.group[chosen]
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        up = self.columns.upward[chosen]
        client = up == self.client_up[groups]
        size = self.columns.size[chosen]
        expected = self.expected[groups, (~client).astype(np.int64)]
        ahead = ((self.columns.seq[chosen] - expected + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
        clients = self._sides(chosen, client, size, ahead, firsts)
        servers = self._sides(chosen, ~client, size, ahead, firsts)
        far = np.maximum.reduceat(np.where(size > 0, np.abs(ahead) + size, 0), firsts) >= _FAR
        ends = [*firsts[1:].tolist(), len(chosen)]
        flows: list[FlowCount] = []
        for number, first, end, theirs, ours, is_far in zip(
            groups[firsts].tolist(), firsts.tolist(), ends, clients, servers, far.tolist(), strict=True
        ):
            flow = self.flows[number]
            connection = None if flow is None else flow.state.connection
            if connection is None:
                continue
            if connection.transport == "quic":
                wanted = HISTORY_LIMIT - len(connection.history)
                order = tuple(client[first : min(end, first + wanted)].tolist()) if wanted > 0 else ()
                flows.append(FlowCount(connection.id, theirs, ours, order))
            elif is_far:
                flows += self._one_by_one(chosen[first:end].tolist())
            else:
                least = 1 if connection.tls is None else SMALLEST_RESPONSE
                turns = self._turns(chosen[first:end], client[first:end], size[first:end], least)
                flows.append(FlowCount(connection.id, theirs, ours, (), *turns))
        return Counted(len(chosen), int(self.block.times_ns[chosen].max()), tuple(flows))

    def _one_by_one(self, chosen: list[int]) -> Iterator[FlowCount]:
        """A count each, in order: where sequence numbers are all over the place, or where there are few."""
        columns = self.columns
        for index in chosen:
            group = columns.group.item(index)
            flow = self.flows[group]
            if flow is None or flow.state.connection is None:
                continue
            client = columns.upward.item(index) == flow.client_up
            connection, size = flow.state.connection, columns.size.item(index)
            mark, tcp = self._mark(index), connection.transport == "tcp"
            side = SideCount(1, size, size, *mark, (columns.seq.item(index), size) if tcp and size else None)
            least = 1 if client or connection.transport == "quic" or connection.tls is None else SMALLEST_RESPONSE
            turned = tcp and size >= least
            yield FlowCount(
                connection.id,
                side if client else None,
                None if client else side,
                order=() if tcp else (client,),
                turned=turned,
                answers=(Answer(None, mark[1], size),) if turned and not client else (),
                asking=mark if turned and client else None,
            )

    def _turns(
        self, frames: Numbers, client: Flags, size: Numbers, least: int
    ) -> tuple[bool, tuple[Answer, ...], tuple[int, int] | None]:
        """What `FlowCount` has of questions and answers on one TCP connection; `least` bytes make an answer."""
        loaded = np.flatnonzero(size >= np.where(client, 1, least))
        if not len(loaded):
            return False, (), None
        turns, block = client[loaded], self.block
        frames, sizes = frames[loaded], size[loaded]
        answers = []
        if not turns[0]:
            answers.append(Answer(None, block.times_ns.item(frames[0]), sizes.item(0)))
        for place in np.flatnonzero(turns[:-1] & ~turns[1:]).tolist():
            asked, answer = frames.item(place), frames.item(place + 1)
            answers.append(Answer(self._mark(asked), block.times_ns.item(answer), sizes.item(place + 1)))
        return True, tuple(answers), self._mark(frames.item(-1)) if turns[-1] else None

    def _mark(self, index: int) -> tuple[int, int]:
        return self.block.first + index, self.block.times_ns.item(index)

    def _sides(
        self, chosen: Numbers, mine: Flags, size: Numbers, ahead: Numbers, firsts: Numbers
    ) -> Iterator[SideCount | None]:
        """Of each flow the sums of one side."""
        block, seq = self.block, self.columns.seq
        sizes = np.where(mine, size, 0)
        # The frame that goes furthest, by how far it goes.
        furthest = np.where(sizes > 0, (ahead + size) << 20 | chosen, _NOWHERE)
        for packets, octets, largest, last, reach in zip(
            np.add.reduceat(mine, firsts, dtype=np.int64).tolist(),
            np.add.reduceat(sizes, firsts).tolist(),
            np.maximum.reduceat(sizes, firsts).tolist(),
            np.maximum.reduceat(np.where(mine, chosen, -1), firsts).tolist(),
            np.maximum.reduceat(furthest, firsts).tolist(),
            strict=True,
        ):
            if not packets:
                yield None
                continue
            index = reach & 0xFFFFF
            goes = None if reach == _NOWHERE else (int(seq[index]), int(self.columns.size[index]))
            yield SideCount(packets, octets, largest, block.first + last, int(block.times_ns[last]), goes)
