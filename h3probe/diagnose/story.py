"""Stories: what one client did to reach one origin."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from h3probe.diagnose.clients import HEAD_START_S, TIMER_EARLY, recognise
from h3probe.diagnose.surroundings import NOTHING, NOWHERE, Elsewhere, QuicBeside
from h3probe.text import clean
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from h3probe.diagnose.clients import Client
    from h3probe.diagnose.race import Race
    from h3probe.events import AltSvcSeen, CaRejected, Endpoint, UpstreamTrouble
    from h3probe.records import KnownFrom
    from h3probe.track.clock import Clock
    from h3probe.track.names import DnsSighting
    from h3probe.track.proxy_facts import FailedLeg
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection
    from h3probe.track.tunnel import Tunnel

# A story that shows nothing for this long is over, live; longer than any wait of a client between two attempts.
REST_NS = 60 * NS
# What is looked at at once of a story, and what of it goes along into the next part.
CHAPTER_LENGTH = 256
CARRIED_OVER = 32
# A client that nobody has measured may still be about to try TCP before this.
UNKNOWN_WITHIN_S = 5.0
# Times told more closely than this may be subtracted from each other.
EXACT_NS = NS // 100
Vantage = Literal["wire", "relay", "proxy"]
FAILED = frozenset({"unanswered", "refused", "stalled", "closed", "version-negotiation"})


@dataclass(frozen=True, slots=True)
class Seen:
    """A request and its response, whoever saw it.

    Attributes:
        known_from: Who did.
        time_ns: When the request began, or the earliest that is told of it.
        answered_ns: When it was answered, or failed; the latest that this can have been.
        version: What carried it; None where that is not told.
        status: None when there was no response.
        error: Why there was none.
        client: The client's end; None where the connection is not known.
        connection: Id of the connection; likewise.
        ended_ns: When the response was over, or failed, as far as that is told.
        intercepted: Whether TLS was terminated to see it.
        distrusted: Whether there is no response because the proxy does not believe the server's certificate.
        broken: Whether the client says that it has given up an HTTP/3 alternative for now.
    """

    known_from: KnownFrom
    time_ns: int
    answered_ns: int
    version: str | None
    status: int | None
    error: str | None
    client: Endpoint | None
    connection: str | None
    ended_ns: int
    intercepted: bool = False
    distrusted: bool = False
    broken: bool = False

    @property
    def exact(self) -> bool:
        """Whether its times are; a log on paper has whole seconds."""
        return self.answered_ns - self.ended_ns < EXACT_NS


@dataclass(slots=True)
class Story:
    """The attempts of one client at one origin, in the order in which they began.

    Attributes:
        origin: `host:port`, None when no packet names the host.
        server: The server's address and port, for when there is no origin.
        client: How to call the client: its process, or its address.
        host: Identity of the client's host, to tell what else it did.
        clock: The capture's time.
        quic: QUIC attempts.
        tcp: TCP attempts; a connection to a proxy is in `tunnels` instead.
        tunnels: Tunnels asked for, with the connection that carries each.
        relayed: Whether these are a proxy's own connections, on behalf of a client seen beside it.
        races: Set by `race.find_races`.
        one_sided: Whether no packet at all to this client is in the capture, so that silence proves little.
        lossy: Whether packets were lost before they were seen.
        other_ports: Where else QUIC for the same name went, as it does after an Alt-Svc record; of many the first.
        tcp_elsewhere: TCP of the client's host for the same name at other ports: an Alt-Svc record may have led from
            there to here.
        tcp_named: Whether TCP of the client's host to one of the servers asks for a name, where QUIC here tells none;
            that may be for the same origin.
        across: What an address of the other family asked for the same name at the time; it may be the same host's.
        behind: Of its QUIC attempts that were seen again behind a NAT or a load balancer, the latest copy, by their id.
        host_quic: All QUIC that left the client's host, to whatever origin; where processes are known, its own.
        others_quic: QUIC that left the client's host from other processes that are asked about.
        unowned_quic: QUIC that left the client's host, and that may be the client's or anybody's.
        strangers_quic: Whether QUIC left it from processes that nobody asked about.
        of_command: Whether only a command's traffic is asked about.
        in_the_clear: Whether it is about http:// requests that the proxy saw.
        software: The client software, from the first attempt that gives it away.
        exchanges: Requests and responses, as one vantage point saw them; in order of time.
        tcp_before: Whether a TCP connection to one of its servers was there before the capture; it was seen to end.
        astray: Whether the client's log tells of an answer from its origin that leads to none of its connections.
        alt_svc: Alt-Svc lines of the origin.
        rejected: Times that the client refused the proxy's certificate.
        trouble: What a proxy behind the one asked did not do.
        unreached: Connections that the proxy could not make for it.
        binding: What DNS says of the origin's services.
        quic_untouched: Whether the proxy takes TCP alone, and QUIC goes past it as it is.
        swallows_icmp: What is on the way and lets no ICMP error come back; None where they do.
        vantage: Where it was seen from: the wire shows what goes past a relay or a proxy, they do not.
        mixed: Whether connections to the origin stand in another story only because nobody can tell whose they are.
        among_others: Whether other clients of the same host had QUIC to the origin, so that only this one had none.
        over: Whether the client is known to have ended, so that it will try nothing more.
        lacks: Transports (`tcp`, `udp`) of which the whole capture holds not one packet.
        unowned: Whether a command's traffic is wanted, and nobody can say that this is it.
        by_proxy: Whether its client is a proxy that was asked for a tunnel, so that this may be for another client.
        proxied: Whether the client's host asked a proxy for the origin as well, in another story.
    """

    origin: str | None
    server: str
    client: str
    host: str
    clock: Clock
    quic: list[QuicConnection] = field(default_factory=list)
    tcp: list[TcpConnection] = field(default_factory=list)
    tunnels: list[tuple[TcpConnection, Tunnel]] = field(default_factory=list)
    relayed: bool = False
    races: Sequence[Race] = ()
    one_sided: bool = False
    lossy: bool = False
    other_ports: Sequence[int] = ()
    tcp_elsewhere: Elsewhere = NOWHERE
    tcp_named: bool = False
    across: Sequence[Connection] = ()
    behind: Mapping[str, Connection] = field(default_factory=dict)
    host_quic: QuicBeside = NOTHING
    others_quic: QuicBeside = NOTHING
    unowned_quic: QuicBeside = NOTHING
    strangers_quic: bool = False
    of_command: bool = False
    in_the_clear: bool = False
    by_proxy: bool = False
    proxied: bool = False
    vantage: Vantage = "wire"
    unowned: bool = False
    mixed: bool = False
    among_others: bool = False
    over: bool = False
    lacks: frozenset[str] = frozenset()
    software: Client | None = None
    exchanges: Sequence[Seen] = ()
    astray: bool = False
    tcp_before: bool = False
    alt_svc: Sequence[AltSvcSeen] = ()
    rejected: Sequence[CaRejected] = ()
    trouble: Sequence[UpstreamTrouble] = ()
    unreached: Sequence[FailedLeg] = ()
    binding: DnsSighting | None = None
    quic_untouched: bool = False
    swallows_icmp: str | None = None

    @property
    def versions(self) -> dict[str, int] | None:
        """Exchanges per HTTP version, where a vantage point saw them; None where none did."""
        counts = Counter(clean(e.version, 16) for e in self.answered if e.version is not None)
        return dict(sorted(counts.items())) or None

    @property
    def answered(self) -> list[Seen]:
        """The exchanges that had a response."""
        return [e for e in self.exchanges if e.status is not None]

    @property
    def unanswered(self) -> list[Seen]:
        """The exchanges that had none."""
        return [e for e in self.exchanges if e.status is None]

    @property
    def intercepted(self) -> bool:
        """Whether TLS was terminated to see its exchanges."""
        return any(e.intercepted for e in self.exchanges)

    @property
    def had_time(self) -> bool:
        """Whether the client had the time to go on to TCP, by its own packets and habits."""
        if self.over or not self.quic:
            return True
        # The client's own packets are the measure: time that passes after it is gone proves nothing.
        last = max(_client_last(q) for q in self.quic)
        return last - self.quic[0].first.time_ns >= self.patience * NS

    @property
    def patience(self) -> float:
        """Seconds after which the client would have gone on to TCP if it were going to."""
        client = next((c for c in map(recognise, self.quic) if c is not None), None)
        if client is None:
            return UNKNOWN_WITHIN_S
        waits = [timer.seconds for timer in client.timers if timer.leads_to_tcp]
        if waits:
            # A second attempt at the same place, after a whole first timer, is the client's own answer: no TCP.
            if len({q.server for q in self.quic}) < len(self.quic):
                return 0.0
            return max(waits) * TIMER_EARLY
        return client.fallback_within if client.fallback_within is not None else UNKNOWN_WITHIN_S

    @property
    def crowded(self) -> bool:
        """Whether several clients of one kind are at work at once: QUIC attempts at one place, side by side.

        A client keeps to one attempt at a place at a time; where processes are known, nobody needs to guess.
        """
        latest: dict[Endpoint, QuicConnection] = {}
        for attempt in self.quic:
            if attempt.process is not None or attempt.mid_stream:
                continue
            before = latest.get(attempt.server)
            if before is not None and before.client != attempt.client and _client_last(before) > attempt.first.time_ns:
                return True
            if before is None or _client_last(attempt) >= _client_last(before):
                latest[attempt.server] = attempt
        return False

    @property
    def tcp_unseen(self) -> bool:
        """Whether a capture without any TCP may have left out what took a request over."""
        return "tcp" in self.lacks and self.vantage == "wire"

    @property
    def as_far_as(self) -> str:
        """What limits a statement that something was not sent, as the end of a sentence; empty for nothing."""
        if self.udp_unseen:
            return ", as far as a capture without any UDP can show"
        return ", as far as a capture that lost packets can show" if self.lossy else ""

    @property
    def udp_unseen(self) -> bool:
        """Whether a capture without any UDP may have left QUIC out."""
        return "udp" in self.lacks and self.vantage == "wire"

    @property
    def label(self) -> str:
        """The origin, else the server's address."""
        return self.origin or self.server

    def across_by(self, transport: Literal["quic", "tcp"]) -> str | None:
        """The other family's address that used a transport for the same name, and may be the client's; else None."""
        return next((c.client.address for c in self.across if c.transport == transport), None)

    @property
    def connections(self) -> list[Connection]:
        """All of its connections."""
        return [*self.quic, *self.tcp, *(t for t, _ in self.tunnels)]

    @property
    def servers(self) -> list[Endpoint]:
        """Where its attempts went, a proxy left out."""
        return [q.server for q in self.quic] + [t.server for t in self.tcp]

    @property
    def begins_ns(self) -> int:
        """When the first attempt began."""
        return min(c.first.time_ns for c in self.connections)

    @property
    def settled(self) -> bool:
        """Whether nothing more is expected of any of its connections, and nothing was seen of them for a while."""
        latest = max(c.last.time_ns for c in self.connections)
        return self.now_ns - latest >= REST_NS and all(c.settled for c in self.connections)

    @property
    def now_ns(self) -> int:
        """The end of what is known."""
        return self.clock.now_ns

    @property
    def head_start_ns(self) -> int:
        """How far apart the two sides of a race may leave."""
        return round((self.software.head_start if self.software is not None else HEAD_START_S) * NS)

    def failed(self, attempt: QuicConnection) -> bool:
        """Whether a QUIC attempt is known to have failed."""
        return attempt.outcome(self.now_ns) in FAILED

    def first_syn_after(self, attempt: QuicConnection) -> TcpConnection | None:
        """Return the first TCP attempt that began after a QUIC attempt did."""
        later = [t for t in self.tcp if t.syn is not None and t.syn.time_ns >= attempt.first.time_ns]
        return min(later, key=_syn_time, default=None)

    def tcp_open_at(self, time_ns: int) -> TcpConnection | None:
        """Return a TCP connection that could carry a request at a time, as one opened before the capture could."""
        for connection in self.tcp:
            ready, ended = connection.ready, connection.ended
            opened = connection.mid_stream or (ready is not None and ready.time_ns <= time_ns)
            if opened and (ended is None or ended[0].time_ns > time_ns):
                return connection
        return None


