"""Stories put together again from records: what an output says of each origin and client.

An output names the connections of a race, an exchange, a tunnel and a finding, and no others. Whose the rest are is
taken from their names and addresses, and where these leave a doubt a connection is nobody's.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.diagnose.origin import may_ask_for
from h3probe.records import (
    ExchangeRecord,
    FindingRecord,
    QuicRecord,
    RaceRecord,
    TcpRecord,
    TunnelRecord,
    VerdictRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from h3probe.records import AnyRecord

_PID = re.compile(r"\[\d+\]")
Connection = QuicRecord | TcpRecord


@dataclass(slots=True)
class Retold:
    """What an output says of one origin and client.

    Attributes:
        verdict: Its verdict.
        findings: Those about the origin, but not those that are known to be about another client's connections.
        quic: QUIC connections, in the order in which they began.
        tcp: TCP connections, those to a proxy for a tunnel included.
        tunnels: What was asked of a proxy.
        races: Races.
    """

    verdict: VerdictRecord
    findings: list[FindingRecord] = field(default_factory=list)
    quic: list[QuicRecord] = field(default_factory=list)
    tcp: list[TcpRecord] = field(default_factory=list)
    tunnels: list[TunnelRecord] = field(default_factory=list)
    races: list[RaceRecord] = field(default_factory=list)

    @property
    def origin(self) -> str | None:
        """`host:port`, or the server's address; None where there is none."""
        return self.verdict.origin

    @property
    def named(self) -> bool:
        """Whether the origin is a name, not an address."""
        return self.origin is not None and not is_address(self.origin)

    @property
    def silent(self) -> bool:
        """Whether there is nothing behind the verdict, which says so."""
        return not (self.quic or self.tcp or self.tunnels or self.verdict.versions or self.verdict.rules)

    @property
    def servers(self) -> frozenset[str]:
        """The addresses that connections led to, proxies left out."""
        proxied = {tunnel.connection for tunnel in self.tunnels}
        found = {q.server for q in self.quic} | {t.server for t in self.tcp if t.id not in proxied}
        return frozenset(found if self.named or self.origin is None else found | {self.origin})

    @property
    def client(self) -> str:
        """Its client without the process's number, which is another one each time."""
        return _PID.sub("", self.verdict.client)


def retell(records: Iterable[AnyRecord]) -> list[Retold]:
    """Put the stories of an output together, in the order of their verdicts."""
    records = list(records)
    stories = [Retold(record) for record in records if isinstance(record, VerdictRecord)]
    by_origin: dict[str, list[Retold]] = defaultdict(list)
    for story in stories:
        by_origin[_key(story.origin)].append(story)
    connections = {r.id: r for r in records if isinstance(r, QuicRecord | TcpRecord)}
    origins = _origins(records, connections, by_origin)
    for record in records:
        origin, names = _about(record, origins)
        about = [connections[name] for name in names if name in connections]
        for story in _stories_of(by_origin.get(origin or "", []) if origin is not None else [], about):
            _add(story, record)
    for story in stories:
        story.quic.sort(key=lambda q: q.at)
        story.tcp.sort(key=lambda t: t.at)
    return stories


def is_address(origin: str) -> bool:
    """Whether `host:port` has an address in the host's place."""
    try:
        ipaddress.ip_address(origin.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True


def _key(origin: str | None) -> str:
    return (origin or "").lower()


def _about(record: AnyRecord, origins: Mapping[str, str]) -> tuple[str | None, Sequence[str]]:
    """The origin that a record is about, None where that is not known, and the connections that it names."""
    match record:
        case QuicRecord() | TcpRecord():
            return origins.get(record.id), [record.id]
        case RaceRecord():
            return origins.get(record.quic), [record.quic, record.tcp]
        case TunnelRecord():
            return _key(record.target), [] if record.connection is None else [record.connection]
        case FindingRecord():
            return _key(record.origin), record.connections
    return None, []


def _add(story: Retold, record: AnyRecord) -> None:
    match record:
        case QuicRecord():
            story.quic.append(record)
        case TcpRecord():
            story.tcp.append(record)
        case RaceRecord():
            story.races.append(record)
        case TunnelRecord():
            story.tunnels.append(record)
        case FindingRecord():
            story.findings.append(record)


def _stories_of(stories: Sequence[Retold], about: Sequence[Connection]) -> Iterator[Retold]:
    """Of one origin's stories those of the clients whose connections something is about."""
    for story in stories:
        if len(stories) == 1 or not about or any(_is_clients(story, connection) for connection in about):
            yield story


def _is_clients(story: Retold, connection: Connection) -> bool:
    client = story.verdict.client
    process = connection.process
    if process is not None and client.startswith(f"{process.name}[{process.pid}]"):
        return True
    return client.split(" ")[0] == connection.client.rpartition(":")[0].strip("[]")


def _origins(
    records: Sequence[AnyRecord], connections: dict[str, Connection], by_origin: dict[str, list[Retold]]
) -> dict[str, str]:
    """The origin of each connection of which it is known, by the connection's id."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, origin in _links(records):
        found[name].add(_key(origin))
    for connection in connections.values():
        if connection.id not in found and connection.sni is not None:
            found[connection.id].add(_key(f"{connection.sni}:{connection.server.rpartition(':')[2]}"))
        elif connection.id not in found and connection.server in by_origin:
            found[connection.id].add(connection.server)
    certain = {name: origins.pop() for name, origins in found.items() if len(origins) == 1}
    # What is left is the only origin's at its server, if it may be for a name; a proxy is a server of many.
    proxies = {record.connection for record in records if isinstance(record, TunnelRecord)}
    at_server: dict[str, set[str]] = defaultdict(set)
    for name, origin in certain.items():
        if name in connections and name not in proxies:
            at_server[connections[name].server].add(origin)
    for connection in connections.values():
        if connection.id not in found and len(at_server[connection.server]) == 1:
            origin = next(iter(at_server[connection.server]))
            name = origin.rpartition(":")[0]
            if is_address(origin) or may_ask_for(name, hello_read=connection.ja4 is not None):
                certain[connection.id] = origin
    return certain


def _links(records: Iterable[AnyRecord]) -> Iterator[tuple[str, str]]:
    """Connections whose origin a record names."""
    for record in records:
        match record:
            case RaceRecord(origin=str(origin)):
                yield record.quic, origin
                yield record.tcp, origin
            case ExchangeRecord(origin=str(origin), connection=str(connection)):
                yield connection, origin
            case TunnelRecord(connection=str(connection)):
                yield connection, record.target
            case FindingRecord(origin=str(origin)):
                for connection in record.connections:
                    yield connection, origin
