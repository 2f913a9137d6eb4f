"""quic-unanswered: Initials went out and no datagram came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import ONE_SIDED, Finding, Rule, by_severity, hellos
from h3probe.diagnose.words import close_text, cut, gave_up, initials
from h3probe.events import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.packet import IcmpError

SLUG = "quic-unanswered"
ADVICE = (
    "UDP to this port is dropped without a word, or nobody answers: compare with a capture taken on the server, "
    "and ask whoever runs the firewall between for UDP on this port. "
    "`curl --http3-only` shows whether it is this client alone."
)
ADVICE_TOO_BIG = (
    "QUIC needs a path that takes datagrams of 1200 bytes (RFC 9000, 14): raise the MTU on the way, of tunnels and "
    "VPNs above all."
)
ADVICE_ELSEWHERE = (
    "A client drops what comes from an address that it did not ask (RFC 9000, 9): whatever balances or translates "
    "before the server has to send answers from where it was asked."
)
ADVICE_EXPIRED = "Packets go in circles, or set out with too small a TTL: ask whoever runs the one that says so."


def check(story: Story) -> Iterator[Finding]:
    """Fire for attempts that had time for an answer and got none; those that cost the same are one finding."""
    silent = [a for a in story.quic if (a.initials_sent or a.cut) and a.outcome(story.now_ns) == "unanswered"]
    for severity, attempts in by_severity(story, silent):
        yield _finding(story, severity, attempts)


def _finding(story: Story, severity: Severity, attempts: list[QuicConnection]) -> Finding:
    places = ", ".join(sorted({str(a.server) for a in attempts}))
    tried = f"{initials(*attempts)}{',' if len(attempts) > 1 else ''} to {places}"
    summary, advice = f"{tried}: no datagram and no ICMP error came back.", ADVICE
    error = next((e for a in attempts for e in (a.too_big, a.hindered) if e is not None), None)
    if error is not None:
        said, advice = _said(error[1])
        summary = f"{tried}: no datagram came back, and ICMP says: {said}."
    elif story.swallows_icmp is not None:
        summary = (
            f"{tried}: no datagram came back. Dropped or refused cannot be told apart: "
            f"{story.swallows_icmp} is on the way and brings no ICMP error back."
        )
    evidence: list[tuple[Mark, str]] = []
    astray = next((a for a in attempts if a.elsewhere is not None), None)
    if astray is not None and astray.elsewhere is not None:
        mark, sender = astray.elsewhere
        summary = f"{tried}: what came back is from {sender}, which was not asked."
        advice = ADVICE_ELSEWHERE
        evidence.append((mark, f"an answer from {sender}"))
    behind, where = _answered_behind(story, attempts)
    summary += where
    evidence += behind
    if error is not None:
        evidence.append((error[0], f"ICMP {error[1].icmp_type}/{error[1].icmp_code}: {error[1].meaning}"))
    for attempt in attempts:
        evidence += hellos(attempt)
        if attempt.client_close is not None:
            mark, frame = attempt.client_close
            evidence.append((mark, f"the client gives up: {close_text(frame)}"))
    waited = gave_up(attempts)
    if waited is not None:
        summary += f" The client gave up after {waited}."
    elif story.one_sided:
        summary += f" {ONE_SIDED}"
    return Finding(SLUG, severity, summary, cut(evidence), advice, list(attempts))


def _answered_behind(story: Story, attempts: list[QuicConnection]) -> tuple[list[tuple[Mark, str]], str]:
    """Evidence and a sentence: that an attempt was answered where the capture shows it again, behind a NAT."""
    for copy in (story.behind.get(attempt.id) for attempt in attempts):
        if copy is not None and copy.transport == "quic" and copy.first_answer is not None:
            text = (
                f" Behind a NAT or balancer, from {copy.client} to {copy.server}, it was answered: what came back was"
            )
            return [(copy.first_answer, "the answer, on the other side")], f"{text} lost between the two."
    return [], ""


def _said(error: IcmpError) -> tuple[str, str]:
    """What an ICMP error that refuses nothing says, and what to do about it."""
    mtu = f", MTU {error.mtu}" if error.mtu else ""
    advice = {"too-big": ADVICE_TOO_BIG, "time-exceeded": ADVICE_EXPIRED}.get(error.kind, ADVICE)
    return f"{error.meaning}{mtu}, from {Endpoint(error.sender, 0).address}", advice


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="QUIC was not answered",
    looks_for=(
        "A client's Initials that nothing answers: no datagram from the server, no ICMP error that refuses it, for a "
        "second or more or until the client gives up. An attempt whose packets acknowledge something was answered, "
        "even where the capture does not show it. What comes from another address or port than was asked is none, and "
        "named."
    ),
    advice=ADVICE,
    sources=(
        "RFC 9000, 17.2.2",
        "RFC 9002, 6.2: a client sends its Initial again while nothing answers",
        "RFC 9000, 9: a client drops what an unknown address sends",
    ),
    check=check,
)
