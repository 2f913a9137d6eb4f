"""Verdicts where no connection got ready, as far as is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.verdict.clauses import (
    NO_CONNECTION,
    NO_TCP,
    http_over_quic,
    opening,
    quic_ended,
    quic_tries,
    tcp_beside,
    unreadable,
)
from h3probe.diagnose.verdict.tcp_ended import tcp_ended
from h3probe.diagnose.words import http_over_tcp, unasked
from h3probe.text import clean
from h3probe.wire.quic.versions import is_reserved

if TYPE_CHECKING:
    from h3probe.diagnose.story import Story


LOST_SIGHT = "What became of QUIC and TCP is not in the capture."


def nothing_ready(story: Story) -> str:
    """Return the verdict on a story without a connection that could carry a request."""
    if story.unreached:
        leg = story.unreached[0]
        return f"No connection: the proxy could not connect to {clean(leg.target, 300)} ({leg.error})."
    if all(c.first.frame is None for c in story.connections):
        return _passed_through(story)
    if story.quic and any(t.mid_stream for t in story.tcp):
        ended = opening(quic_ended(story, story.quic[0]))
        return f"{ended}; a TCP connection from before the capture may carry requests."
    outcomes = {t.outcome(story.now_ns) for t in story.tcp}
    if any(map(unasked, story.tcp)):
        return _unused(story)
    if story.quic and story.tcp:
        return _neither(story, tcp_failed=outcomes <= NO_CONNECTION)
    if story.quic:
        return _no_quic(story)
    if all(t.refused for t in story.tcp) or outcomes <= NO_CONNECTION:
        end = tcp_ended(story) or "TCP ended before it was ready"
        if story.udp_unseen and not story.mixed:
            return f"No connection is seen: {end}, and the capture holds no UDP at all."
        return f"No connection: {end}, and {_none_tried(story)}."
    only = "TCP" if story.udp_unseen else "TCP only"
    garbled = all(t.garbled for t in story.tcp)
    why = "with TLS that cannot be read" if garbled else "and its start or its end is not in the capture"
    return f"{only}, {why}: what it carried cannot be told."


def _neither(story: Story, *, tcp_failed: bool) -> str:
    """The verdict where neither QUIC nor TCP got anywhere as far as is seen."""
    unfinished = [q for q in story.quic if not story.failed(q)]
    if not tcp_failed:
        ended = opening(quic_ended(story, story.quic[0]))
        return LOST_SIGHT if unfinished else f"{ended}, and what became of TCP is not in the capture."
    if not unfinished:
        return f"No connection: {quic_ended(story, story.quic[0])}, and {tcp_beside(story)}."
    if not all(q.answered and q.stuck and not q.mid_stream for q in unfinished):
        return LOST_SIGHT
    return f"No connection is seen: {quic_ended(story, unfinished[0])}, and {tcp_beside(story)}."


def _unused(story: Story) -> str:
    """The verdict where the best that came of it is TCP that was closed with nothing asked on it."""
    if not all(unasked(t) or t.outcome(story.now_ns) in NO_CONNECTION for t in story.tcp):
        return "What became of TCP is not in the capture."
    closed = "TLS over TCP was ready, and closed before anything was asked"
    if story.quic:
        return f"No request is seen: {quic_ended(story, story.quic[0])}, and {closed}."
    return f"No request is seen: {closed}; {_none_tried(story)}."


def _none_tried(story: Story) -> str:
    if story.mixed:
        return "whether QUIC was tried cannot be told"
    who = "this client sent no QUIC packet" if story.among_others else "no QUIC packet was sent"
    return f"{who}{story.as_far_as}"


def _no_quic(story: Story) -> str:
    """The verdict where QUIC alone was tried, and was not established for all that is seen."""
    if all(story.failed(q) for q in story.quic):
        if story.proxied:
            return f"No connection past the proxy: {quic_tries(story)}, and no TCP was seen; see the proxy's tunnel."
        if not story.tcp and not story.mixed and "tcp" in story.lacks:
            # A filter may have left TCP out: what is not seen is all that can be said.
            return f"No connection is seen: {quic_tries(story)}, and the capture holds no TCP at all."
        beside = tcp_beside(story)
        until = " before the capture ends" if beside == NO_TCP and not story.had_time else ""
        return f"No connection: {quic_tries(story)}, and {beside}{until}."
    if all(q.mid_stream for q in story.quic):
        looks = "What looks like QUIC" if all(q.nameless for q in story.quic) else "QUIC"
        return f"{looks}, under way already when it was first seen: what it carried cannot be told."
    if any(unreadable(q) for q in story.quic):
        return f"{opening(quic_ended(story, story.quic[0]))}: what it carried cannot be told."
    if all(is_reserved(q.version) for q in story.quic):
        return f"{opening(quic_ended(story, story.quic[0]))}."
    return "What became of QUIC is not in the capture."


def _passed_through(story: Story) -> str:
    """The verdict on connections to a reverse proxy, of which nothing is seen but its report, and no request."""
    through = [t for t in story.tcp if t.outcome(story.now_ns) not in NO_CONNECTION]
    offered = ([http_over_quic(story.quic[0])] if story.quic else []) + [http_over_tcp(t) for t in through[:1]]
    if not offered:
        return "No connection: TLS ended before it was ready, as far as the proxy saw."
    names = " and ".join(offered)
    return f"{names} was offered in TLS that passed the proxy untouched: what it carried is not seen there."
