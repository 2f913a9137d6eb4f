"""What of a packet a capture file keeps: handshakes and headers, no payload, no credentials."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.track.names import DNS_PORTS
from h3probe.track.table import BoundedTable
from h3probe.wire.http1 import looks_like_request
from h3probe.wire.packet import TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from h3probe.events import Endpoint, Frame
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Tracker
    from h3probe.wire.packet import Fact

# A short-header packet's connection ID and what is around it; and a TLS record's head with its first bytes.
KEPT_OF_PROTECTED = 32
# The headers of a fragment, or of an ICMP error and of what it quotes.
KEPT_OF_OTHERS = 128
# Connections remembered as being past their handshake, and flows as being QUIC's.
FLOWS_LIMIT = 65_536
TLS_HANDSHAKE = 0x16
# Header fields whose values are credentials (RFC 9110, 11; RFC 6265), up to the end of their line.
CREDENTIALS = re.compile(
    rb"(?im)^(?P<name>(?:proxy-)?authorization|cookie2?|set-cookie2?|x-api-key)[ \t]*:[ \t]*(?P<value>[^\r\n]*)"
)
USER_INFORMATION = re.compile(rb"(?i)(?P<before>https?://)(?P<value>[^/@\s]{1,512})(?=@)")
ANY_TEXT = re.compile(rb"[^\r\n]")
HEAD_END = re.compile(rb"\r?\n\r?\n")


class Trimmer:
    """Cuts frames down to what a diagnosis needs."""

    def __init__(self) -> None:
        self._over: BoundedTable[str, bool] = BoundedTable(FLOWS_LIMIT)
        self._quic: BoundedTable[tuple[Endpoint, Endpoint], bool] = BoundedTable(FLOWS_LIMIT)

    def trim(self, frame: Frame, tracker: Tracker) -> Frame:
        """Return the frame as it is to be stored.

        Args:
            frame: As captured; `length` keeps saying how long it was.
            tracker: Has just taken this frame, so that its last fact is this frame's.
        """
        fact = tracker.fact
        if not isinstance(fact, UdpDatagram | TcpSegment):
            # A fragment, an ICMP error with a quotation, or nothing that is understood.
            return replace(frame, data=frame.data[:KEPT_OF_OTHERS])
        if not fact.payload:
            return frame
        # The last occurrence: a short payload may stand in the headers too, and behind it there is padding alone.
        at = frame.data.rfind(fact.payload)
        if at < 0:  # Put together from fragments: no single place to cut at.
            return replace(frame, data=frame.data[:KEPT_OF_OTHERS])
        kept = self._datagram(fact) if isinstance(fact, UdpDatagram) else self._segment(fact, tracker)
        return frame if kept is fact.payload else replace(frame, data=frame.data[:at] + kept)

    def kept_of_counted(self, fact: Fact | None, tracker: Tracker) -> int:
        """How many bytes of payload are kept of packets that only count, of this one's flow."""
        if isinstance(fact, UdpDatagram):
            return KEPT_OF_PROTECTED if _flow(fact) in self._quic else 0
        connection = tracker.tcp.find(fact.source, fact.destination) if isinstance(fact, TcpSegment) else None
        over = connection is not None and connection.tls is not None and connection.tls.is_over()
        return KEPT_OF_PROTECTED if over else 0

    def _datagram(self, datagram: UdpDatagram) -> bytes:
        payload = datagram.payload
        if datagram.source.port in DNS_PORTS or datagram.destination.port in DNS_PORTS:
            return payload
        flow = _flow(datagram)
        if _is_long(payload):
            self._quic.put(flow, value=True)
            return payload
        return payload[:KEPT_OF_PROTECTED] if flow in self._quic else b""

    def _segment(self, segment: TcpSegment, tracker: Tracker) -> bytes:
        payload = segment.payload
        connection = tracker.tcp.find(segment.source, segment.destination)
        if connection is None:
            return b""
        if connection.tls is not None:
            return self._tls(connection, payload)
        if looks_like_request(payload) or payload.startswith(b"HTTP/1."):
            return _head_only(payload)
        if connection.tunnels is not None:
            # The middle of a head: a field's value may stand here without its name.
            end = HEAD_END.search(payload)
            return _masked(payload if end is None else payload[: end.end()])
        if not connection.undecided:
            return b""
        # A ClientHello in pieces, or the greeting of another protocol, which may hold a password.
        return payload if payload[0] == TLS_HANDSHAKE else _masked(payload)

    def _tls(self, connection: TcpConnection, payload: bytes) -> bytes:
        if connection.id in self._over:
            return payload[:KEPT_OF_PROTECTED]
        # The segment that ends the handshake is needed whole, or a reader would not see it end.
        if connection.tls is not None and connection.tls.is_over():
            self._over.put(connection.id, value=True)
        return _without_credentials(payload)


def _flow(datagram: UdpDatagram) -> tuple[Endpoint, Endpoint]:
    return min(datagram.source, datagram.destination), max(datagram.source, datagram.destination)


def _is_long(payload: bytes) -> bool:
    """Whether a datagram begins with a QUIC long header (RFC 9000, 17.2), or a version that has no fixed bit."""
    return len(payload) >= 7 and (payload[0] & 0xC0 == 0xC0 or (payload[0] & 0x80 != 0 and payload[1:5] == bytes(4)))


def _masked(payload: bytes) -> bytes:
    return ANY_TEXT.sub(b"x", payload)


def _head_only(payload: bytes) -> bytes:
    end = HEAD_END.search(payload)
    return _without_credentials(payload if end is None else payload[: end.end()])


def _without_credentials(payload: bytes) -> bytes:
    """Replace each credential by as many x, so that lengths and offsets stay."""
    if b":" not in payload:
        return payload
    masked = CREDENTIALS.sub(_mask, payload)
    return USER_INFORMATION.sub(_mask, masked)


def _mask(match: re.Match[bytes]) -> bytes:
    start, end = match.span("value")
    whole = match.group()
    begin = start - match.start()
    return whole[:begin] + b"x" * (end - start) + whole[begin + end - start :]
