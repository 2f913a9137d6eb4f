"""Connections as lanes of a waterfall: what became of each, and what happened on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.clients import known_clients
from h3probe.records import QuicRecord, TcpRecord
from h3probe.show.report.model import Lane, Marker
from h3probe.text import seconds

if TYPE_CHECKING:
    from h3probe.records import Moment, TunnelRecord
    from h3probe.show.report.gather import Gathered
    from h3probe.show.report.model import MarkerKind

MARKERS = 24
"""Things that happened on one connection."""
OUTCOMES = {
    "established": "ready",
    "unanswered": "no answer",
    "refused": "refused",
    "stalled": "stalled: answered, and not finished",
    "closed": "closed before it was ready",
    "version-negotiation": "no version in common",
    "reset": "reset before it was ready",
    "mid-stream": "its start was not seen",
    None: "no outcome seen",
}
FAILED = frozenset({"unanswered", "refused", "stalled", "closed", "version-negotiation", "reset"})


def make_lane(record: QuicRecord | TcpRecord, records: Gathered, *, relayed: bool) -> Lane:
    """A connection, as the records and moments about it tell of it."""
    tunnels = records.tunnels.get(record.id, [])
    failed = record.outcome in FAILED
    happened = sorted(records.moments.get(record.id, ()), key=lambda moment: moment.time_ns)
    shown = happened if len(happened) <= MARKERS else [*happened[: MARKERS - 1], happened[-1]]
    return Lane(
        id=record.id,
        transport="quic" if isinstance(record, QuicRecord) else "tcp",
        client=record.client,
        server=record.server,
        outcome=_outcome(record),
        state="failed" if failed else "ready" if record.ready_at is not None else "open",
        begin=record.at,
        ready=record.ready_at,
        end=record.ended_at,
        tunnel=None if not tunnels else "; ".join(_tunnel_text(tunnel) for tunnel in tunnels[:3]),
        relayed=relayed,
        note=_timer(record) if isinstance(record, QuicRecord) and failed else _carried(record, records),
        markers=tuple(Marker(m.at, _kind(m, record), m.text, m.frame) for m in shown),
        markers_hidden=len(happened) - len(shown),
    )


def _outcome(record: QuicRecord | TcpRecord) -> str:
    if record.ready_at is not None and record.outcome == "established":
        return f"ready after {seconds(record.ready_at - record.at)}"
    return OUTCOMES[record.outcome]


def _tunnel_text(tunnel: TunnelRecord) -> str:
    return f"{tunnel.method} {tunnel.target}: {'no answer seen' if tunnel.status is None else tunnel.status}"


def _kind(moment: Moment, record: QuicRecord | TcpRecord) -> MarkerKind:
    if moment.transport == "icmp":
        return "icmp"
    match moment.weight:
        case "good":
            return "ready"
        case "bad":
            return "bad"
        case "start":
            return "start"
    if moment.at == record.ended_at:
        return "end"
    # What a QUIC client sends and is neither its first nor its last word is its Initial once more.
    return "again" if isinstance(record, QuicRecord) and moment.outgoing else "step"


def _timer(record: QuicRecord) -> str | None:
    """The timer of a known client that ended an attempt: it has the timer's length, and the client closed it."""
    client = next((client for client in known_clients() if client.name == record.client_guess), None)
    if client is None or record.close is None or record.close.by != "client" or record.ended_at is None:
        return None
    timer = client.timer_for(record.ended_at - record.at, record.close.reason)
    return None if timer is None else f"{client.name}: {timer.seconds:g} s until it gives up QUIC"


def _carried(record: QuicRecord | TcpRecord, records: Gathered) -> str | None:
    """That a connection carried a race's first request, as far as that is known."""
    race = records.races.get(record.id)
    if race is None or race.carried is None or race.carried_known_from is None:
        return None
    kind = "quic" if isinstance(record, QuicRecord) else "tcp"
    return f"carried the first request ({race.carried_known_from})" if race.carried == kind else None
