"""Which connections are whose: stories made of connections, by client and by origin."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.copies import copies
from h3probe.diagnose.origin import may_ask_for, name_of, origin_of_url, origin_text
from h3probe.diagnose.story import Seen, Story
from h3probe.diagnose.surroundings import Surroundings
from h3probe.text import clean
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from h3probe.events import AltSvcSeen, Endpoint, Exchange, Process, ToldExchange, UpstreamTrouble
    from h3probe.track.clock import Clock
    from h3probe.track.names import Names
    from h3probe.track.proxy_facts import ExchangeSighting, FailedLeg, ProxyFacts
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection
    from h3probe.track.tunnel import Tunnel

CLEAR = "http://"
# Nobody could be asked for the owner of a socket that was open this briefly: beside what else its process did.
NEAR_NS = NS


def _place(endpoint: Endpoint) -> tuple[str, int]:
    """Where a server is; loopback is one place whatever the family."""
    return ("loopback" if endpoint.is_loopback else endpoint.address, endpoint.port)


def _places(connection: Connection) -> list[tuple[str, int]]:
    """What a connection leads to: its server, and the name that it asks for there."""
    name = name_of(connection)
    return [_place(connection.server), *([] if name is None else [(name, connection.server.port)])]


def _partition(connections: list[Connection], *, crowd: bool) -> tuple[list[list[Connection]], bool]:
    """Split one host's attempts at one origin by client, where the evidence tells clients apart.

    What says nothing of its client joins the only one there is; beside several, and where its ClientHello is not that
    client's, it stands alone.

    Args:
        connections: The attempts.
        crowd: Whether others on the host, who are known and not asked about, were at the same place.

    Returns:
        The parts, and whether a part's absence elsewhere proves nothing, since something stands alone.
    """
    by_pid: dict[int | None, list[Connection]] = {}
    for connection in connections:
        by_pid.setdefault(connection.process.pid if connection.process is not None else None, []).append(connection)
    named = [group for pid, group in by_pid.items() if pid is not None]
    unnamed = by_pid.get(None, [])
    if len(named) == 1 and not crowd:
        # One process: its own QUIC and TCP need not look alike to be one client's.
        its, unnamed = _split(unnamed, _Process(named[0]).may_have)
        named = [named[0] + its]
    if named:
        # Nor may one process's QUIC and another's TCP pass for one client that had both.
        apart = [[c for c in unnamed if c.transport == transport] for transport in ("quic", "tcp")]
        return [*named, *filter(None, apart)], bool(unnamed)
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
        others, its = _split(others, lambda c: c.hello is not None and _looks_unlike(parts[0], c))
        parts[0] += its
    if others:
        parts.append(others)
    return parts, len(parts) > 1 and bool(others)


def _split(
    connections: list[Connection], fits: Callable[[Connection], bool]
) -> tuple[list[Connection], list[Connection]]:
    """Those that something is true of, and the others."""
    found: tuple[list[Connection], list[Connection]] = [], []
    for connection in connections:
        found[not fits(connection)].append(connection)
    return found


class _Process:
    """A process that was alone at a place, as far as is known."""

    __slots__ = ("_connections", "_families", "_times")

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections
        self._families = {client.family for client in map(recognise, connections) if client is not None}
        self._times = sorted(mark.time_ns for c in connections for mark in (c.first, c.last))

    def may_have(self, connection: Connection) -> bool:
        """Whether a connection of nobody who is known is taken for its own."""
        client = recognise(connection)
        if client is not None and self._families:
            return client.family in self._families
        if connection.hello is not None and _looks_unlike(self._connections, connection):
            return False
        began_ns = connection.first.time_ns
        after = bisect_left(self._times, began_ns - NEAR_NS)
        return after < len(self._times) and self._times[after] <= began_ns + NEAR_NS


def _looks_unlike(group: list[Connection], connection: Connection) -> bool:
    """Whether a readable ClientHello is none that the client of a group sends over that transport."""
    client = next((c for c in map(recognise, group) if c is not None), None)
    if client is None or not client.always_so:
        return False
    return bool(client.quic if connection.transport == "quic" else client.tcp_ciphers)


def _client_label(connections: list[Connection]) -> str:
    process: Process | None = next((c.process for c in connections if c.process is not None), None)
    if process is not None:
        return clean(str(process), 64)
    return _foremost(connections).client.address


def _foremost(connections: list[Connection]) -> Connection:
    """The first one that could carry anything: of a host's two addresses one may have got nowhere."""
    return next((c for c in connections if c.ready is not None), connections[0])


