"""Stories: what one client did to reach one origin."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from h3probe.diagnose.clients import HEAD_START_S, TIMER_EARLY, recognise
from h3probe.text import clean
from h3probe.track.clock import NS
from h3probe.track.hosts import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.diagnose.clients import Client
    from h3probe.diagnose.race import Race
    from h3probe.events import AltSvcSeen, CaRejected, Endpoint, Exchange, Process, UpstreamTrouble
    from h3probe.track.clock import Clock
    from h3probe.track.names import DnsSighting, Names
    from h3probe.track.proxied import ProxyFacts
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection
    from h3probe.track.tunnel import Tunnel

# Names that stand for all of a provider's customers (draft-ietf-tls-esni, 4: the public name). Which other names do
# cannot be told: browsers send the extension with a site's own name, too, so that it means nothing.
ECH_PUBLIC_NAMES = frozenset({"cloudflare-ech.com"})
# A story that shows nothing for this long is over, live; longer than any wait of a client between two attempts.
REST_NS = 60 * NS
# What is looked at at once of a story, and what of it goes along into the next part.
CHAPTER_LENGTH = 256
CARRIED_OVER = 32
# A client that nobody has measured may still be about to try TCP before this.
UNKNOWN_WITHIN_S = 5.0
Vantage = Literal["wire", "relay", "proxy"]
FAILED = frozenset({"unanswered", "refused", "stalled", "closed", "version-negotiation"})


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
        other_ports: Where else QUIC for the same name went, as it does after an Alt-Svc record.
        host_quic: All QUIC that left the client's host, to whatever origin.
        software: The client software, from the first attempt that gives it away.
        exchanges: Requests and responses that the proxy saw.
        alt_svc: Alt-Svc lines of the origin that it saw.
        rejected: Times that the client refused the proxy's certificate.
        trouble: What a proxy behind the one asked did not do.
        binding: What DNS says of the origin's services.
        vantage: Where it was seen from: the wire shows what goes past a relay or a proxy, they do not.
        mixed: Whether connections to the origin stand in another story only because nobody can tell whose they are.
        over: Whether the client is known to have ended, so that it will try nothing more.
        lacks: Transports (`tcp`, `udp`) of which the whole capture holds not one packet.
        unowned: Whether a command's traffic is wanted, and nobody can say that this is it.
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
    races: list[Race] = field(default_factory=list)
    one_sided: bool = False
    other_ports: list[int] = field(default_factory=list)
    host_quic: list[QuicConnection] = field(default_factory=list)
    proxied: bool = False
    vantage: Vantage = "wire"
    unowned: bool = False
    mixed: bool = False
    over: bool = False
    lacks: frozenset[str] = frozenset()
    software: Client | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    alt_svc: list[AltSvcSeen] = field(default_factory=list)
    rejected: list[CaRejected] = field(default_factory=list)
    trouble: list[UpstreamTrouble] = field(default_factory=list)
    binding: DnsSighting | None = None

    @property
    def versions(self) -> dict[str, int] | None:
        """Exchanges per HTTP version, where a vantage point saw them; None where none did."""
        counts = Counter(clean(e.version, 16) for e in self.exchanges if e.status is not None)
        return dict(sorted(counts.items())) or None

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
        if client.timers:
            # A second attempt at the same place, after a whole first timer, is the client's own answer: no TCP.
            if len({q.server for q in self.quic}) < len(self.quic):
                return 0.0
            return max(timer.seconds for timer in client.timers if timer.leads_to_tcp) * TIMER_EARLY
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
    def label(self) -> str:
        """The origin, else the server's address."""
        return self.origin or self.server

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


def _place(endpoint: Endpoint) -> tuple[str, int]:
    """Where a server is; loopback is one place whatever the family."""
    return ("loopback" if endpoint.is_loopback else endpoint.address, endpoint.port)


def _name_of(connection: Connection) -> str | None:
    hello = connection.hello
    if hello is None or not hello.sni or (connection.transport == "tcp" and connection.inner):
        return None
    name = hello.sni.lower().rstrip(".")
    return None if hello.ech and name in ECH_PUBLIC_NAMES else name


def origin_text(host: str, port: int) -> str:
    """`host:port`, an IPv6 host in brackets; harmless to print."""
    host = clean(host, 255)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class _Who:
    """Which client on a host: its process where that is known, else its software, else nobody in particular."""

    pid: int | None
    family: str | None


