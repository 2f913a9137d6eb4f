"""Attempts that a client made because of an Alt-Svc record, and how that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise_quic
from h3probe.diagnose.fallback import wait_of
from h3probe.diagnose.rule import TAKEOVER_NS
from h3probe.diagnose.words import timer_of, waited_until_close
from h3probe.text import clean, seconds
from h3probe.track.clock import NS
from h3probe.track.mark import Mark
from h3probe.wire.altsvc import parse

if TYPE_CHECKING:
    from h3probe.diagnose.story import Story
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection

# No datagram came back. One that stalled or was closed was answered, and is another matter.
SILENT = frozenset({"unanswered", "refused"})


def is_silent(story: Story, attempt: QuicConnection) -> bool:
    """Whether an attempt is known to have got no datagram back, seen from its start."""
    return bool(attempt.initials_sent) and attempt.outcome(story.now_ns) in SILENT


def origin_of_attempt(story: Story, attempt: QuicConnection) -> tuple[Mark, str] | None:
    """Return what shows that an attempt follows an Alt-Svc record; None where nothing does, or leaves a doubt.

    That is a response with such a line, before which the client had not tried QUIC at all; or, without sight of any
    response, marks of the attempt's own that its client gives to no other.
    """
    return _offered(story, attempt) or _marked(story, attempt)


def _offered(story: Story, attempt: QuicConnection) -> tuple[Mark, str] | None:
    began_ns = attempt.first.time_ns
    told = [seen for seen in story.alt_svc if seen.passed_on and seen.time_ns < began_ns]
    if not told:
        return None
    latest = max(told, key=lambda seen: seen.time_ns)  # It replaces the ones before (RFC 7838, 3).
    lasts = max(
        (
            a.max_age
            for a in parse(latest.passed_on).alternatives
            if a.protocol == "h3" and a.port == attempt.server.port
        ),
        default=0,
    )
    first_ns = min(seen.time_ns for seen in told)
    if began_ns > latest.time_ns + lasts * NS or any(q.first.time_ns < first_ns for q in story.quic):
        return None
    return Mark(None, latest.time_ns), f"alt-svc: {clean(', '.join(latest.passed_on), 200)}"


def _marked(story: Story, attempt: QuicConnection) -> tuple[Mark, str] | None:
    client, hello = recognise_quic(attempt), attempt.hello
    if client is None or not client.names_alternatives or hello is None or not hello.sni:
        return None
    if "." not in hello.sni:
        return (
            attempt.first,
            f"SNI {clean(hello.sni, 80)}: {client.name} sends such a name only after an Alt-Svc record",
        )
    # A name with a dot is sent without a record too; then a request that may go on over TCP waits for another timer.
    waited = waited_until_close(attempt)
    timer = timer_of(attempt, waited) if waited is not None else None
    if not hello.psk or timer is None or timer[1].reason is None or wait_of(story, attempt) is None:
        return None
    wait = seconds(timer[1].seconds)
    return (
        attempt.first,
        f"a session to resume, and {wait} until TCP: {client.name} does so only after an Alt-Svc record",
    )


def tcp_works(story: Story) -> TcpConnection | None:
    """Return a TCP connection over which the server answered, be it at the origin's own port; None without one."""
    tcp = [*story.tcp, *story.tcp_elsewhere]
    return next((t for t in tcp if t.ready is not None and not t.failed and t.response_bytes), None)


def taken_over_elsewhere(story: Story, attempt: QuicConnection) -> TcpConnection | None:
    """Return the TCP connection to the origin's own port that a client opened when its alternative had failed."""
    if story.tcp or attempt.client_close is None:
        return None
    end_ns = attempt.client_close[0].time_ns
    later = [t for t in story.tcp_elsewhere if t.syn is not None and abs(t.syn.time_ns - end_ns) <= TAKEOVER_NS]
    return min(later, key=lambda t: t.first.time_ns, default=None)
