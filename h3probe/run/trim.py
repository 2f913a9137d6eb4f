"""What of a packet a capture file keeps: handshakes and headers, no payload, no credentials."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.track.names import DNS_PORTS
from h3probe.wire.http1 import looks_like_request
from h3probe.wire.packet import TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from h3probe.events import Frame
    from h3probe.track.tracker import Tracker

# A short-header packet's connection ID and what is around it; and a TLS record's head with its first bytes.
KEPT_OF_PROTECTED = 32
KEPT_OF_FRAGMENTS = 128
LONG_HEADER = 0x80
# Header fields whose values are credentials (RFC 9110, 11; RFC 6265), up to the end of their line.
CREDENTIALS = re.compile(
    rb"(?im)^(?P<name>(?:proxy-)?authorization|cookie2?|set-cookie2?|x-api-key)[ \t]*:[ \t]*(?P<value>[^\r\n]*)"
)
USER_INFORMATION = re.compile(rb"(?i)(?P<before>https?://)(?P<value>[^/@\s]{1,512})(?=@)")
HEAD_END = re.compile(rb"\r?\n\r?\n")


class Trimmer:
    """Cuts frames down to what a diagnosis needs."""

    def trim(self, frame: Frame, tracker: Tracker) -> Frame:
        """Return the frame as it is to be stored.

        Args:
            frame: As captured; `length` keeps saying how long it was.
            tracker: Has just taken this frame, so that its last fact is this frame's.
        """
        fact = tracker.fact
        if not isinstance(fact, UdpDatagram | TcpSegment) or not fact.payload:
            return frame
        at = frame.data.find(fact.payload)
        if at < 0:  # Put together from fragments: no single place to cut at.
            return replace(frame, data=frame.data[:KEPT_OF_FRAGMENTS])
        kept = self._datagram(fact) if isinstance(fact, UdpDatagram) else self._segment(fact, tracker)
        return frame if kept is fact.payload else replace(frame, data=frame.data[:at] + kept)

    def _datagram(self, datagram: UdpDatagram) -> bytes:
        payload = datagram.payload
        if datagram.source.port in DNS_PORTS or datagram.destination.port in DNS_PORTS:
            return payload
        return payload if payload[0] & LONG_HEADER else payload[:KEPT_OF_PROTECTED]

    def _segment(self, segment: TcpSegment, tracker: Tracker) -> bytes:
        connection = tracker.tcp.find(segment.source, segment.destination)
        if connection is None:
            return b""
        if connection.tls is not None:
            return (
                segment.payload[:KEPT_OF_PROTECTED]
                if connection.tls.is_over()
                else _without_credentials(segment.payload)
            )
        if connection.tunnels is not None or looks_like_request(segment.payload):
            return _head_only(segment.payload)
        if segment.payload.startswith(b"HTTP/1."):
            return _head_only(segment.payload)
        # Another protocol, or the middle of a message: nothing of it is needed.
        return segment.payload if connection.undecided else b""


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
