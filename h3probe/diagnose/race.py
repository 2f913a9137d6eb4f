"""Races: QUIC and TCP tried at the same time, which was ready first, and which carried the first exchange."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.words import SMALLEST_REQUEST, past_proxy, unread
from h3probe.track.clock import NS
from h3probe.wire.quic.versions import is_reserved

if TYPE_CHECKING:
    from h3probe.diagnose.story import Story
    from h3probe.records import KnownFrom, Transport
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection

# RFC 9002, 6.2.2: an Initial is repeated after a second; one that lets three pass elsewhere gave it up.
GIVEN_UP_NS = 3 * NS


@dataclass(frozen=True, slots=True)
class Race:
    """One race.

    Attributes:
        quic: The QUIC attempt: the one that got furthest, where addresses of both families were tried.
        tcp: The TCP attempt, likewise.
        head_start: Seconds from QUIC's first packet to TCP's SYN.
        first_ready: Which could carry a request first.
        ready_margin: Seconds between the two, when both could.
        carried: Which one carried the first exchange, None when that cannot be told.
        carried_known_from: Where that is known from.
    """

    quic: QuicConnection
    tcp: TcpConnection
    head_start: float
    first_ready: Transport | None
    ready_margin: float | None
    carried: Transport | None
    carried_known_from: KnownFrom | None


def _in_one_race(story: Story, quic: QuicConnection, tcp: TcpConnection) -> bool:
    """Whether both left within the head start, and neither was ready, or over, when the other began."""
    if tcp.syn is None or quic.mid_stream:
        return False
    gap = tcp.syn.time_ns - quic.first.time_ns
    if abs(gap) > story.head_start_ns:
        return False
    earlier, later_start = (quic, tcp.syn.time_ns) if gap >= 0 else (tcp, quic.first.time_ns)
    if earlier.transport == "quic":
        # Version Negotiation ends it as well (RFC 9000, 6.2); what follows in another version is another attempt.
        negotiated = quic.version_negotiation[0] if quic.version_negotiation is not None else None
        done = [m.time_ns for m in (quic.ready, quic.ended, negotiated, _refused_for_good(quic)) if m is not None]
    else:
        done = [m.time_ns for m in (tcp.ready, tcp.ended[0] if tcp.ended else None) if m is not None]
    return not done or min(done) > later_start or _refused_twin(tcp, quic)


def _refused_for_good(quic: QuicConnection) -> Mark | None:
    """Where a client was refused and sent nothing after; None for one that is known not to heed it."""
    client = recognise(quic)
    if not quic.refusals or (client is not None and client.ignores_icmp):
        return None
    refused, _ = quic.refusals[0]
    return refused if (quic.last_client or quic.last).time_ns <= refused.time_ns else None


def _refused_twin(tcp: TcpConnection, quic: QuicConnection) -> bool:
    """Whether an attempt over was only the other address family's, refused at once."""
    return tcp.refused and tcp.server.host != quic.server.host


def find_races(story: Story) -> list[Race]:
    """Find a story's races: one for each time that the client set out, not one per pair of addresses.

    Each attempt races with the nearest rival only; attempts at another address of the name, begun within the same
    head start, are the same try. Where several clients are at work at once, who raced whom cannot be told.
    """
    if story.crowded:
        return []
    opening = sorted((t for t in story.tcp if t.syn is not None), key=syn_ns)
    taken: set[str] = set()
    races: list[Race] = []
    for quic in sorted(story.quic, key=lambda q: q.first.time_ns):
        if quic.id in taken:
            continue
        near = opening[bisect_left(opening, quic.first.time_ns - story.head_start_ns, key=syn_ns) :]
        near = near[: bisect_right(near, quic.first.time_ns + story.head_start_ns, key=syn_ns)]
        rivals = [tcp for tcp in near if tcp.id not in taken and _in_one_race(story, quic, tcp)]
        if not rivals:
            continue
        nearest = min(rivals, key=lambda tcp: abs(syn_ns(tcp) - quic.first.time_ns))
        tcps = [nearest, *(t for t in rivals if t.server.host != nearest.server.host)]
        quics = [quic, *(q for q in story.quic if q.id not in taken and _same_try(story, q, quic))]
        taken.update(q.id for q in quics)
        taken.update(t.id for t in tcps)
        races.append(_race(story, max(quics, key=_quic_merit), max(tcps, key=_tcp_merit)))
    return races


def _same_try(story: Story, one: QuicConnection, other: QuicConnection) -> bool:
    """Whether two attempts are one try at two addresses."""
    apart = abs(one.first.time_ns - other.first.time_ns)
    return one is not other and one.server.host != other.server.host and apart <= story.head_start_ns


