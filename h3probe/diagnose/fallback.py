"""Fallbacks: what a request went on over when QUIC had kept it waiting."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.rule import TAKEOVER_NS
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from h3probe.diagnose.story import Seen, Story
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection

# What a server still sends of an earlier request when the next one's first Initial leaves.
SETTLING_NS = NS // 5
# A request may leave over TCP this long before the close of the attempt that it had waited for, on a busy machine.
AHEAD_NS = NS // 2
# A client's own attempt leaves within this of its request; a cold JVM needs most of it.
OWN_NS = NS // 2


@dataclass(frozen=True, slots=True)
class Wait:
    """What a request waited for, before it went on over TCP.

    Attributes:
        attempt: The QUIC attempt.
        tcp: The connection that took the request over.
        until: When it did: a SYN, or bytes on a connection that was open all the while.
        request: The request's number among those that the client's log tells of; None where it tells of none such.
        reused: Whether the connection was open already.
    """

    attempt: QuicConnection
    tcp: TcpConnection
    until: Mark
    request: int | None
    reused: bool = False

    @property
    def seconds(self) -> float:
        """From the attempt's first packet on."""
        return (self.until.time_ns - self.attempt.first.time_ns) / NS


def wait_of(story: Story, attempt: QuicConnection) -> Wait | None:
    """Return what a QUIC attempt kept waiting, None where nothing shows that it did.

    That is a new connection, or one that was open already, where the client's log tells that it carried a request from
    before the attempt, and the wire that its bytes left only when the attempt was over.
    """
    tcp = fallback_of(story, attempt)
    if tcp is not None:
        until = tcp.syn or tcp.first
        return Wait(attempt, tcp, until, _request(story, attempt, tcp, until.time_ns))
    return _over_an_open_one(story, attempt)


def _over_an_open_one(story: Story, attempt: QuicConnection) -> Wait | None:
    end = attempt.ended
    if end is None or not _is_whole(story, attempt) or not story.failed(attempt):
        return None
    began_ns = attempt.first.time_ns
    from_ns = max(end.time_ns - AHEAD_NS, began_ns)
    if any(t.responded_between(began_ns + SETTLING_NS, from_ns) for t in story.tcp):
        return None
    for tcp in story.tcp:
        asked = tcp.first_asked(from_ns, end.time_ns + TAKEOVER_NS)
        open_before = tcp.ready is not None and tcp.ready.time_ns < began_ns
        if not open_before or asked is None or asked.time_ns < from_ns:
            continue
        request = _request(story, attempt, tcp, asked.time_ns)
        if request is not None:
            return Wait(attempt, tcp, asked, request, reused=True)
    return None


def _request(story: Story, attempt: QuicConnection, tcp: TcpConnection, until_ns: int) -> int | None:
    """The number of the request that began with an attempt, by the client's log, and was answered over TCP after it."""

    def waited(exchange: Seen) -> bool:
        began = exchange.time_ns <= attempt.first.time_ns + OWN_NS and exchange.answered_ns >= until_ns
        return exchange.known_from == "client-log" and exchange.connection == tcp.id and began

    answered = [n for n, e in enumerate(story.exchanges, 1) if e.status is not None and waited(e)]
    return answered[0] if answered else None


def fallback_of(story: Story, attempt: QuicConnection) -> TcpConnection | None:
    """Return the TCP attempt that a client fell back to after a QUIC attempt, None where there is none.

    It is the first SYN to the origin after the attempt's first Initial, outside of a race, while the attempt was
    still pending or just over, and not after QUIC had become ready.
    """
    if not _is_whole(story, attempt):
        return None
    tcp = story.first_syn_after(attempt)
    if tcp is None or tcp.syn is None or any(race.tcp is tcp for race in story.races):
        return None
    syn_ns = tcp.syn.time_ns
    if syn_ns - attempt.first.time_ns <= story.head_start_ns or not _goes_on(attempt, syn_ns):
        return None
    if attempt.ready is not None and attempt.ready.time_ns <= syn_ns:
        return None
    if attempt.established and attempt.ready is None:
        return None
    end = attempt.ended
    if end is not None and end.time_ns + TAKEOVER_NS < syn_ns:
        return None
    if end is None and attempt.last.time_ns < syn_ns and _long_silent(attempt, syn_ns):
        return None
    in_use = [t for t in story.tcp if t is not tcp and t.responded_between(attempt.first.time_ns + SETTLING_NS, syn_ns)]
    if in_use:
        return None  # Requests went on over TCP meanwhile: nobody waited.
    newer = [q for q in story.quic if attempt.first.time_ns < q.first.time_ns <= syn_ns and _same_place(q, attempt)]
    return None if newer else tcp


def _is_whole(story: Story, attempt: QuicConnection) -> bool:
    """Whether an attempt was seen from its start, outside of a race, and can be read."""
    if attempt.mid_stream or story.crowded or any(race.quic is attempt for race in story.races):
        return False
    if not attempt.decodable:
        return attempt.version_negotiation is not None
    # A first packet that is a close is the end of an attempt, not the start of one.
    return bool(attempt.hello_datagrams) or attempt.client_close is None


def _goes_on(attempt: QuicConnection, syn_ns: int) -> bool:
    """Whether the client is one that still goes on to TCP so late."""
    client = recognise(attempt)
    timed = client is not None and any(timer.leads_to_tcp for timer in client.timers)
    if timed and (attempt.last_client or attempt.last).time_ns > syn_ns + OWN_NS:
        return False  # One that falls back when its timer has run out was racing, slowly.
    if client is None or client.fallback_within is None:
        return True
    return syn_ns - attempt.first.time_ns <= client.fallback_within * NS


def _long_silent(attempt: QuicConnection, syn_ns: int) -> bool:
    """Whether an attempt without a close had gone quiet for longer than its own doubling timer explains."""
    marks = attempt.hello_datagrams
    gap = max((b.time_ns - a.time_ns for a, b in pairwise(marks)), default=NS)
    return syn_ns - attempt.last.time_ns > max(3 * gap, 3 * NS)


def _same_place(one: QuicConnection, other: QuicConnection) -> bool:
    return one.server == other.server