def _by_origin(
    connections: list[Connection], name_of_address: dict[bytes, str]
) -> list[tuple[str | None, list[Connection]]]:
    """Group one host's attempts by origin.

    What names itself (SNI) is grouped by name and port. What does not belongs to the only name that this
    host asks for at that address, if it may be for a name at all, and otherwise to the address alone.
    """
    named: dict[tuple[str, int], list[Connection]] = {}
    names_at: dict[tuple[str, int], set[str]] = {}
    for connection in connections:
        name = name_of(connection)
        if name is not None:
            named.setdefault((name, connection.server.port), []).append(connection)
            names_at.setdefault(_place(connection.server), set()).add(name)
    nameless: dict[tuple[str, int], list[Connection]] = {}
    for connection in connections:
        if name_of(connection) is not None:
            continue
        place = _place(connection.server)
        looked_up = name_of_address.get(connection.server.host)
        names = names_at.get(place, set()) | ({looked_up.lower()} if looked_up is not None else set())
        only = next(iter(names)) if len(names) == 1 else None
        if only is not None and may_ask_for(only, hello_read=connection.hello is not None):
            named.setdefault((only, connection.server.port), []).append(connection)
        else:
            nameless.setdefault(place, []).append(connection)
    groups: list[tuple[str | None, list[Connection]]] = [
        (origin_text(name, port), members) for (name, port), members in named.items()
    ]
    groups += [(None, members) for members in nameless.values()]
    return groups


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known beside the connections to explain.

    Attributes:
        others: Connections that are not to be explained, and show what else a host did.
        strangers: Those of processes that nobody asked about, which show that a host did more.
        facts: What the proxy reports.
        tunnelled: The randoms of ClientHellos that were seen inside tunnels of yet others.
    """

    others: list[Connection]
    strangers: list[Connection]
    facts: ProxyFacts
    tunnelled: Collection[bytes] = ()


def tell_stories(
    connections: list[Connection],
    clock: Clock,
    name_of_address: dict[bytes, str],
    identity: Callable[[Endpoint], str],
    beside: Beside,
) -> list[Story]:
    """Sort connections into stories.

    Args:
        connections: All that are to be explained.
        clock: The capture's time.
        name_of_address: The one name that DNS gave for an address.
        identity: Tells which host an address belongs to.
        beside: What else is known.

    Returns:
        Stories in the order in which they began.
    """
    by_host: dict[str, list[Connection]] = {}
    stories: list[Story] = []
    tunnelled: set[bytes] = set()
    in_the_clear = _in_the_clear(beside.facts)
    repeated = copies(connections)
    behind = {repeated[c.id].id: c for c in connections if c.id in repeated}
    visited = {(identity(stranger.client), place) for stranger in beside.strangers for place in _places(stranger)}
    for connection in connections:
        if connection.id in repeated:
            continue
        if connection.transport == "tcp" and connection.tunnels_asked:
            if connection.hello is not None:
                tunnelled.add(connection.hello.random)
        elif connection.id not in in_the_clear:
            by_host.setdefault(identity(connection.client), []).append(connection)
    for host, members in by_host.items():
        for origin, group in _by_origin(members, name_of_address):
            crowd = bool(visited) and any((host, place) in visited for c in group for place in _places(c))
            parts, mixed = _partition(group, crowd=crowd)
            transports = {connection.transport for connection in group}
            for part in parts:
                stories.append(_story(origin, host, part, clock, (tunnelled, beside.tunnelled)))
                # Where nobody used the other transport there is nothing of it to be told apart.
                stories[-1].mixed = mixed and len(transports) > 1
                stories[-1].among_others = "quic" in transports and not stories[-1].quic
    stories += _tunnel_stories(connections, clock, identity, beside)
    stories += _plain_stories(connections, clock, identity, in_the_clear)
    surroundings = Surroundings([*connections, *beside.others], beside.strangers, identity)
    asked = {(story.host, story.origin) for story in stories if story.tunnels}
    proxies = {carrier.server.host for story in stories for carrier, _ in story.tunnels}
    for story in stories:
        surroundings.add_to(story)
        story.behind = {quic.id: behind[quic.id] for quic in story.quic if quic.id in behind}
        story.by_proxy = not proxies.isdisjoint(tcp.client.host for tcp in story.tcp)
        story.proxied = not story.tunnels and (story.host, story.origin) in asked
    stories.sort(key=lambda s: s.begins_ns)
    return stories


def add_proxy_facts(story: Story, facts: ProxyFacts, names: Names) -> None:
    """Give a story what the proxy and DNS say about it."""
    # A connection may have been refused one tunnel before it got another: only the open one carried anything.
    ids = {connection.id for connection in story.connections}
    carriers = {q.id for q in story.quic} | {t.id for t in story.tcp}
    carriers |= {connection.id for connection, tunnel in story.tunnels if tunnel.open}
    story.relayed = story.relayed or all(_is_leg(connection, facts) for connection in story.connections)
    seen = [_by_proxy(s) for s in facts.exchanges if s.connection in carriers and is_about(story, s.exchange)]
    story.exchanges = tuple(sorted(seen, key=lambda e: e.time_ns))
    story.unreached = tuple(leg for leg in facts.failed_legs if leg.connection in ids and _failed_for(story, leg))
    story.rejected = tuple(r for connection, r in facts.rejected if connection in carriers)
    story.trouble = tuple(t for connection, t in facts.trouble if connection in ids and _troubles(story, t))
    story.alt_svc = tuple(s.seen for s in facts.alt_svc if s.connection in carriers and is_about(story, s.seen))
    story.quic_untouched = facts.ready is not None and facts.ready.mode == "transparent"
    if story.origin is not None:
        story.binding = names.binding(story.origin.rpartition(":")[0])


def _by_proxy(sighting: ExchangeSighting) -> Seen:
    e = sighting.exchange
    return Seen(
        "proxy",
        e.time_ns,
        e.answered_ns if e.answered_ns is not None else e.ended_ns,
        e.version,
        e.status,
        e.error,
        e.client,
        sighting.connection,
        ended_ns=e.ended_ns,
        intercepted=e.intercepted,
        distrusted=e.distrusted,
    )


def is_about(story: Story, seen: Exchange | AltSvcSeen | ToldExchange) -> bool:
    """Whether it is about a story's origin: a proxy's connection in the clear carries requests for several."""
    clear, same = seen.origin.startswith(CLEAR), origin_of_url(seen.origin) == story.origin
    return clear and same if story.in_the_clear else not clear or same


def _troubles(story: Story, trouble: UpstreamTrouble) -> bool:
    """Whether it is a story's: a tunnel's, or that of a request in the clear which was under way."""
    if not story.in_the_clear:
        return trouble.tunnel is not None
    return trouble.tunnel is None and any(e.time_ns <= trouble.time_ns <= e.ended_ns for e in story.exchanges)


def _failed_for(story: Story, leg: FailedLeg) -> bool:
    """Whether a connection was to be made for a story's origin, where its own connection may serve several."""
    if not story.in_the_clear:
        return True
    return any(e.time_ns <= leg.ended_ns <= e.ended_ns for e in story.exchanges)


