"""The way that an origin's traffic took: client, proxy, server, and what got through between them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from h3probe.records import QuicRecord, TcpRecord
from h3probe.show.report.lanes import OUTCOMES
from h3probe.show.report.model import Hop, Network, Way

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from h3probe.records import TunnelRecord
    from h3probe.show.report.gather import Gathered
    from h3probe.show.report.model import Origin


def make_network(
    origin: Origin, connections: Sequence[QuicRecord | TcpRecord], relayed: Container[str], records: Gathered
) -> Network | None:
    """The way from the client to the server, as far as the packets show it."""
    if not connections:
        return None
    carriers = [record for record in connections if record.id in records.tunnels]
    onward = [record for record in connections if record.id in relayed and record.id not in records.tunnels]
    direct = [record for record in connections if record.id not in records.tunnels and record.id not in relayed]
    who = tuple(dict.fromkeys(verdict.record.client for verdict in origin.verdicts))[:3]
    client = Hop("client", who or (_host(connections[0].client),))
    server = Hop("server", (origin.label, *_others(origin.label, (_host(r.server) for r in (*direct, *onward)))))
    past = _ways(direct, records)
    if not carriers:
        return Network((client, server), (past or _ways(onward, records),), ())
    proxy = Hop("proxy", tuple(dict.fromkeys(record.server for record in carriers))[:3])
    asked = [tunnel for record in carriers for tunnel in records.tunnels[record.id]]
    to_proxy = tuple(
        Way(tunnel.method, None if tunnel.status is None else 200 <= tunnel.status < 300, _answer(tunnel))
        for tunnel in asked[:3]
    )
    beyond = _ways(onward, records) or (Way("TCP", None, "not seen from here"),)
    return Network((client, proxy, server), (to_proxy, beyond), past)


def _ways(connections: Sequence[QuicRecord | TcpRecord], records: Gathered) -> tuple[Way, ...]:
    kinds = (("QUIC", QuicRecord), ("TCP", TcpRecord))
    each = ((name, [record for record in connections if isinstance(record, kind)]) for name, kind in kinds)
    return tuple(_way(name, mine, records) for name, mine in each if mine)


def _way(name: str, mine: Sequence[QuicRecord | TcpRecord], records: Gathered) -> Way:
    outcomes = Counter(OUTCOMES[record.outcome] for record in mine)
    text = ", ".join(f"{number}× {what}" if len(mine) > 1 else what for what, number in outcomes.most_common(4))  # noqa: RUF001 - a multiplication sign is meant
    refused = (icmp for record in mine if record.outcome == "refused" for icmp in records.icmp.get(record.id, ()))
    senders = tuple(dict.fromkeys(icmp.sender for icmp in refused))[:2]
    if senders:
        text += f", says {' and '.join(senders)}"
    decided = [record.outcome for record in mine if record.outcome not in {None, "mid-stream"}]
    return Way(name, "established" in decided if decided else None, text)


def _answer(tunnel: TunnelRecord) -> str:
    return "no answer seen" if tunnel.status is None else f"answered {tunnel.status}"


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _others(label: str, hosts: Iterable[str]) -> tuple[str, ...]:
    """Up to three addresses that the label does not say itself."""
    return tuple(host for host in dict.fromkeys(hosts) if host != _host(label))[:3]
