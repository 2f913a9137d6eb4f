"""One QUIC connection, as its Initials and the presence of its other packets tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from h3probe.track.clock import NS
from h3probe.wire.quic.versions import known, version_name
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls_hello import without_extensions

if TYPE_CHECKING:
    from h3probe.events import Endpoint, Process
    from h3probe.records import QuicOutcome, Side
    from h3probe.track.mark import Mark
    from h3probe.wire.packet import IcmpError
    from h3probe.wire.quic.frames import ConnectionClose
    from h3probe.wire.tls_hello import ClientHello, ServerHello

# A handshake that goes on for this long after the first answer has stalled.
PATIENCE_NS = 1 * NS
# Two probe timeouts of a client that has measured no round trip yet (RFC 9002, 6.2.2), and of one that has, in round
# trips: whoever is silent for longer is not waiting.
LEFT_NS = 2 * NS
LEFT_ROUND_TRIPS = 6
# A client that sends its Initial again after this has waited longer than any path on Earth takes; Chromium's
# first repetition comes after 300 ms, when a slow answer may still be on its way. The JDK's comes after 999 ms.
REPEATED_NS = 9 * NS // 10
# Less than this without an answer proves nothing: the answer may still be on its way.
ANSWER_NS = NS // 4
# A connection that shows nothing for this long is over: longer than any known client's idle timeout of
# 30 s, and than the longest gap between two Initials of one attempt (16 s after a first PTO of 1 s).
IDLE_NS = 60 * NS
# A closed connection is kept this long for late packets and ICMP errors.
LINGER_NS = 3 * NS
# HTTP/3 needs a SETTINGS frame and HEADERS each way (RFC 9114, 6.2.1 and 4.1); acknowledgements alone stay below.
SMALLEST_REQUEST = 80
SMALLEST_RESPONSE = 120
# Zeek's default for the same column.
HISTORY_LIMIT = 100
MARKS_LIMIT = 64


@dataclass(slots=True)
class HelloStream:
    """The CRYPTO stream of one side's Initials, until its hello is whole.

    Attributes:
        stream: The bytes put together.
        packet_numbers: Initials already counted, so that a second copy of a packet counts once.
        largest: The largest packet number opened, which the next one is decoded against.
    """

    stream: Reassembler = field(default_factory=lambda: Reassembler(limit=65_536))
    packet_numbers: set[int] = field(default_factory=set)
    largest: int = -1


@dataclass(slots=True)
class QuicConnection:
    """What is known of one connection.

    `client` is the side that sent the first Initial. Marks are None until the packet they stand for is seen.

    Attributes:
        id: Unique in this output.
        client: The client's endpoint.
        server: The server's endpoint.
        version: The version in use, as the wire's 32 bits; the last one when it was switched.
        first: Its first packet.
        last: Its latest packet, either direction.
        dcid: The client's first Destination Connection ID; None when the start was not seen.
        key_dcid: The Destination Connection ID that the Initial keys come from (anew after Retry).
        client_scid: The client's Source Connection ID.
        server_scid: The server's, from its first packet that is no Retry.
        unfamiliar: The version's name when nothing of it can be decoded (gQUIC, unknown).
        gquic: The gQUIC version's name.
        nameless: Whether only 1-RTT packets were seen, which do not say their version.
        exchanged: Whether the proxy saw an exchange on it.
        laid_open: Whether all that it carried is known, since every packet of the server's was decrypted.
        missed: Whether responses were decrypted of which the requests were not, as those in 0-RTT without its secret.
        mid_stream: Whether the first packets were missed.
        hello: The ClientHello, whole.
        server_hello: The ServerHello, whole.
        history: Letters for packets in order.
        hello_datagrams: Client datagrams that carried a part of the ClientHello, at most `MARKS_LIMIT`.
        initials_sent: How many there were.
        last_client: The client's latest packet.
        last_server: The server's.
        first_answer: The server's first packet.
        answer_acked: Whether the client's Initials acknowledge packets: an answer arrived, seen or not.
        retry: A Retry that verifies.
        version_negotiation: When, and the server's versions.
        client_handshake: The client's last Handshake packet before its first 1-RTT packet.
        client_short: The client's first 1-RTT packet.
        server_handshake: The server's first Handshake packet.
        server_short: The server's first 1-RTT packet.
        server_handshake_last: Its latest Handshake packet; it repeats them while the client's Finished does not come.
        client_bytes_ready: 1-RTT bytes that the client sent once it was ready.
        server_bytes_ready: 1-RTT bytes that the server sent after that.
        client_close: The client's first CONNECTION_CLOSE that could be read.
        server_close: The server's.
        refusals: ICMP errors about what the client sent, at most `MARKS_LIMIT`.
        client_gone: ICMP said that the client's port is closed: its process has ended.
        too_big: ICMP said that a datagram was too big for the path.
        hindered: The first other ICMP error about what the client sent that is no refusal, such as time exceeded.
        elsewhere: The first packet that answers it from another address or port, and from which.
        tries: How often the client has sent something after a pause, since the server's latest packet.
        tried: The first of these.
        first_size: The UDP payload of its first packet, bytes.
        client_largest: The largest UDP payload the client sent, bytes.
        server_largest: The largest UDP payload the server sent, bytes.
        client_bytes: UDP payload the client sent, bytes.
        server_bytes: UDP payload the server sent, bytes.
        cut: Initials that a snaplen cut, so that they could not be opened.
        unopened: Initials that the keys did not open.
        process: The client's process.
        told_host: The host that the client's own log names for it.
        settled: Whether nothing more is expected of it.
        given_up: Whether its handshake was read no further, to keep memory bounded.
        introduced: Whether the timeline has named it.
        client_crypto: The client's hello while it is put together.
        server_crypto: The server's.
    """

    id: str
    client: Endpoint
    server: Endpoint
    version: int
    first: Mark
    last: Mark
    dcid: bytes | None = None
    key_dcid: bytes | None = None
    client_scid: bytes | None = None
    server_scid: bytes | None = None
    gquic: str | None = None
    nameless: bool = False
    exchanged: bool = False
    laid_open: bool = False
    missed: bool = False
    mid_stream: bool = False
    hello: ClientHello | None = None
    server_hello: ServerHello | None = None
    ja4: str | None = None
    history: list[str] = field(default_factory=list)
    hello_datagrams: list[Mark] = field(default_factory=list)
    initials_sent: int = 0
    last_client: Mark | None = None
    last_server: Mark | None = None
    first_answer: Mark | None = None
    answer_acked: bool = False
    retry: Mark | None = None
    retry_scid: bytes | None = None
    version_negotiation: tuple[Mark, tuple[int, ...]] | None = None
    client_handshake: Mark | None = None
    client_short: Mark | None = None
    server_handshake: Mark | None = None
    server_short: Mark | None = None
    server_handshake_last: Mark | None = None
    client_bytes_ready: int = 0
    server_bytes_ready: int = 0
    client_close: tuple[Mark, ConnectionClose] | None = None
    server_close: tuple[Mark, ConnectionClose] | None = None
    refusals: list[tuple[Mark, IcmpError]] = field(default_factory=list)
    refusals_seen: int = 0
    client_gone: Mark | None = None
    too_big: tuple[Mark, IcmpError] | None = None
    hindered: tuple[Mark, IcmpError] | None = None
    elsewhere: tuple[Mark, Endpoint] | None = None
    tries: int = 0
    tried: Mark | None = None
    first_size: int = 0
    client_largest: int = 0
    server_largest: int = 0
    client_bytes: int = 0
    server_bytes: int = 0
    client_short_bytes: int = 0
    server_short_bytes: int = 0
    cut: int = 0
    unopened: int = 0
    process: Process | None = None
    told_host: str | None = None
    settled: bool = False
    given_up: bool = False
    introduced: bool = False
    client_crypto: HelloStream | None = field(default_factory=HelloStream)
    server_crypto: HelloStream | None = field(default_factory=HelloStream)

    transport: Literal["quic"] = "quic"

    @property
    def version_name(self) -> str | None:
        """`v1`, `v2`, `draft-29`, a gQUIC name, or `0x…`; None when no packet says it."""
        return None if self.nameless else self.gquic or version_name(self.version)

    @property
    def decodable(self) -> bool:
        """Whether the version is one whose Initials can be opened."""
        return self.gquic is None and known(self.version) is not None

    @property
    def answered(self) -> bool:
        """Whether the server answered at all, seen here or acknowledged by the client."""
        return self.first_answer is not None or self.answer_acked or self.client_handshake is not None

    @property
    def established(self) -> bool:
        """Whether the handshake completed: it was seen, and 1-RTT packets from the client; or an exchange was."""
        handshake = (self.client_handshake, self.server_handshake, self.server_short)
        return self.exchanged or (self.client_short is not None and handshake != (None, None, None))

    @property
    def unconfirmed(self) -> bool:
        """Whether the server goes on with its handshake long after the client was ready: it lacks the Finished."""
        ready, last = self.client_handshake, self.server_handshake_last
        if ready is None or last is None or self.server_bytes_ready:
            return False
        return last.time_ns - ready.time_ns >= PATIENCE_NS

    @property
    def talked(self) -> bool:
        """Whether enough went both ways after the handshake for a request and its response."""
        return self.client_bytes_ready >= SMALLEST_REQUEST and self.server_bytes_ready >= SMALLEST_RESPONSE

    @property
    def ready(self) -> Mark | None:
        """The client's last Handshake packet before its first 1-RTT packet; it holds the Finished."""
        return self.client_handshake if self.established else None

    @property
    def close(self) -> tuple[Mark, ConnectionClose, Side] | None:
        """The first CONNECTION_CLOSE that could be read, and whose it was."""
        sides: list[tuple[Mark, ConnectionClose, Side]] = []
        if self.client_close is not None:
            sides.append((*self.client_close, "client"))
        if self.server_close is not None:
            sides.append((*self.server_close, "server"))
        return min(sides, key=lambda side: side[0].time_ns, default=None)

    @property
    def ended(self) -> Mark | None:
        """When it was seen to end: a close that was read, or the end of the client's socket."""
        marks = [close[0] for close in (self.client_close, self.server_close) if close is not None]
        if self.client_gone is not None:
            marks.append(self.client_gone)
        return min(marks, key=lambda mark: mark.time_ns, default=None)

    def attempt_over_ns(self, now_ns: int) -> int | None:
        """When the attempt ended, ready or failed; None while it may still succeed.

        Args:
            now_ns: The end of what is known.
        """
        if self.established:
            return (self.client_handshake or self.client_short or self.last).time_ns
        ended = self.ended
        if ended is not None:
            return ended.time_ns
        return self.last.time_ns if self.outcome(now_ns) is not None else None

    def outcome(self, now_ns: int) -> QuicOutcome | None:
        """How the attempt ended, as far as is known at `now_ns`; None when it cannot be said."""
        if self.exchanged:
            return "established"
        if self.nameless:
            return "mid-stream"
        if not self.decodable:
            return "version-negotiation" if self.version_negotiation is not None else None
        if self.established and not self.mid_stream:
            return "stalled" if self.unconfirmed else "established"
        if self.version_negotiation is not None:
            return "version-negotiation"
        if self.server_close is not None or (self.client_close is not None and self.answered):
            return "closed"
        if self.mid_stream:
            return "mid-stream"
        if self.answered:
            tried = self.stalled_ns >= PATIENCE_NS
            return "stalled" if self.stuck and (tried or self.left(now_ns)) else None
        if self.refusals:
            return "refused"
        # A client that still waits sends its Initial again; one packet and then silence may as well be a client
        # that is gone, or a capture that ends.
        waits = self.client_close is not None or self.repeated
        return "unanswered" if waits and now_ns - self.first.time_ns >= ANSWER_NS else None

    @property
    def stuck(self) -> bool:
        """Whether all that was seen is a handshake: 1-RTT comes after it (RFC 9001, 5.7), a snaplen hides it."""
        return self.client_short is None and not self.cut

    def left(self, now_ns: int) -> bool:
        """Whether its last packets are the server's part of the handshake and the client's answer to that.

        A client sends probes until its handshake is confirmed (RFC 9002, 6.2.2.1), a server repeats what was not
        acknowledged: where both are silent one of them has ended it, in a packet that is encrypted.
        """
        answer, first = self.client_handshake, self.first_answer
        if self.server_handshake is None or answer is None or first is None or self.client_short is not None:
            return False
        if self.server_short is not None and self.server_short.time_ns > answer.time_ns:
            return False  # The server has the client's Finished.
        patience = max(LEFT_NS, LEFT_ROUND_TRIPS * (first.time_ns - self.first.time_ns))
        return self.last_client == answer and now_ns - self.last.time_ns >= patience

    @property
    def repeated(self) -> bool:
        """Whether the client sent its ClientHello again after waiting for an answer."""
        marks = self.hello_datagrams
        if self.cut and not marks and self.last_client is not None:
            # A snaplen hides what its Initials hold; before an answer there is nothing else in them.
            return self.last_client.time_ns - self.first.time_ns >= REPEATED_NS
        return bool(marks) and marks[-1].time_ns - marks[0].time_ns >= REPEATED_NS

    @property
    def stalled_ns(self) -> int:
        """How long the two have been seen trying since the server's first answer."""
        # A server that repeats itself to a client that is gone does not try to get anywhere.
        return (self.client_gone or self.last).time_ns - (self.first_answer or self.first).time_ns

    def is_idle(self, now_ns: int) -> bool:
        """Whether nothing more is expected of it."""
        quiet = now_ns - self.last.time_ns
        return quiet >= (LINGER_NS if self.ended is not None else IDLE_NS)

    def release(self) -> None:
        """Let go of what only further packets would need."""
        self.client_crypto = self.server_crypto = None
        if self.hello is not None:
            self.hello = without_extensions(self.hello)

    def note(self, letter: str) -> None:
        """Add a letter to the history."""
        if len(self.history) < HISTORY_LIMIT:
            self.history.append(letter)
