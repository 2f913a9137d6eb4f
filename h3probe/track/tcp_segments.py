"""What a TCP segment can be to a connection: its own or another's, seen by whoever sent it or guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.track.clock import NS
from h3probe.track.tcp import STREAM_LIMIT
from h3probe.wire.packet import ACK, RST, SYN
from h3probe.wire.tls import looks_like_client_hello

if TYPE_CHECKING:
    from h3probe.track.tcp import Stream, TcpConnection
    from h3probe.wire.packet import IcmpError, TcpSegment

LEAP: Final = 1 << 16
"""Bytes that a capture may lack before a ClientHello that does not begin its stream, and before an early end. What is
further off is from somebody who guesses, and sees no packet."""
QUIET_NS: Final = 5 * NS
"""How long the ports of a connection whose end was not seen are its own."""
CONNECT_PREFIXES: Final = (b"CONNECT ", b"GET ")
"""A request for connect-udp is a GET, in absolute form where it is sent to a proxy; its head tells it from others."""


def quotes(error: IcmpError, connection: TcpConnection) -> bool:
    """Whether an error can be about this connection: it quotes the SYN's sequence number (RFC 5927, 4.1)."""
    if connection.client_isn is None or connection.synack is not None or len(error.quoted) < 8:
        return True
    if error.source != connection.client:
        return True
    return int.from_bytes(error.quoted[4:8]) in (connection.client_isn, (connection.client_isn + 1) & 0xFFFF_FFFF)


def acknowledges_more(connection: TcpConnection, segment: TcpSegment) -> bool:
    """Whether a segment acknowledges bytes that were not seen."""
    other = connection.server_stream if segment.source == connection.client else connection.client_stream
    if not segment.flags & ACK or other.base is None:
        return False
    # A FIN has a number of its own. What is further away is no number of this connection's.
    return 1 < other.offset(segment.ack) - other.bytes_seen < STREAM_LIMIT


def is_anothers_syn(connection: TcpConnection, segment: TcpSegment) -> bool:
    """Whether a SYN begins another connection, and is neither repeated nor late in the capture."""
    if connection.reported or connection.client_isn is not None:
        return not connection.reported and connection.client_isn != segment.seq
    late = segment.source == connection.client and connection.client_stream.base == (segment.seq + 1) & 0xFFFF_FFFF
    return not late


def is_anothers_hello(connection: TcpConnection, segment: TcpSegment) -> bool:
    """Whether a ClientHello is so far from all that a connection has sent that its ports are used anew, SYN unseen.

    A capture that holds SYNs would hold its, too: while the connection is at work that is somebody's who guesses.
    """
    if segment.payload[:1] != b"\x16" or connection.tls is None or segment.source != connection.client:
        return False
    at_work = connection.ended is None and segment.time_ns - connection.last.time_ns < QUIET_NS
    if at_work and connection.client_isn is not None:
        return False
    ahead = connection.client_stream.offset(segment.seq) - connection.client_stream.bytes_seen
    return abs(ahead) > STREAM_LIMIT and looks_like_client_hello(segment.payload)


def connects(segment: TcpSegment, connection: TcpConnection) -> bool:
    """Whether the client's segment tells that its SYN was answered: one-sided captures have no SYN-ACK."""
    return segment.flags & (ACK | RST) == ACK and not is_far(segment, connection.client_stream)


def is_guessed(segment: TcpSegment, connection: TcpConnection, *, from_client: bool) -> bool:
    """Whether an end that comes before a connection is ready is from nobody who sees it: no host takes that for one."""
    if connection.mid_stream or connection.reported or connection.ready is not None:
        return False
    if connection.synack is None and connection.connected is None and not from_client:
        # A reset answers a SYN by acknowledging it (RFC 9293, 3.10.7.3).
        if connection.client_isn is None:
            return False
        acknowledged = (segment.ack - connection.client_isn - 1) & 0xFFFF_FFFF
        return not segment.flags & ACK or acknowledged > connection.client_stream.bytes_seen
    return is_far(segment, connection.client_stream if from_client else connection.server_stream)


def is_far(segment: TcpSegment, stream: Stream) -> bool:
    """Whether a segment lies where no capture of this stream can have come to."""
    return stream.base is not None and abs(stream.offset(segment.seq) - stream.bytes_seen) > LEAP


def sent_by_server(segment: TcpSegment) -> bool:
    """Guess, for a connection whose start was missed, who sent this segment."""
    if segment.flags & SYN:
        return True  # SYN and ACK: only servers send that.
    if looks_like_client_hello(segment.payload) or segment.payload.startswith(CONNECT_PREFIXES):
        return False
    return segment.source.port < segment.destination.port