def opens(story: Story, race: Race) -> bool:
    """Whether nothing that carried something came before a race."""
    began_ns = min(race.quic.first.time_ns, race.tcp.first.time_ns)
    ready = [q.ready for q in story.quic] + [t.ready for t in story.tcp]
    return not any(mark is not None and mark.time_ns < began_ns for mark in ready)


def syn_ns(tcp: TcpConnection) -> int:
    """When a TCP attempt began."""
    return (tcp.syn or tcp.first).time_ns


def _quic_merit(quic: QuicConnection) -> tuple[bool, bool, bool, int]:
    return (quic.established, quic.answered, not quic.refusals, -quic.first.time_ns)


def _tcp_merit(tcp: TcpConnection) -> tuple[bool, bool, bool, int]:
    return (tcp.ready is not None, tcp.connected is not None, not tcp.refused, -tcp.first.time_ns)


def _race(story: Story, quic: QuicConnection, tcp: TcpConnection) -> Race:
    first: Transport | None = None
    margin = None
    if quic.ready is not None and tcp.ready is not None:
        margin = abs(quic.ready.time_ns - tcp.ready.time_ns) / NS
        first = "quic" if quic.ready.time_ns < tcp.ready.time_ns else "tcp"
    elif quic.ready is not None or tcp.ready is not None:
        first = "quic" if quic.ready is not None else "tcp"
    seen = _seen(story, quic, tcp)
    carried = seen[0] if seen is not None else _carried(story, quic, tcp)
    return Race(
        quic=quic,
        tcp=tcp,
        head_start=(syn_ns(tcp) - quic.first.time_ns) / NS,
        first_ready=first,
        ready_margin=margin,
        carried=carried,
        carried_known_from=seen[1] if seen is not None else None if carried is None else "inferred",
    )


def _seen(story: Story, quic: QuicConnection, tcp: TcpConnection) -> tuple[Transport, KnownFrom] | None:
    """What carried the first exchange by the word of who saw it, and who that is; None where nobody did."""
    began_ns = min(quic.first.time_ns, tcp.first.time_ns)
    # Of the proxy's reports the request's time is exact; a log may tell a second only.
    first = next(
        (
            e
            for e in story.exchanges
            if e.version is not None and (e.time_ns if e.known_from == "proxy" else e.answered_ns) >= began_ns
        ),
        None,
    )
    if first is None:
        return None
    unseen = [*past_proxy(story), *unread(story)]
    if any(c.ready is not None and c.ready.time_ns <= first.time_ns for c in unseen):
        return None  # It may have carried an earlier one.
    # Neither of the two, where a third connection carried it, or where it is not known which.
    carrier: Transport = "quic" if first.version == "HTTP/3" else "tcp"
    racer: QuicConnection | TcpConnection = quic if carrier == "quic" else tcp
    same = first.client == racer.client if first.connection is None else first.connection == racer.id
    return (carrier, first.known_from) if same else None


def _carried(story: Story, quic: QuicConnection, tcp: TcpConnection) -> Transport | None:
    """Say who carried the first exchange where sizes and times leave no doubt, else None.

    No doubt is left only when one of the two never became able to carry anything, and the other one carried
    something both ways. When both were ready the wire cannot tell: a client may take seconds to hand the
    first request to the connection that was ready first, or hand it to the other one.
    """
    tcp_talked = tcp.request_bytes >= SMALLEST_REQUEST and tcp.response_bytes > 0
    quic_talked = quic.client_short_bytes > 0 and quic.server_short_bytes > 0
    quic_dead = not quic.established and (story.failed(quic) or is_reserved(quic.version) or _abandoned(quic, tcp))
    if tcp.ready is not None and quic_dead and tcp_talked:
        # A third connection that was ready by then may have been the one.
        earlier = [q for q in story.quic if q.ready is not None and q.ready.time_ns <= tcp.ready.time_ns]
        return None if earlier else "tcp"
    tcp_dead = _unused(tcp) or (tcp.ready is None and tcp.outcome(story.now_ns) in ("refused", "unanswered", "reset"))
    if quic.ready is not None and tcp_dead and quic_talked:
        return "quic"
    return None


def _unused(tcp: TcpConnection) -> bool:
    """Whether TCP was closed again without a byte of a client's, or after TLS without one of the server's."""
    if tcp.ended is None or tcp.torn or tcp.mid_stream or tcp.reported:
        return False
    return tcp.client_stream.bytes_seen == 0 if tcp.tls is None else tcp.ready is not None and not tcp.response_bytes


def _abandoned(quic: QuicConnection, tcp: TcpConnection) -> bool:
    """Whether the client finished over TCP and closed it, or went on with it, while QUIC had carried nothing at all."""
    ended, last_ns = tcp.ended, quic.last.time_ns
    over = (ended is not None and ended[0].time_ns > last_ns) or tcp.last.time_ns - last_ns >= GIVEN_UP_NS
    return over and quic.stuck
