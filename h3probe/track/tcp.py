"""One TCP connection: its handshake, the TLS on it, its end."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from h3probe.track.clock import NS
from h3probe.track.quic import IDLE_NS, LINGER_NS, PATIENCE_NS
from h3probe.track.tls_progress import TlsProgress, TlsState
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls_hello import without_extensions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.events import Endpoint, Process
    from h3probe.records import Side, TcpOutcome
    from h3probe.track.mark import Mark
    from h3probe.track.tunnel import Tunnel, Tunnels
    from h3probe.wire.packet import IcmpError
    from h3probe.wire.tls_hello import ClientHello

# Ports of protocols that have nothing to do with HTTP; their connections are tracked and not talked about.
OTHER_PROTOCOLS = frozenset({20, 21, 22, 23, 25, 53, 88, 110, 111, 135, 139, 143, 389, 445, 465, 514, 587, 636, 853,
                             873, 993, 995, 1433, 1521, 1883, 2049, 3306, 3389, 5222, 5432, 5672, 5900, 6379, 9092,
                             11211, 27017})  # fmt: skip
# RFC 6298, 2.4: what is not acknowledged is sent again after a second, or less.
SILENCE_NS = 3 * NS
# Enough for a CONNECT exchange, a ClientHello of 64 KiB and a long certificate chain.
STREAM_LIMIT = 131_072
# Bursts of a server's bytes that are remembered, and what parts two.
BURSTS_LIMIT = 512
BURST_NS = NS // 20
# The smallest record of TLS 1.3 that holds a response, an HTTP/2 HEADERS frame of one byte; a close_notify is smaller.
SMALLEST_RESPONSE = 32
# A quiet connection is not an ended one: keep-alive connections wait for minutes.
TCP_IDLE_NS = 600 * NS


@dataclass(slots=True)
class Stream:
    """One direction's bytes, put together while somebody still reads them.

    Attributes:
        base: Sequence number of the first byte, None before it is known.
        bytes_seen: Payload bytes, counted once, from the sequence numbers.
        data: The bytes; None once nobody reads them.
    """

    base: int | None = None
    bytes_seen: int = 0
    data: Reassembler | None = field(default_factory=lambda: Reassembler(limit=STREAM_LIMIT))

    @property
    def contiguous(self) -> bytes:
        """The bytes up to the first gap; none where nobody reads them any more."""
        return self.data.contiguous if self.data is not None else b""

    def offset(self, seq: int) -> int:
        """Where a sequence number stands in the stream, near to where it has come; negative before its start."""
        ahead = ((seq - (self.base or 0) - self.bytes_seen + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
        return self.bytes_seen + ahead

    def restart(self, seq: int) -> None:
        """Begin anew at `seq`."""
        self.base = seq
        self.data = Reassembler(limit=STREAM_LIMIT)


@dataclass(slots=True)
class TcpConnection:
    """What is known of one connection; marks are None until their packet is seen.

    Attributes:
        id: Unique in this output.
        client: The side that sent the SYN, or the ClientHello when the start was missed.
        server: The other one.
        first: Its first packet.
        last: Its latest packet.
        mid_stream: Whether the SYN was missed.
        client_isn: The client's initial sequence number.
        syn: The first SYN.
        syns: How many SYNs, copies left out.
        last_syn_ns: When the latest of them was.
        synack: The first SYN-ACK.
        connected: The client's first ACK after it.
        refusals: ICMP errors about what the client sent.
        reset: The first RST and its sender.
        fin: The first FIN and its sender.
        tls: The handshake on it, once it is known to be TLS.
        tls_at: Where TLS starts in the two streams.
        plain: Whether it begins with something other than TLS.
        http: Whether that is a request of HTTP/1.1, in the clear.
        preface: Whether that is the beginning of HTTP/2, in the clear (RFC 9113, 3.4).
        inner: Whether TLS begins behind something else (SOCKS, STARTTLS), so that its name need not be this server's.
        tunnels: The CONNECT exchanges on it.
        client_bytes_at_ready: The client's bytes up to that moment.
        server_bytes_at_ready: The server's.
        responses_ns: When the server answered after that, a time for each burst, the latest ones.
        asked: The client's last segment with payload before each of them.
        asking: Its last one since the latest of them; None where it has sent none.
        failed: Whether the proxy reports that TLS did not get ready on it, or that the client left because of it.
        laid_open: Whether all that it carried is known: every byte was decrypted, or the proxy terminated TLS on it.
        missed: Whether responses were decrypted of which the requests were not.
        cut: Whether payload is missing that a snaplen cut or the capture lost, before the handshake was over.
        process: The client's process.
        told_host: The host that the client's own log names for it.
    """

    id: str
    client: Endpoint
    server: Endpoint
    first: Mark
    last: Mark
    mid_stream: bool = False
    client_isn: int | None = None
    syn: Mark | None = None
    syns: int = 0
    last_syn_ns: int = 0
    synack: Mark | None = None
    connected: Mark | None = None
    refusals: list[tuple[Mark, IcmpError]] = field(default_factory=list)
    reset: tuple[Mark, Side] | None = None
    fin: tuple[Mark, Side] | None = None
    tls: TlsProgress | None = None
    tls_at: tuple[int, int] = (0, 0)
    plain: bool = False
    http: bool = False
    preface: bool = False
    inner: bool = False
    tunnels: Tunnels | None = None
    client_stream: Stream = field(default_factory=Stream)
    server_stream: Stream = field(default_factory=Stream)
    client_bytes_at_ready: int | None = None
    server_bytes_at_ready: int | None = None
    responses_ns: list[int] = field(default_factory=list)
    asked: list[Mark] = field(default_factory=list)
    asking: Mark | None = None
    failed: bool = False
    laid_open: bool = False
    missed: bool = False
    cut: bool = False
    process: Process | None = None
    told_host: str | None = None
    settled: bool = False
    given_up: bool = False

    transport: Literal["tcp"] = "tcp"

    @property
    def reported(self) -> bool:
        """Whether only the proxy's report shows it so far."""
        return self.first.frame is None

    @property
    def is_read(self) -> bool:
        """Whether its bytes are still put together."""
        return self.client_stream.data is not None or self.server_stream.data is not None

    @property
    def connecting(self) -> bool:
        """Whether a SYN or its answer was seen, and the answer was not yet acknowledged."""
        return (self.syn is not None or self.synack is not None) and self.connected is None

    @property
    def torn(self) -> bool:
        """Whether a part of the handshake is missing from the capture, so that an end proves no failure."""
        return self.cut or self.one_sided

    @property
    def unsure(self) -> bool:
        """Whether an encrypted alert was taken for its end, and bytes are missing after which it was none."""
        return self.torn and self.tls is not None and self.tls.alert is not None and self.tls.alert[1] is None

    @property
    def has_gaps(self) -> bool:
        """Whether bytes are missing in the middle of what is put together."""
        return any(s.data is not None and s.data.gaps for s in (self.client_stream, self.server_stream))

    @property
    def one_sided(self) -> bool:
        """Whether nothing of the server's was seen, so that its silence proves nothing."""
        ended = self.ended
        return not (self.synack is not None or self.server_stream.bytes_seen or (ended and ended[1] == "server"))

    @property
    def undecided(self) -> bool:
        """Whether its first bytes do not tell yet what it carries."""
        return self.tls is None and self.tunnels is None and not self.plain

    @property
    def tunnels_asked(self) -> Sequence[Tunnel]:
        """What it asked a proxy for, in order; nothing where its server is none."""
        return self.tunnels.asked if self.tunnels is not None else ()

    @property
    def ended_by_reset(self) -> bool:
        """Whether it was an RST that ended it."""
        return self.ended is not None and self.reset is not None and self.reset[0] == self.ended[0]

    @property
    def hello(self) -> ClientHello | None:
        """The ClientHello."""
        return self.tls.hello if self.tls is not None else None

    @property
    def ja4(self) -> str | None:
        """The ClientHello's fingerprint."""
        return self.tls.ja4 if self.tls is not None else None

    @property
    def ready(self) -> Mark | None:
        """When the first request could leave: after TLS, or at once where there is none."""
        if self.tls is not None:
            return self.tls.ready
        return self.connected if self.plain else None

    @property
    def established(self) -> bool:
        """Whether it could carry a request at some time."""
        return self.ready is not None

    @property
    def ended(self) -> tuple[Mark, Side] | None:
        """The first FIN or RST, and whose it was."""
        ends = [end for end in (self.fin, self.reset) if end is not None]
        return min(ends, key=lambda end: end[0].time_ns, default=None)

    @property
    def refused(self) -> bool:
        """Whether the SYN was answered with RST or an ICMP error."""
        if self.synack is not None or self.syn is None or self.connected is not None:
            return False
        return bool(self.refusals) or (self.reset is not None and self.reset[1] == "server")

    @property
    def garbled(self) -> bool:
        """Whether its TLS began, and could not be read on."""
        return self.tls is not None and self.tls.hello is not None and self.tls.garbled

    @property
    def ignored(self) -> bool:
        """Whether the ClientHello was all that the client sent, again for a while, and nothing of the server's came."""
        tls = self.tls
        if tls is None or tls.hello_mark is None or self.torn or self.connected is None or self.ended is not None:
            return False
        alone = not self.server_stream.bytes_seen and self.client_stream.bytes_seen == self.tls_at[0] + tls.client_read
        return alone and self.last.time_ns - tls.hello_mark.time_ns >= SILENCE_NS

    @property
    def request_bytes(self) -> int:
        """Bytes from the client after it was ready, and those for the application that it had sent by then."""
        if self.client_bytes_at_ready is None:
            return 0
        ahead = self.tls.ahead if self.tls is not None else 0
        return self.client_stream.bytes_seen - self.client_bytes_at_ready + ahead

    @property
    def response_bytes(self) -> int:
        """Bytes from the server after the connection was ready."""
        if self.server_bytes_at_ready is None:
            return 0
        return self.server_stream.bytes_seen - self.server_bytes_at_ready

    def attempt_over_ns(self, now_ns: int) -> int | None:
        """When the attempt ended, ready or failed; None while it may still succeed."""
        if self.ready is not None:
            return self.ready.time_ns
        ended = self.ended
        if ended is not None:
            return ended[0].time_ns
        return self.last.time_ns if self.outcome(now_ns) is not None else None

    def outcome(self, now_ns: int) -> TcpOutcome | None:
        """How the attempt ended, as far as is known at `now_ns`; None when it cannot be said."""
        if self.reported:
            return "reset" if self.failed else "established"  # The proxy had it.
        if self.refused:
            return "refused"
        if self.ready is not None:
            return "established"
        if self.syn is not None and self.synack is None and self.connected is None:
            # A client that still waits sends its SYN again.
            return "unanswered" if self.syns > 1 and now_ns - self.syn.time_ns >= PATIENCE_NS else None
        in_handshake = self.tls is not None and self.tls.hello is not None
        failed = self.tls is not None and self.tls.state is TlsState.FAILED
        if (
            in_handshake
            and not self.garbled
            and ((failed and not self.unsure) or (self.ended is not None and not self.torn))
        ):
            return "reset"
        if self.mid_stream:
            return "mid-stream"
        if in_handshake or (self.cut and self.tls is not None):
            return "unanswered" if self.ignored else None
        if self.undecided and (self.cut or self.server_stream.bytes_seen):
            return None  # What the client sent was not captured.
        if self.reset is not None and not self.client_stream.bytes_seen:
            return "reset"
        return "established" if self.connected is not None else None

    def note_response(self, time_ns: int, size: int) -> None:
        """The server sent something: an answer if the client had asked, and nobody is closing the connection."""
        if self.asking is None or self.ended is not None or (self.tls is not None and size < SMALLEST_RESPONSE):
            return
        asked, self.asking = self.asking, None
        if not self.responses_ns or time_ns - self.responses_ns[-1] > BURST_NS:
            self.responses_ns.append(time_ns)
            self.asked.append(asked)
            if len(self.responses_ns) > BURSTS_LIMIT:
                del self.responses_ns[: BURSTS_LIMIT // 2]
                del self.asked[: BURSTS_LIMIT // 2]

    def responded_between(self, start_ns: int, end_ns: int) -> bool:
        """Whether the server answered something in between."""
        at = bisect_right(self.responses_ns, start_ns)
        return at < len(self.responses_ns) and self.responses_ns[at] < end_ns

    def first_asked(self, start_ns: int, end_ns: int) -> Mark | None:
        """The client's last segment before the first answer in between; None where there was none."""
        at = bisect_right(self.responses_ns, start_ns)
        return self.asked[at] if self.responded_between(start_ns, end_ns) else None

    def release(self) -> None:
        """Let go of what only further segments would need."""
        self.client_stream.data = self.server_stream.data = None
        if self.tls is not None and self.tls.hello is not None:
            self.tls.hello = without_extensions(self.tls.hello)

    def is_idle(self, now_ns: int) -> bool:
        """Whether nothing more is expected of it."""
        quiet = now_ns - self.last.time_ns
        if self.ended is not None:
            return quiet >= LINGER_NS
        return quiet >= (TCP_IDLE_NS if self.connected is not None or self.mid_stream else IDLE_NS)
