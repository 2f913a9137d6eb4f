"""incomplete-capture: what the capture does not hold, and what cannot be said therefore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule
from h3probe.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.rule import CaptureFacts
    from h3probe.track.mark import Mark

SLUG = "incomplete-capture"
ADVICE = (
    "Start the capture before the client, keep whole packets (tcpdump -s 0), and capture where both directions "
    "pass; `h3probe watch -- COMMAND` does all three."
)
TOO_MUCH = (
    "Where more came than could be taken, narrow the capture down to an interface, a port or a host (`h3probe watch "
    "-i`, `--port`; tcpdump also has -B, a larger buffer)."
)

MEND = (
    "Copy the file anew from where it was recorded (FTP: in binary mode), or record anew; the program `pcapfix` may "
    "save more of it."
)


def check_capture(facts: CaptureFacts) -> Iterator[Finding]:
    """Fire once, naming everything that is missing."""
    gaps = [clean(reason) for reason in facts.unreadable[:4]]
    if facts.truncated and not gaps:
        gaps.append("it ends in the middle of a packet")
    lost = [f"{count:,} packets were lost ({reason})" for count, reason in facts.dropped if count]
    gaps += lost
    closed = sorted(facts.closed.items(), key=lambda kind: -kind[1])
    gaps += [f"{count:,} {what} cannot be looked into" for what, count in closed[:4]]
    gaps += [text.format(_count(number, noun)) for number, noun, text in _sums(facts) if number]
    missing = facts.missing
    if not gaps:
        return
    summary = f"The capture is not complete: {'; '.join(gaps)}. Nothing is concluded from what is missing."
    evidence: list[tuple[Mark, str]] = [
        (first, f"{name} begins in mid-stream") for first, name in missing.late_first
    ] or ([(facts.first, "the first packet")] if facts.first is not None else [])
    advice = MEND if facts.damaged else TOO_MUCH if len(gaps) == len(lost) > 0 else ADVICE
    # What a damaged file holds beside what was read may be the answer.
    yield Finding(SLUG, "notice" if facts.damaged else "info", summary, evidence, advice, [])


def _sums(facts: CaptureFacts) -> tuple[tuple[int, str, str], ...]:
    """What is counted: how much of it there is, of what, and what is said of that."""
    missing, quic, tcp = facts.missing, "QUIC connection", "TCP connection"
    return (
        (facts.left, "connection", "{} could not be followed to the end, to keep memory bounded"),
        (facts.forgotten, "connection", "{} had to be forgotten, to keep memory bounded"),
        (missing.late, quic, "the start of {} is missing"),
        (missing.cut, quic, "a snaplen cut the Initials of {}"),
        (missing.one_sided, quic, "the server's packets are missing for {}"),
        (missing.one_sided_tcp, tcp, "the server's packets are missing for {}"),
        (missing.unread_tcp, tcp, "of {} the ClientHello is cut or not whole"),
        (missing.late_tcp, tcp, "{} to port 443 had begun before it"),
        (0 if missing.connections else facts.rests, tcp, "of {} it holds the end alone"),
    )


def _count(number: int, noun: str) -> str:
    return f"one {noun}" if number == 1 else f"{number:,} {noun}s"


RULE = Rule(
    slug=SLUG,
    severity="info",
    title="The capture does not hold everything",
    looks_for=(
        "A file cut short or damaged, packets that the kernel dropped, Initials cut by a snaplen, connections whose "
        "start or whose other direction is missing, or of which there were too many to follow; frames of a link type "
        "that is not read, encrypted 802.11, IPsec."
    ),
    advice=f"{ADVICE} {TOO_MUCH} Where the file is damaged: {MEND[0].lower()}{MEND[1:]}",
    sources=("the capture itself",),
    check_capture=check_capture,
)
