"""The sums of frames that are counted and not looked at one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from h3probe.events import Answer, Counted, FlowCount, SideCount, Unheard
from h3probe.track.quic import HISTORY_LIMIT
from h3probe.track.quic_silence import TRY_NS
from h3probe.track.tcp import SMALLEST_RESPONSE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from h3probe.events import Block
    from h3probe.track.steady import Steady
    from h3probe.wire.columns import Columns

    type Flags = NDArray[np.bool_]
    type Numbers = NDArray[np.int64]
    type Key = tuple[int, ...]

# So many frames are looked at, and summed up, faster without numpy.
FEW = 24
# Sequence numbers further apart than this may have gone round.
_FAR = 1 << 30
_NOWHERE = -(1 << 62)


@dataclass(slots=True)
class Flow:
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


class Sums:
    """Sums up frames of one block.

    Args:
        block: The frames.
        columns: Read from that block.
        flows: By group, those whose frames may be counted.
    """

    def __init__(self, block: Block, columns: Columns, flows: list[Flow | None]) -> None:
        self.block = block
        self.columns = columns
        self.flows = flows
        # Whether no two of the frames are so far apart that a client's timer ran out in between.
        self.brief = not len(block) or int(np.ptp(block.times_ns)) < TRY_NS
        # By group: which direction is the client's; the sequence numbers that either side (client, server) came to.
        self.client_up = np.zeros(len(flows), np.bool_)
        self.expected = np.zeros((len(flows), 2), np.int64)

    def know(self, group: int, flow: Flow) -> None:
        """Take note of what is known of a flow whose frames are counted."""
        self.client_up[group] = flow.client_up
        self.expected[group] = flow.state.expected()

    def of_few(self, chosen: list[int]) -> Counted:
        """The sums of a few frames, one by one; faster so than with numpy."""
        latest = max(map(self.block.times_ns.item, chosen))
        return Counted(len(chosen), latest, tuple(self._one_by_one(chosen)))

    def of(self, chosen: Numbers) -> Counted:
        """The sums of frames that stand flow by flow."""
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
                unheard = self._unheard(chosen[first:end], client[first:end])
                flows.append(FlowCount(connection.id, theirs, ours, order, unheard=unheard))
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
                unheard=None if tcp or not client else Unheard(mark),
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

    def _unheard(self, frames: Numbers, client: Flags) -> Unheard | None:
        """What `FlowCount` has of the end of one QUIC connection."""
        if not client[-1]:
            return None
        start, behind = int(client.argmax()), int(client[::-1].argmin())
        end = -1 if client[len(client) - 1 - behind] else len(client) - 1 - behind
        first = self._mark(frames.item(start)) if start > end else None
        if self.brief:
            return Unheard(first, 0, None)
        mine = np.flatnonzero(client)
        times = self.block.times_ns[frames[mine]]
        late = np.flatnonzero((np.diff(times) >= TRY_NS) & (mine[1:] > end)) + 1
        tried = self._mark(frames.item(mine.item(late.item(0)))) if len(late) else None
        return Unheard(first, len(late), tried)

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
