"""What else a story's client did, or somebody on its host.

A host may be a whole office behind one address: thousands of stories, each beside thousands of connections. So what a
host sent is sorted once, and every story gets a view of it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.families import Families
from h3probe.diagnose.origin import name_of
from h3probe.text import bare_name
from h3probe.track.hosts import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from h3probe.diagnose.story import Story
    from h3probe.events import Endpoint
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection

    type Whose = Literal["own", "others", "nobody's"]

# Of a host's TCP connections to a name, how many are looked at for those to other ports: the latest.
ELSEWHERE = 1_024
# Of a name's other ports, how many are told.
PORTS = 8


ALL: frozenset[int] = frozenset()
"""No process in particular."""


class HostQuic:
    """The QUIC that left one host, in the order in which it is given.

    Attributes:
        attempts: All of it.
        named: Those that ask for a name, by the name.
        unnamed: Those that ask for none, by the server.
        of_process: How many each process sent; None for those whose process nobody knows.
    """

    __slots__ = ("attempts", "named", "of_process", "unnamed")

    def __init__(self, attempts: Iterable[QuicConnection] = ()) -> None:
        self.attempts = list(attempts)
        self.named: dict[str, list[QuicConnection]] = {}
        self.unnamed: dict[Endpoint, list[QuicConnection]] = {}
        self.of_process: dict[int | None, int] = {}
        for attempt in self.attempts:
            name, pid = name_of(attempt), _pid(attempt)
            if name is not None:
                self.named.setdefault(name, []).append(attempt)
            if attempt.hello is None or not attempt.hello.sni:
                self.unnamed.setdefault(attempt.server, []).append(attempt)
            self.of_process[pid] = self.of_process.get(pid, 0) + 1


class QuicBeside:
    """Those of a host's QUIC attempts that are its client's own, those of others, or those of nobody who is known.

    Args:
        quic: The host's.
        pids: The client's processes; with none, all on the host is its own.
        whose: Which of them.
    """

    __slots__ = ("_pids", "_quic", "_whose")

    def __init__(self, quic: HostQuic, pids: frozenset[int], whose: Whose) -> None:
        self._quic, self._pids, self._whose = quic, pids, whose

    def __len__(self) -> int:
        count = self._quic.of_process
        own = sum(count.get(pid, 0) for pid in self._pids) if self._pids else len(self._quic.attempts)
        if self._whose == "own":
            return own
        unknown = count.get(None, 0) if self._pids else 0
        return unknown if self._whose == "nobody's" else len(self._quic.attempts) - own - unknown

    def __iter__(self) -> Iterator[QuicConnection]:
        return filter(self._has, self._quic.attempts)

    def to_name(self, name: str) -> list[QuicConnection]:
        """Those that ask for a name."""
        return list(filter(self._has, self._quic.named.get(bare_name(name), ())))

    def unnamed_to(self, server: Endpoint) -> list[QuicConnection]:
        """Those to a server whose ClientHello names nobody, or is not known."""
        return list(filter(self._has, self._quic.unnamed.get(server, ())))

    @property
    def unnamed(self) -> bool:
        """Whether there is any whose ClientHello names nobody, or is not known."""
        return any(self._has(attempt) for attempts in self._quic.unnamed.values() for attempt in attempts)

    def _has(self, attempt: QuicConnection) -> bool:
        pid = _pid(attempt)
        if not self._pids or pid in self._pids:
            return self._whose == "own"
        return self._whose == ("nobody's" if pid is None else "others")


class Elsewhere:
    """A host's TCP connections to a name at other ports than one, the latest ones, in their order.

    Args:
        connections: All to the name.
        port: The one.
        pids: The client's processes; with none, all on the host may be its own.
    """

    __slots__ = ("_connections", "_pids", "_port")

    def __init__(self, connections: Sequence[TcpConnection] = (), port: int = 0, pids: frozenset[int] = ALL) -> None:
        self._connections, self._port, self._pids = connections, port, pids

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __iter__(self) -> Iterator[TcpConnection]:
        return filter(self._has, self._connections[-ELSEWHERE:])

    def _has(self, connection: TcpConnection) -> bool:
        whose = not self._pids or connection.process is None or connection.process.pid in self._pids
        return whose and connection.server.port != self._port


NOBODY = HostQuic()
NOTHING = QuicBeside(NOBODY, ALL, "own")
"""No QUIC at all."""
NOWHERE = Elsewhere()
"""No TCP at all."""


def _pid(connection: Connection) -> int | None:
    return connection.process.pid if connection.process is not None else None


class Surroundings:
    """What is known beside single stories.

    Args:
        connections: All that are looked at.
        strangers: Those of processes that nobody asked about.
        identity: Tells which host an address belongs to.
    """

    def __init__(
        self, connections: list[Connection], strangers: list[Connection], identity: Callable[[Endpoint], str]
    ) -> None:
        self._quic = _quic_of_host(connections, identity)
        self._strange = {identity(stranger.client) for stranger in strangers if stranger.transport == "quic"}
        self._families = Families(connections, identity)
        self._tcp = _tcp_by_name(connections, identity)
        self._named_at = {(host, tcp.server) for (host, _), found in self._tcp.items() for tcp in found}
        self._ports: dict[tuple[str, frozenset[int], str], list[int]] = {}
        self._views: dict[tuple[str, frozenset[int]], list[QuicBeside]] = {}
        if self._strange:  # Whose loopback it is, see `_everywhere`.
            self._strange.add(LOOPBACK)

    @cached_property
    def _everywhere(self) -> HostQuic:
        """Whose loopback it is cannot be told from packets: any of the hosts seen may be the one."""
        return HostQuic(attempt for quic in self._quic.values() for attempt in quic.attempts)

    def add_to(self, story: Story) -> None:
        """Give a story what else its client's host did."""
        pids = frozenset(pid for pid in map(_pid, story.connections) if pid is not None)
        if (story.host, pids) not in self._views:
            quic = self._everywhere if story.host == LOOPBACK else self._quic.get(story.host, NOBODY)
            self._views[story.host, pids] = [QuicBeside(quic, pids, whose) for whose in ("own", "others", "nobody's")]
        story.host_quic, story.others_quic, story.unowned_quic = self._views[story.host, pids]
        story.strangers_quic = story.host in self._strange
        story.across = self._families.across(story)
        name, _, port = (story.origin or "").rpartition(":")
        if story.origin is None:
            story.tcp_named = any((story.host, attempt.server) in self._named_at for attempt in story.quic)
        else:
            story.other_ports = self._other_ports(story, pids, name, int(port))
            story.tcp_elsewhere = Elsewhere(self._tcp.get((story.host, name), ()), int(port), pids)
        known = {client.family: client for client in map(recognise, story.connections) if client is not None}
        story.software = next(iter(known.values())) if len(known) == 1 else None

    def _other_ports(self, story: Story, pids: frozenset[int], name: str, port: int) -> tuple[int, ...]:
        """Ports to which the story's client sent QUIC for the name of its origin, other than the origin's: the first.

        All of them are found once for all stories of the name, which are as many as it has ports.
        """
        key = (story.host, pids, name)
        if key not in self._ports:
            self._ports[key] = sorted({attempt.server.port for attempt in story.host_quic.to_name(name)})
        return tuple([other for other in self._ports[key][: PORTS + 2] if other != port][: PORTS + 1])


def _quic_of_host(connections: list[Connection], identity: Callable[[Endpoint], str]) -> dict[str, HostQuic]:
    found: dict[str, list[QuicConnection]] = {}
    for connection in connections:
        if connection.transport == "quic":
            found.setdefault(identity(connection.client), []).append(connection)
    return {host: HostQuic(attempts) for host, attempts in found.items()}


def _tcp_by_name(
    connections: list[Connection], identity: Callable[[Endpoint], str]
) -> dict[tuple[str, str], list[TcpConnection]]:
    """A host's TCP connections to servers, by the name that each asks for; those to proxies left out."""
    found: dict[tuple[str, str], list[TcpConnection]] = {}
    for connection in connections:
        name = name_of(connection)
        if connection.transport == "quic" or name is None:
            continue
        if not connection.tunnels_asked:
            found.setdefault((identity(connection.client), name), []).append(connection)
    return found