def _is_leg(connection: Connection, facts: ProxyFacts) -> bool:
    """Whether a connection is the proxy's own, made for a client's, or one that it could not make."""
    if connection.client in facts.legs:
        return True
    if connection.transport == "quic" or connection.process is not None or connection.hello is not None:
        return False
    server = connection.server
    return not connection.established and any(
        leg.began_ns <= connection.first.time_ns <= leg.ended_ns and _leads_to(leg.target, server)
        for leg in facts.failed_legs
    )


def _leads_to(target: str, server: Endpoint) -> bool:
    """Whether `host:port` may be a server's; a name may be any address's."""
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    try:
        address = ip_address(host)
    except ValueError:
        return port == str(server.port)
    return (address.packed, port) == (server.host, str(server.port))


def _story(
    origin: str | None, host: str, part: list[Connection], clock: Clock, tunnelled: tuple[Collection[bytes], ...]
) -> Story:
    part.sort(key=lambda c: c.first.time_ns)
    story = Story(origin, str(_foremost(part).server), _client_label(part), host, clock)
    for connection in part:
        if connection.transport == "quic":
            story.quic.append(connection)
        else:
            story.tcp.append(connection)
    # A proxy that forwards a tunnel repeats the client's ClientHello byte for byte, its random included.
    hellos = [t.hello.random for t in story.tcp if t.hello is not None]
    story.relayed = bool(hellos) and all(any(random in some for some in tunnelled) for random in hellos)
    return story