def _who(connection: Connection) -> _Who:
    client = recognise(connection)
    return _Who(
        connection.process.pid if connection.process is not None else None,
        client.family if client is not None else None,
    )


def _partition(connections: list[Connection]) -> tuple[list[list[Connection]], bool]:
    """Split one host's attempts at one origin by client, where the evidence tells clients apart.

    What says nothing of its client joins the only one there is; beside several, and where its ClientHello is not that
    client's, it stands alone.

    Returns:
        The parts, and whether a part's absence elsewhere proves nothing, since something stands alone.
    """
    by_pid: dict[int | None, list[Connection]] = {}
    for connection in connections:
        by_pid.setdefault(connection.process.pid if connection.process is not None else None, []).append(connection)
    named = [group for pid, group in by_pid.items() if pid is not None]
    unnamed = by_pid.get(None, [])
    if len(named) > 1:
        return [*named, *([unnamed] if unnamed else [])], bool(unnamed)
    if named:
        return [connections], False  # One process: its QUIC and its TCP need not look alike to be one client's.
    families: dict[str, list[Connection]] = {}
    others: list[Connection] = []
    for connection in connections:
        client = recognise(connection)
        if client is not None:
            families.setdefault(client.family, []).append(connection)
        else:
            others.append(connection)
    parts = list(families.values())
    if len(parts) == 1:
        strangers = [c for c in others if c.hello is not None and _looks_unlike(parts[0], c)]
        parts[0] += [c for c in others if c not in strangers]
        others = strangers
    if others:
        parts.append(others)
    return parts, len(parts) > 1 and bool(others)


def _looks_unlike(group: list[Connection], connection: Connection) -> bool:
    """Whether a readable ClientHello is none that the client of a group sends over that transport."""
    client = next((c for c in map(recognise, group) if c is not None), None)
    if client is None:
        return False
    return bool(client.quic if connection.transport == "quic" else client.tcp_ciphers)


def _client_label(connections: list[Connection]) -> str:
    process: Process | None = next((c.process for c in connections if c.process is not None), None)
    if process is not None:
        return clean(str(process), 64)
    return connections[0].client.address


def _by_origin(
    connections: list[Connection], name_of_address: dict[bytes, str]
) -> list[tuple[str | None, list[Connection]]]:
    """Group one host's attempts by origin.

    What names itself (SNI) is grouped by name and port. What does not belongs to the only name that this
    host asks for at that address, and otherwise to the address alone.
    """
    named: dict[tuple[str, int], list[Connection]] = {}
    names_at: dict[tuple[str, int], set[str]] = {}
    for connection in connections:
        name = _name_of(connection)
        if name is not None:
            named.setdefault((name, connection.server.port), []).append(connection)
            names_at.setdefault(_place(connection.server), set()).add(name)
    nameless: dict[tuple[str, int], list[Connection]] = {}
    for connection in connections:
        if _name_of(connection) is not None:
            continue
        place = _place(connection.server)
        looked_up = name_of_address.get(connection.server.host)
        names = names_at.get(place, set()) | ({looked_up.lower()} if looked_up is not None else set())
        if len(names) == 1:
            named.setdefault((next(iter(names)), connection.server.port), []).append(connection)
        else:
            nameless.setdefault(place, []).append(connection)
    groups: list[tuple[str | None, list[Connection]]] = [
        (origin_text(name, port), members) for (name, port), members in named.items()
    ]
    groups += [(None, members) for members in nameless.values()]
    return groups


def tell_stories(
    connections: list[Connection],
    clock: Clock,
    name_of_address: dict[bytes, str],
    identity: Callable[[Endpoint], str],
    others: list[Connection],
) -> list[Story]:
    """Sort connections into stories.

    Args:
        connections: All that are to be explained.
        clock: The capture's time.
        name_of_address: The one name that DNS gave for an address.
        identity: Tells which host an address belongs to.
        others: Connections that are not to be explained, and show what else a host did.

    Returns:
        Stories in the order in which they began.
    """
    by_host: dict[str, list[Connection]] = {}
    stories: list[Story] = []
    tunnelled: set[bytes] = set()
    for connection in connections:
        if connection.transport == "tcp" and connection.tunnels is not None and connection.tunnels.asked:
            if connection.hello is not None:
                tunnelled.add(connection.hello.random)
        else:
            by_host.setdefault(identity(connection.client), []).append(connection)
    for host, members in by_host.items():
        for origin, group in _by_origin(members, name_of_address):
            parts, mixed = _partition(group)
            for part in parts:
                stories.append(_story(origin, host, part, clock, tunnelled))
                stories[-1].mixed = mixed
    stories += _tunnel_stories(connections, clock, identity)
    _add_surroundings(stories, [*connections, *others], identity)
    stories.sort(key=lambda s: s.begins_ns)
    return stories


