"""What matters of a block of frames, one by one, and what is left of it, counted.

A capture of a day is downloads for the most part. Once a connection is ready, a packet of it that neither opens nor
ends anything changes a handful of numbers; `Thinning` finds these packets with numpy, and hands on their sums. It is
driven between a reader and the tracker: each event has to be fed before the next one is asked for, since what matters
depends on what the tracker knows by then. What it knows in the end is the same as if each frame had been fed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.track.steady import steady
from h3probe.track.thinning_pass import Pass
from h3probe.wire.columns import flow_name
from h3probe.wire.packet import TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h3probe.events import Block
    from h3probe.track.thinning_pass import Matter
    from h3probe.track.thinning_sums import Flow, Key
    from h3probe.track.tracker import Connection, Tracker

FLOWS_LIMIT = 16_384
"""Flows that are remembered to have no connection."""


class Thinning:
    """Thins out blocks for one tracker."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self._flows: dict[Key, Flow] = {}
        self._by_connection: dict[str, Flow] = {}
        self._link_type = -1
        self._pass: Pass | None = None
        tracker.quic.flows.on_leave = lambda flow: self._catch_up(flow.connections)
        tracker.tcp.table.on_leave = lambda connection: self._catch_up([connection])

    def events(self, block: Block) -> Iterator[Matter]:
        """The frames that matter, each after the counts of those before it that have to do with it."""
        if block.link_type != self._link_type:
            # The tracker takes note of those of the frames that it decodes, and not all of these come to that.
            self._link_type = block.link_type
            self.tracker.decoder.link_types.add(block.link_type)
            for flow in list(self._flows.values()):
                self.remove(flow)
        if len(self._flows) - len(self._by_connection) > FLOWS_LIMIT:
            self._flows = {flow.key: flow for flow in self._by_connection.values()}
        self.settled()
        self._pass = Pass(self, block)
        return self._pass.events()

    def find(self, key: Key) -> Flow | None:
        """The flow with this name, if its packets are counted."""
        return self._flows.get(key)

    def add(self, flow: Flow) -> None:
        """Count a flow's packets from now on."""
        self._flows[flow.key] = flow
        if flow.state.connection is not None:
            self._by_connection[flow.state.connection.id] = flow
            self.tracker.watched.add(flow.state.connection.id)

    def remove(self, flow: Flow) -> None:
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

    def fed(self) -> Flow | None:
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

    def settled(self) -> list[Flow]:
        """Let go of the flows whose connections were settled; return them."""
        lost = []
        while self.tracker.unwatched:
            flow = self._by_connection.get(self.tracker.unwatched.pop())
            if flow is not None:
                self.remove(flow)
                lost.append(flow)
        return lost
