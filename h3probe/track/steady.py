"""Whether single packets of a flow still matter, by what the tracker knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.facts import fact
from h3probe.track.quic_routing import flow_key
from h3probe.wire.columns import QUIC_SHORT, TCP_DATA, TCP_EMPTY, UDP_OTHER
from h3probe.wire.packet import TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import Stream, TcpConnection
    from h3probe.track.tracker import Connection, Tracker


@fact
class Steady:
    """A flow of which some kinds of packets change nothing but sums.

    Attributes:
        connection: The connection that it is; None where nothing is tracked of it.
        client: The kinds of packets from the client (`h3probe.wire.columns`).
        server: From the server.
    """

    connection: Connection | None
    client: int
    server: int

    def expected(self) -> tuple[int, int]:
        """The sequence numbers that the client and the server have come to; 0 where there are none."""
        if self.connection is None or self.connection.transport == "quic":
            return 0, 0
        streams = (self.connection.client_stream, self.connection.server_stream)
        client, server = ((stream.base or 0) + stream.bytes_seen & 0xFFFF_FFFF for stream in streams)
        return client, server


def steady(tracker: Tracker) -> tuple[Steady, bool] | None:
    """What is steady about the flow of the packet that was fed last, and whether that packet is its client's.

    None where the next packet of it may still mean something, whatever it is.
    """
    fact = tracker.fact
    if isinstance(fact, TcpSegment):
        connection = tracker.tcp.table.peek(flow_key(fact.source, fact.destination))
        if connection is None:
            # The rest of a connection that carries nothing more.
            return Steady(None, TCP_EMPTY, TCP_EMPTY), True
        state = _tcp(connection)
        return None if state is None else (state, fact.source == connection.client)
    if isinstance(fact, UdpDatagram):
        flow = tracker.quic.flows.peek(flow_key(fact.source, fact.destination))
        if flow is None:
            return Steady(None, UDP_OTHER, UDP_OTHER), True
        if len(flow.connections) != 1:
            return None  # Connection IDs tell to which of them a packet belongs.
        quic = _quic(flow.connections[0])
        return None if quic is None else (quic, fact.source == flow.connections[0].client)
    return None


def _quic(connection: QuicConnection) -> Steady | None:
    if connection.first.frame is None or not (connection.answered or connection.mid_stream):
        return None
    client = QUIC_SHORT if connection.client_short is not None else 0
    server = QUIC_SHORT if connection.server_short is not None else 0
    return Steady(connection, client, server) if client or server else None


def _tcp(connection: TcpConnection) -> Steady | None:
    if connection.reported or connection.connecting or connection.is_read:
        return None
    return Steady(connection, _stream(connection.client_stream), _stream(connection.server_stream))


def _stream(stream: Stream) -> int:
    """The first payload tells where the stream begins."""
    return TCP_EMPTY if stream.base is None else TCP_EMPTY | TCP_DATA