def _add_surroundings(stories: list[Story], connections: list[Connection], identity: Callable[[Endpoint], str]) -> None:
    """Give each story what else its client's host did."""
    quic_of_host: dict[str, list[QuicConnection]] = {}
    for connection in connections:
        if connection.transport == "quic":
            quic_of_host.setdefault(identity(connection.client), []).append(connection)
    asked = {(story.host, story.origin) for story in stories if story.tunnels}
    for story in stories:
        story.proxied = not story.tunnels and (story.host, story.origin) in asked
        # Whose loopback it is cannot be told from packets: any of the hosts seen may be the one.
        hosts = quic_of_host if story.host == LOOPBACK else [story.host]
        pids = {c.process.pid for c in story.connections if c.process is not None}
        story.host_quic = [
            quic
            for host in hosts
            for quic in quic_of_host.get(host, [])
            if not pids or quic.process is None or quic.process.pid in pids
        ]
        story.other_ports = _other_ports(story)
        known = {client.family: client for client in map(recognise, story.connections) if client is not None}
        story.software = next(iter(known.values())) if len(known) == 1 else None


def origin_of_url(origin: str) -> str:
    """`https://host:port` as `host:port`."""
    return clean(origin.partition("://")[2] or origin, 300).lower()


def add_proxy_facts(story: Story, facts: ProxyFacts, names: Names) -> None:
    """Give a story what the proxy and DNS say about it."""
    # A connection may have been refused one tunnel before it got another: only the open one carried anything.
    ends = {q.client for q in story.quic} | {t.client for t in story.tcp}
    ends |= {connection.client for connection, tunnel in story.tunnels if tunnel.open}
    ids = {connection.id for connection in story.connections}
    story.relayed = story.relayed or all(connection.client in facts.legs for connection in story.connections)
    story.exchanges = [s.exchange for s in facts.exchanges if s.exchange.client in ends]
    story.rejected = [r for r in facts.rejected if r.client in ends]
    story.trouble = [t for connection, t in facts.trouble if connection in ids]
    story.alt_svc = [a for a in facts.alt_svc if a.client in ends]
    if story.origin is not None:
        story.binding = names.binding(story.origin.rpartition(":")[0])


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


def _other_ports(story: Story) -> list[int]:
    """Ports to which the story's host sent QUIC for the name of the story's origin, other than the origin's."""
    if story.origin is None:
        return []
    name, _, port = story.origin.rpartition(":")
    ports = {q.server.port for q in story.host_quic if _name_of(q) == name}
    return sorted(ports - {int(port)})


def _story(origin: str | None, host: str, part: list[Connection], clock: Clock, tunnelled: set[bytes]) -> Story:
    part.sort(key=lambda c: c.first.time_ns)
    story = Story(origin, str(part[0].server), _client_label(part), host, clock)
    for connection in part:
        if connection.transport == "quic":
            story.quic.append(connection)
        else:
            story.tcp.append(connection)
    # A proxy that forwards a tunnel repeats the client's ClientHello byte for byte, its random included.
    hellos = [t.hello.random for t in story.tcp if t.hello is not None]
    story.relayed = bool(hellos) and all(random in tunnelled for random in hellos)
    return story


def _tunnel_stories(connections: list[Connection], clock: Clock, identity: Callable[[Endpoint], str]) -> list[Story]:
    """One story per client and target; the tries at one target are one story."""
    stories: dict[tuple[str, str, str], Story] = {}
    for connection in connections:
        if connection.transport != "tcp" or connection.tunnels is None:
            continue
        for tunnel in connection.tunnels.asked:
            client = _client_label([connection])
            key = (identity(connection.client), client, tunnel.target.lower())
            if key not in stories:
                stories[key] = Story(tunnel.target.lower(), str(connection.server), client, key[0], clock)
            stories[key].tunnels.append((connection, tunnel))
    return list(stories.values())