def _tunnel_stories(
    connections: list[Connection], clock: Clock, identity: Callable[[Endpoint], str], beside: Beside
) -> list[Story]:
    """One story per client and target; the tries at one target are one story.

    A tunnel whose client has no name joins the only named one's, unless somebody else asked for the same; the proxy's
    own, to the one behind it, join none.
    """
    facts, asked = beside.facts, list(_asked(connections))
    others = {(identity(connection.client), tunnel.target.lower()) for connection, tunnel in _asked(beside.strangers)}
    named: dict[tuple[str, str], set[str]] = {}
    for connection, tunnel in asked:
        if connection.process is not None and connection.client not in facts.legs:
            place = (identity(connection.client), tunnel.target.lower())
            named.setdefault(place, set()).add(_client_label([connection]))
    stories: dict[tuple[str, str, str, bool], Story] = {}
    for connection, tunnel in asked:
        host, target, own = identity(connection.client), tunnel.target.lower(), connection.client in facts.legs
        names = named.get((host, target), set())
        joins = connection.process is None and len(names) == 1 and (host, target) not in others
        client = next(iter(names)) if joins else _client_label([connection])
        key = (host, client, target, own)
        if key not in stories:
            stories[key] = Story(target, str(connection.server), client, host, clock)
        stories[key].tunnels.append((connection, tunnel))
    return list(stories.values())


def _asked(connections: list[Connection]) -> Iterator[tuple[TcpConnection, Tunnel]]:
    """What was asked of proxies."""
    for connection in connections:
        if connection.transport == "tcp":
            for tunnel in connection.tunnels_asked:
                yield connection, tunnel


def _in_the_clear(facts: ProxyFacts) -> dict[str, list[str]]:
    """The origins of the http:// requests that the proxy saw, by the connection that carried them."""
    found: dict[str, dict[str, None]] = {}
    for sighting in facts.exchanges:
        if sighting.connection is not None and sighting.exchange.origin.startswith(CLEAR):
            found.setdefault(sighting.connection, {})[origin_of_url(sighting.exchange.origin)] = None
    return {connection: list(origins) for connection, origins in found.items()}


def _plain_stories(
    connections: list[Connection],
    clock: Clock,
    identity: Callable[[Endpoint], str],
    in_the_clear: dict[str, list[str]],
) -> list[Story]:
    """One story per client and origin that was asked for in the clear, through the proxy."""
    stories: dict[tuple[str, str, str], Story] = {}
    for connection in connections:
        if connection.transport != "tcp":
            continue
        tunnel = connection.tunnels.open if connection.tunnels is not None else None
        for origin in in_the_clear.get(connection.id, ()):
            if tunnel is not None and tunnel.target.lower() == origin:
                continue  # It is in that tunnel's story.
            key = (identity(connection.client), _client_label([connection]), origin)
            if key not in stories:
                stories[key] = Story(origin, str(connection.server), key[1], key[0], clock, in_the_clear=True)
            stories[key].tcp.append(connection)
    return list(stories.values())
