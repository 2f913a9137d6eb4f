"""socket-fan-out: many QUIC connections from one client to one origin at once."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.rule import Finding, Rule
from h3probe.diagnose.story import REST_NS
from h3probe.diagnose.words import is_dns
from h3probe.text import clean, count, seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection

SLUG = "socket-fan-out"
ADVICE = (
    "One QUIC connection carries many requests at once: share one client object (JDK: one HttpClient for the whole "
    "program) instead of making one for each request. Each connection costs a handshake, and where it has a socket of "
    "its own, a file descriptor at both ends."
)
# Browsers keep one connection to an origin; one more for each private window, each profile and each network path.
LEAST = 12


def check(story: Story) -> Iterator[Finding]:
    """Fire once for each time that so many connections of one kind were alive at once."""
    kinds: dict[str, list[QuicConnection]] = {}
    for connection in story.quic:
        if not connection.mid_stream and connection.hello is not None and not is_dns(connection):
            if story.origin is None and connection.hello.ech:
                continue  # What it is to, nobody can tell.
            kinds.setdefault(_kind(connection), []).append(connection)
    for connections in kinds.values():
        for crowd in _crowds(connections):
            yield _finding(story, crowd)


def _kind(connection: QuicConnection) -> str:
    client = recognise(connection)
    return client.family if client is not None else connection.ja4 or ""


def _end_ns(connection: QuicConnection) -> int:
    """The latest that a connection is known to have been its client's."""
    seen = connection.last_client or connection.last
    return min(connection.ended or seen, seen, key=lambda mark: mark.time_ns).time_ns


@dataclass(slots=True)
class _Period:
    """A time during which there were enough at once.

    Attributes:
        before: Those that were alive when it began.
        start: Where it began, in the list of all by their beginnings.
        peak: Where the most of them were alive.
        most: How many that was.
        until_ns: The latest end of one of them.
    """

    before: list[QuicConnection]
    start: int
    peak: int
    most: int
    until_ns: int


def _crowds(connections: list[QuicConnection]) -> list[list[QuicConnection]]:
    """Return the connections alive when the most of them were, of each time that there were enough."""
    ordered = sorted(connections, key=lambda c: c.first.time_ns)
    ends = [_end_ns(connection) for connection in ordered]
    alive: list[tuple[int, int]] = []  # a heap, by their ends
    periods: list[_Period] = []
    for index, connection in enumerate(ordered):
        began_ns = connection.first.time_ns
        while alive and alive[0][0] <= began_ns:
            heappop(alive)
        heappush(alive, (ends[index], index))
        if len(alive) < LEAST:
            continue
        if not periods or began_ns - periods[-1].until_ns >= REST_NS:
            before = [ordered[i] for _, i in alive if i != index]
            periods.append(_Period(before, index, index, 0, max(end for end, _ in alive)))
        period = periods[-1]
        period.until_ns = max(period.until_ns, ends[index])
        if len(alive) > period.most:
            period.peak, period.most = index, len(alive)
    return [_at_peak(ordered, period) for period in periods]


def _at_peak(ordered: list[QuicConnection], period: _Period) -> list[QuicConnection]:
    last = ordered[period.peak]
    those = [*period.before, *ordered[period.start : period.peak]]
    those = [c for c in those if _end_ns(c) > last.first.time_ns]
    return [*sorted(those, key=lambda c: c.first.time_ns), last]


def _finding(story: Story, crowd: list[QuicConnection]) -> Finding:
    first, last = crowd[0], crowd[-1]
    ports = len({connection.client for connection in crowd})
    failed = [connection for connection in crowd if story.failed(connection) and not connection.established]
    within = seconds((last.first.time_ns - first.first.time_ns) / NS)
    known = all(connection.process is not None for connection in crowd)
    whose = clean(story.client, 80)
    summary = (
        f"{count(len(crowd), 'QUIC connection')} from {whose} to {story.label} at once, begun within {within}, from "
        f"{count(ports, 'UDP port')}."
    )
    if not known:
        summary += " Whether one program made them all the packets do not tell."
    if failed:
        summary += f" {len(failed)} of them failed."
    evidence: list[tuple[Mark, str]] = [
        (first.first, "the first of them begins"),
        (last.first, f"the {len(crowd)}th of them begins, with all of them alive"),
    ]
    severity: Severity = "notice" if failed else "info"
    return Finding(SLUG, severity, summary, evidence, ADVICE, [first, last])


RULE = Rule(
    slug=SLUG,
    severity="info",
    title="Many QUIC connections at once",
    looks_for=(
        f"{LEAST} QUIC connections or more from one client to one origin, alive at the same time and all of the same "
        "software; a connection that moves to another port is still one. Browsers stay well below."
    ),
    advice=ADVICE,
    sources=(
        "RFC 9114, 3.3: one connection to an origin is enough",
        "measured: JDK 26 has one UDP socket and one connection to an origin for each HttpClient",
    ),
    check_whole=check,
)
