"""proxy-downgrade: a CONNECT tunnel carried the requests, and a TCP tunnel cannot carry HTTP/3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.diagnose.rules.no_quic_attempt import offer
from h3probe.diagnose.words import cut, no_quic, used_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.mark import Mark
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tunnel import Tunnel

SLUG = "proxy-downgrade"
ADVICE = (
    "No client setting brings HTTP/3 through a CONNECT proxy. Exempt the host from the proxy (NO_PROXY, "
    "-Dhttp.nonProxyHosts) where UDP is allowed, or stay with HTTP/2."
)


def check(story: Story) -> Iterator[Finding]:
    """Fire once for a story whose tunnels opened, carried TLS, and had no QUIC beside them."""
    if story.host_quic or story.quic or (story.exchanges and story.versions is None):
        return
    ready = [(tcp, tunnel) for tcp, tunnel in story.tunnels if tunnel.open and tcp.hello is not None and _carried(tcp)]
    used = [(tcp, tunnel) for tcp, tunnel in ready if tunnel.method == "CONNECT"]
    if used:
        yield _finding(story, used)


def _carried(tcp: TcpConnection) -> bool:
    """Whether TLS in the tunnel got ready; where only the proxy's report shows it, whether the server answered."""
    if tcp.failed:
        return False
    return tcp.server_stream.bytes_seen > 0 if tcp.reported else tcp.ready is not None


def _wanted(story: Story) -> str | None:
    """How HTTP/3 was asked for, or offered, as far as that was seen."""
    if any(tunnel.method == "connect-udp" for _, tunnel in story.tunnels):
        return "The client had asked the proxy for connect-udp, which HTTP/3 needs."
    offered = offer(story)
    return None if offered is None else f"The server offers HTTP/3 ({offered[1]})."


def _finding(story: Story, used: list[tuple[TcpConnection, Tunnel]]) -> Finding:
    tcp, _ = used[0]
    count = "" if len(used) == 1 else f" ({len(used)} tunnels)"
    summary = (
        f"{story.label} was reached through a CONNECT tunnel of the proxy {tcp.server}{count}, with "
        f"{used_version(story, tcp)}: a TCP tunnel cannot carry HTTP/3, and {no_quic(story)}."
    )
    wanted = _wanted(story)
    if wanted is not None:
        summary += f" {wanted}"
    evidence: list[tuple[Mark, str]] = []
    for carrier, asked in used[:4]:
        evidence.append((asked.asked, f"CONNECT {asked.target}"))
        if asked.answered is not None:
            evidence.append((asked.answered, f"the proxy answers {asked.status}"))
        if carrier.tls is not None and carrier.tls.hello_mark is not None:
            evidence.append((carrier.tls.hello_mark, "ClientHello inside the tunnel"))
    severity: Severity = "info" if wanted is None else "notice"
    return Finding(SLUG, severity, summary, cut(evidence), ADVICE, [c for c, _ in used])


RULE = Rule(
    slug=SLUG,
    severity="info",
    title="A proxy's TCP tunnel cannot carry HTTP/3",
    looks_for=(
        "A CONNECT that the proxy agreed to, TLS inside, and not one QUIC packet from that client's host in the "
        "whole capture. It is information, and a notice where the client asked for HTTP/3 or the server was seen to "
        "offer it."
    ),
    advice=ADVICE,
    sources=("RFC 9110, 9.3.6", "RFC 9298: connect-udp is what could carry it", "JEP 517: not through proxies"),
    check=check,
    rests_on_absence=True,
)
