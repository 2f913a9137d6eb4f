"""Takes UDP datagrams to the QUIC connections that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from h3probe.errors import DecodeError
from h3probe.text import clean
from h3probe.track.lines import Lines
from h3probe.track.mark import Mark
from h3probe.track.quic import MARKS_LIMIT, QuicConnection
from h3probe.track.quic_elsewhere import Elsewhere
from h3probe.track.quic_moved import Looks, Moved
from h3probe.track.quic_packets import HANDSHAKES_LIMIT, QuicPackets, count_datagram, count_short
from h3probe.track.quic_routing import (
    QuicFlow,
    destination_id,
    flow_key,
    greased,
    long_connection,
    opens_as_client,
    quoted_connection,
    server_side,
    short_connection,
)
from h3probe.track.quic_silence import counted, sent
from h3probe.track.table import BoundedTable, RecencyTable
from h3probe.wire.quic.aggregate import LARGEST_PLAIN, split_aggregate
from h3probe.wire.quic.packets import LongPacket, ShortPacket, gquic_version, looks_like_quic, split_datagram

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Endpoint, FlowCount
    from h3probe.track.timeline import Timeline
    from h3probe.wire.packet import IcmpError, UdpDatagram


class OnPacket(Protocol):
    """Takes a packet, once the connection has."""

    def __call__(
        self, connection: QuicConnection, packet: LongPacket | ShortPacket, mark: Mark, *, from_client: bool
    ) -> None:
        """Take it."""


# Connections that share one pair of ports: a client's later attempts from the same socket.
CONNECTIONS_PER_FLOW = 32
HTTPS = 443


class QuicTracker:
    """All QUIC connections that are alive.

    Args:
        timeline: Where lines for people go.
        new_id: Gives the next connection its id.
        limit: The most flows held; the least recently used leaves first.
        on_open: Called with each new connection.
        on_evict: Called with each connection that had to leave.

    Attributes:
        flows: What is held, by its ports.
        on_packet: Called with each packet of a connection, its mark, and whether it is the client's.
        unreadable: Datagrams that hold no packet.
    """

    def __init__(
        self,
        timeline: Timeline,
        new_id: Callable[[], str],
        *,
        on_open: Callable[[QuicConnection], None],
        on_evict: Callable[[QuicConnection], None],
        limit: int = 8_000,
    ) -> None:
        self._timeline = timeline
        lines = Lines(timeline, "quic")
        self._say = lines.say
        self._new_id = new_id
        self._on_open = on_open
        self._on_evict = on_evict
        self.flows: RecencyTable[tuple[Endpoint, Endpoint], QuicFlow] = RecencyTable(limit)
        # Flows let go of lately: what still comes on them is the rest of a connection that was told.
        self._past: BoundedTable[tuple[Endpoint, Endpoint], bool] = BoundedTable(limit)
        self._attempts_evicted = 0
        # Ports that may carry QUIC from before the capture.
        self._looks: BoundedTable[tuple[Endpoint, Endpoint], Looks] = BoundedTable(HANDSHAKES_LIMIT)
        self._moved = Moved(limit)
        self._packets = QuicPackets(lines, self._moved)
        self._elsewhere = Elsewhere(limit)
        self.unreadable = 0
        self.on_packet: OnPacket | None = None

    @property
    def evicted(self) -> int:
        """How many flows, and earlier attempts of a flow, had to leave."""
        return self.flows.evicted + self._attempts_evicted + self._packets.unread

    def find(self, client: Endpoint, server: Endpoint) -> QuicConnection | None:
        """Return the latest connection between two endpoints."""
        flow = self.flows.get(flow_key(client, server))
        return flow.connections[-1] if flow is not None and flow.connections else None

    def accept(self, reported: QuicConnection) -> QuicConnection:
        """Take a connection that the proxy reports; return the one that packets have shown where it is the same."""
        flow = self.flows.get(flow_key(reported.client, reported.server))
        if flow is not None:
            for known in flow.connections:
                if known.dcid == reported.dcid:
                    return known
        flow = flow or QuicFlow()
        self._make_room(flow)
        flow.connections.append(reported)
        self._on_open(reported)
        self._remember(flow_key(reported.client, reported.server), flow)
        return reported

    def next_id(self) -> str:
        """Return the id of the next connection."""
        return self._new_id()

    def forget(self, connection: QuicConnection) -> None:
        """Let go of a settled connection."""
        key = flow_key(connection.client, connection.server)
        flow = self.flows.get(key)
        if flow is None:
            return
        self._moved.forget(connection)
        self._elsewhere.forget(connection)
        flow.connections = [c for c in flow.connections if c is not connection]
        if not flow.connections:
            self.flows.pop(key)
            self._past.put(key, True)

    def feed(self, datagram: UdpDatagram) -> bool:
        """Take one datagram; return whether it is QUIC."""
        key = flow_key(datagram.source, datagram.destination)
        self.flows.now = datagram.frame
        flow = known = self.flows.get(key)
        if flow is None:
            if not looks_like_quic(datagram.payload, datagram.length):
                return self._gquic(key, datagram) or self._goes_on(key, datagram) or self._under_way(key, datagram)
            flow = QuicFlow()
        mark = Mark(datagram.frame, datagram.time_ns)
        last = datagram.payload
        if len(last) > LARGEST_PLAIN:
            *parts, last = split_aggregate(last, destination_id(flow, datagram))
            for part in parts:
                self._datagram(flow, datagram, part, mark, 0)
        self._datagram(flow, datagram, last, mark, max(datagram.length - len(datagram.payload), 0))
        if flow.connections and known is None:
            self._remember(key, flow)
        return bool(flow.connections)

    def count(self, connection: QuicConnection, flow: FlowCount) -> None:
        """Take the sums of 1-RTT packets that were not fed, of which there was one already."""
        counted(connection, flow)
        for side, from_client in ((flow.client, True), (flow.server, False)):
            if side is not None:
                mark = Mark(side.last, side.last_ns)
                count_short(connection, mark, side.bytes, side.largest, from_client=from_client)
        for from_client in flow.order:
            connection.note("O" if from_client else "o")
        self.flows.use(flow_key(connection.client, connection.server), flow.last[0])

    def _remember(self, key: tuple[Endpoint, Endpoint], flow: QuicFlow) -> None:
        for gone in self.flows.put(key, flow):
            for connection in gone.connections:
                self._past.put(flow_key(connection.client, connection.server), True)
                self._packets.unread -= connection.given_up  # it is counted once
                self._moved.forget(connection)
                self._elsewhere.forget(connection)
                self._on_evict(connection)

    def feed_icmp(self, error: IcmpError) -> QuicConnection | None:
        """Take an ICMP error about a datagram; return the connection that it is about."""
        self.flows.now = error.frame
        flow = self.flows.get(flow_key(error.source, error.destination))
        if flow is None or not flow.connections:
            return None
        connection = quoted_connection(flow, error)
        if connection is None:
            return None
        mark = Mark(error.frame, error.time_ns)
        if error.kind == "too-big":
            if connection.too_big is not None:
                return connection
            connection.too_big = (mark, error)
        elif error.kind in ("time-exceeded", "other"):
            connection.hindered = connection.hindered or ((mark, error) if error.source == connection.client else None)
            return connection
        elif error.source != connection.client:
            if connection.client_gone is None and error.kind == "port-unreachable":
                connection.client_gone = mark
                self._say(connection, mark, "the client's port is closed: its socket is gone", outgoing=None)
            return connection
        else:
            connection.refusals_seen += 1
            if len(connection.refusals) < MARKS_LIMIT:
                connection.refusals.append((mark, error))
        if connection.refusals_seen <= 1 and (connection.established or not connection.answered):
            self._timeline.say(
                connection, mark, f"ICMP {error.meaning}", transport="icmp", outgoing=False, weight="bad"
            )
        return connection

    def _gquic(self, key: tuple[Endpoint, Endpoint], datagram: UdpDatagram) -> bool:
        name = gquic_version(datagram.payload)
        if name is None:
            return False
        mark = Mark(datagram.frame, datagram.time_ns)
        connection = QuicConnection(
            self._new_id(), datagram.source, datagram.destination, 0, first=mark, last=mark, gquic=clean(name, 16)
        )
        connection.note("U")
        self._on_open(connection)
        self._remember(key, QuicFlow([connection]))
        self._say(connection, mark, f"gQUIC {connection.version_name}", outgoing=True, weight="start")
        return True

    def _goes_on(self, key: tuple[Endpoint, Endpoint], datagram: UdpDatagram) -> bool:
        """Take what a client sends from another address on a connection that is known, and what it gets there."""
        connection = self._moved.find(key, datagram)
        if connection is None:
            return False
        mark, from_client = Mark(datagram.frame, datagram.time_ns), datagram.destination == connection.server
        sent(connection, mark, from_client=from_client)
        count_short(connection, mark, datagram.length, datagram.length, from_client=from_client)
        return True

    def _under_way(self, key: tuple[Endpoint, Endpoint], datagram: UdpDatagram) -> bool:
        """Take what looks like 1-RTT packets, both ways and to port 443, for QUIC from before the capture."""
        if HTTPS not in (key[0].port, key[1].port) or not datagram.payload or key in self._past:
            return False
        looks = self._looks.get(key)
        if looks is None:
            looks = Looks([0, 0])
            self._looks.put(key, looks)
        looks.take(datagram.payload, datagram.source == key[0])
        if not looks.is_quic:
            return False
        self._looks.pop(key)
        client, server = datagram.source, datagram.destination
        if server.port != HTTPS:
            client, server = server, client
        mark = Mark(datagram.frame, datagram.time_ns)
        connection = QuicConnection(
            self._new_id(), client, server, 0, first=mark, last=mark, nameless=True, mid_stream=True
        )
        self._on_open(connection)
        self._remember(key, QuicFlow([connection]))
        self._say(connection, mark, "QUIC under way, by its looks", outgoing=None)
        return True

    def _datagram(self, flow: QuicFlow, datagram: UdpDatagram, part: bytes, mark: Mark, cut: int) -> None:
        """Take one datagram, of which a snaplen left `cut` bytes out."""
        try:
            packets = split_datagram(part)
        except DecodeError:
            packets = greased(flow, datagram, part)
            if not packets:
                self.unreadable += 1
                return
        seen: list[QuicConnection] = []
        hello_part = False
        for packet in packets:
            if isinstance(packet, ShortPacket):
                connection = short_connection(flow, datagram, packet)
            else:
                connection = long_connection(flow, datagram, packet) or self._open(flow, datagram, packet, mark)
            if connection is None:
                continue
            from_client = datagram.source == connection.client
            if connection not in seen:
                seen.append(connection)
                count_datagram(connection, mark, len(part) + cut, from_client=from_client)
            if isinstance(packet, ShortPacket):
                self._packets.short(connection, mark, len(packet.data) + cut, from_client=from_client)
            elif self._packets.long(connection, packet, mark, from_client=from_client) and not hello_part:
                hello_part = True
                self._packets.hello_sent(connection, mark)
            if self.on_packet is not None:
                self.on_packet(connection, packet, mark, from_client=from_client)

    def _open(self, flow: QuicFlow, datagram: UdpDatagram, packet: LongPacket, mark: Mark) -> QuicConnection | None:
        """Make a connection for a packet that fits none."""
        asking = self._elsewhere.find(datagram, packet)
        if asking is not None:
            asking.elsewhere = asking.elsewhere or (mark, datagram.source)
            return None
        if packet.kind in ("retry", "version-negotiation"):
            return None  # Without the Initial that it answers it proves nothing, and may be forged.
        if packet.kind == "unknown" and not looks_like_quic(datagram.payload, datagram.length):
            return None  # Something else that shares the ports with QUIC, as media of a call do.
        # What a snaplen cut cannot be opened, and only the ports tell whose it is.
        begins = packet.kind == "initial" and (
            not server_side(datagram) if packet.truncated else opens_as_client(packet)
        )
        known_start = begins or packet.kind == "unknown"
        # Only clients send 0-RTT packets, and to the connection ID that the Initial keys come from: the Initial
        # itself may still come, late.
        early = packet.kind == "zero-rtt"
        if not known_start and not early and flow_key(datagram.source, datagram.destination) in self._past:
            return None
        from_server = not known_start and not early and server_side(datagram)
        connection = QuicConnection(
            id=self._new_id(),
            client=datagram.destination if from_server else datagram.source,
            server=datagram.source if from_server else datagram.destination,
            version=packet.version,
            first=mark,
            last=mark,
            mid_stream=not known_start,
        )
        if known_start or early:
            connection.dcid = connection.key_dcid = packet.dcid
        if from_server:
            connection.client_scid, connection.server_scid = packet.dcid, packet.scid
        else:
            connection.client_scid = packet.scid
            if connection.dcid is None:
                connection.server_scid = packet.dcid
        self._make_room(flow)
        flow.connections.append(connection)
        self._elsewhere.remember(connection)
        self._on_open(connection)
        if packet.kind == "unknown":
            self._say(connection, mark, f"QUIC {connection.version_name}", outgoing=True, weight="start")
        return connection

    def _make_room(self, flow: QuicFlow) -> None:
        """Let go of a flow's earliest attempt where it has as many as it may have."""
        if len(flow.connections) >= CONNECTIONS_PER_FLOW:
            self._attempts_evicted += 1
            self._on_evict(flow.connections.pop(0))
