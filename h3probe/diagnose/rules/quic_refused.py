"""quic-refused: an ICMP error answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.rule import Finding, Rule, by_severity, hellos
from h3probe.diagnose.words import close_text, cut, gave_up, initials
from h3probe.events import Endpoint
from h3probe.text import seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.packet import IcmpError

SLUG = "quic-refused"
ADVICE_CLOSED = (
    "No program listens on this UDP port there, or that host's own firewall rejects it, which looks the same: start "
    "the server's HTTP/3 listener, open the port, or stop advertising it (Alt-Svc, DNS HTTPS record)."
)
ADVICE_PROHIBITED = "A firewall on the way rejects UDP to this port: ask whoever runs the host that sent the error."
ADVICE_UNREACHABLE = "The network has no way to this address: look at routes and addresses."
ADVICE_UNREACHABLE_6 = (
    "The network has no way to this address: look at routes and addresses, or at whether IPv6 works at all."
)
IPV6 = 16  # bytes
ADVICE_PROTOCOL = "That host, or what answers for it, takes no UDP at all: ask whoever runs it."


def check(story: Story) -> Iterator[Finding]:
    """Fire for attempts that an ICMP error answered and no datagram did; those of one kind are one finding."""
    refused = [a for a in story.quic if a.refusals and a.initials_sent and a.outcome(story.now_ns) == "refused"]
    for severity, attempts in by_severity(story, refused):
        kinds: dict[tuple[str, str], list[QuicConnection]] = {}
        for attempt in attempts:
            kinds.setdefault(_meaning(attempt.refusals[0][1], attempt.server), []).append(attempt)
        for (meaning, advice), alike in kinds.items():
            yield _finding(severity, alike, meaning, advice)


def _meaning(error: IcmpError, server: Endpoint) -> tuple[str, str]:
    """What the error says, and what to do about it."""
    sender = Endpoint(error.sender, 0).address
    where = "that host itself" if error.sender == server.host else sender
    if error.sender == error.recipient != server.host:
        where = f"the client's own host ({sender})"
    if error.kind == "port-unreachable":
        if error.sender == server.host:
            return f"port unreachable, from {where}: nothing takes UDP {server.port} there", ADVICE_CLOSED
        if error.sender == error.recipient:
            return f"port unreachable, from {where} and not from the server", ADVICE_PROHIBITED
        return f"port unreachable, sent by {sender} on the way and not by the server", ADVICE_PROHIBITED
    if error.kind == "prohibited":
        return f"{error.meaning}, from {where}: a firewall rejects it", ADVICE_PROHIBITED
    if error.kind == "protocol-unreachable":
        return f"{error.meaning}, from {where}", ADVICE_PROTOCOL
    return f"{error.meaning}, from {where}", ADVICE_UNREACHABLE_6 if len(server.host) == IPV6 else ADVICE_UNREACHABLE


def _finding(severity: Severity, attempts: list[QuicConnection], meaning: str, advice: str) -> Finding:
    first = attempts[0]
    places = ", ".join(sorted({str(a.server) for a in attempts}))
    after = seconds((first.refusals[0][0].time_ns - first.first.time_ns) / NS)
    count = "" if len(attempts) == 1 else f", {len(attempts)} times"
    summary = f"QUIC to {places} was refused{count}, after {after}: ICMP {meaning}."
    client = recognise(first)
    if client is not None and client.ignores_icmp and first.initials_sent > 1:
        summary += f" {client.name} does not notice the error and went on: {initials(*attempts)}."
    evidence: list[tuple[Mark, str]] = []
    for attempt in attempts:
        evidence += hellos(attempt)
        mark, error = attempt.refusals[0]
        sender = Endpoint(error.sender, 0).address
        evidence.append((mark, f"ICMP {error.icmp_type}/{error.icmp_code} from {sender}"))
        if attempt.client_close is not None:
            evidence.append((attempt.client_close[0], f"the client gives up: {close_text(attempt.client_close[1])}"))
    waited = gave_up(attempts)
    if waited is not None:
        summary += f" It gave up after {waited}."
    return Finding(SLUG, severity, summary, cut(evidence), advice, list(attempts))


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="QUIC was refused",
    looks_for=(
        "An ICMP or ICMPv6 unreachable error that quotes the client's datagram, and no datagram from the server. "
        "A closed port (3/3, 1/4) and a firewall's refusal (3/13 and the like, 1/1) are told apart, and so is who "
        "sent it; a firewall on the server itself may call a port closed (iptables' REJECT does, unless told "
        "otherwise). Errors about the server's packets mean that the client's process ended, and do not count."
    ),
    advice=f"{ADVICE_CLOSED} {ADVICE_PROHIBITED}",
    sources=("RFC 792", "RFC 1812, 5.2.7.1", "RFC 4443, 3.1", "measured: the JDK's socket does not see ICMP errors"),
    check=check,
)