def _client_last(attempt: QuicConnection) -> int:
    """When the client sent its latest packet; a server goes on for a while after its client is gone."""
    return (attempt.last_client or attempt.last).time_ns


def _syn_time(connection: TcpConnection) -> int:
    return connection.syn.time_ns if connection.syn is not None else 0


def chapters(story: Story) -> list[Story]:
    """Split a story of very many attempts into consecutive parts, so that looking at it stays linear in its length.

    A part takes along the TCP connections that were still open when it began, the latest ones.
    """
    if len(story.quic) + len(story.tcp) + len(story.tunnels) <= CHAPTER_LENGTH:
        return [story]
    attempts: list[Connection] = [*story.quic, *story.tcp]
    attempts.sort(key=lambda c: c.first.time_ns)
    parts: list[Story] = []
    for start in range(0, len(attempts), CHAPTER_LENGTH):
        part = attempts[start : start + CHAPTER_LENGTH]
        begins_ns = part[0].first.time_ns
        carried = [t for t in parts[-1].tcp if t.ended is None or t.ended[0].time_ns > begins_ns] if parts else []
        tcp = [*carried[-CARRIED_OVER:], *(c for c in part if c.transport == "tcp")]
        parts.append(replace(story, quic=[c for c in part if c.transport == "quic"], tcp=tcp, tunnels=[]))
    asked = story.tunnels
    parts += [
        replace(story, quic=[], tcp=[], tunnels=asked[start : start + CHAPTER_LENGTH])
        for start in range(0, len(asked), CHAPTER_LENGTH)
    ]
    return parts
