"""The verdict: one sentence for an origin and a client, what carried its requests and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.verdict.tunnelled import through_proxy
from h3probe.diagnose.verdict.wire import from_the_wire
from h3probe.diagnose.verdict.witnessed import witnessed
from h3probe.diagnose.words import is_dns
from h3probe.track.tcp import OTHER_PROTOCOLS

if TYPE_CHECKING:
    from h3probe.diagnose.story import Story
    from h3probe.track.tcp import TcpConnection

# Interception changes what it observes; a verdict that rests on it says so.
INTERCEPTED = "TLS was intercepted to see this, which by itself keeps Chromium and Firefox from HTTP/3."
INTERCEPTED_TCP = "TLS over TCP was intercepted to see this, QUIC was not; by itself that keeps Firefox from HTTP/3."

# Where an attempt that nobody answers was for HTTP, though it shows nothing of that.
WEB_PORTS = frozenset({80, 443, 8080, 8443})


def deserves_verdict(story: Story) -> bool:
    """Whether a story is about HTTP at all, and the client's own."""
    if story.relayed:
        return False
    if story.tunnels or story.in_the_clear:
        return True
    if any(not is_dns(q) for q in story.quic):
        return True
    web = [t for t in story.tcp if t.server.port not in OTHER_PROTOCOLS]
    return any(t.hello is not None or t.refused or _is_told(story, t) for t in web)


def _is_told(story: Story, tcp: TcpConnection) -> bool:
    """Whether TCP without TLS is worth a verdict: HTTP in the clear, or nobody who answers."""
    clear = (tcp.http or tcp.preface) and tcp.tunnels is None and not story.by_proxy
    return clear or (tcp.server.port in WEB_PORTS and tcp.outcome(story.now_ns) == "unanswered")


def client_text(story: Story) -> str:
    """Who the client is: its process or address, and its software where the wire gives that away."""
    software = story.software
    if software is None:
        return story.client
    # TCP alone says less: other versions and libraries send the same ClientHello.
    quic = any(recognise(q) is software for q in story.quic)
    return f"{story.client} ({software.name if quic else software.tcp_name})"


def sentence(story: Story) -> str:
    """Return the verdict on a story: what carried the first request, and what a later one waited for."""
    text = _verdict(story)
    if not story.intercepted:
        return text
    return f"{text} {INTERCEPTED_TCP if story.quic_untouched else INTERCEPTED}"


def _verdict(story: Story) -> str:
    if story.tunnels:
        return through_proxy(story)
    seen = witnessed(story)
    return from_the_wire(story) if seen is None else seen
