"""quic-stalled: the server answered, and the handshake did not finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule, hellos, severity_of_failure
from h3probe.diagnose.words import cut, initials
from h3probe.text import seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection

SLUG = "quic-stalled"
ADVICE = (
    "Compare with a capture taken on the other side: which of the two sides' datagrams do not arrive? "
    "Large datagrams that are lost where small ones pass point at the path MTU."
)
ADVICE_LEFT = (
    "The client ended it, most often since it does not accept the certificate: its own error or log says. Browsers do "
    "so too over QUIC where the authority was installed by hand."
)
# RFC 9000, 14.1: a path that does not carry this cannot carry QUIC.
SMALLEST_INITIAL = 1_200
AMPLIFICATION = 3


def check(story: Story) -> Iterator[Finding]:
    """Fire for each attempt that was answered and never became ready."""
    for attempt in story.quic:
        if attempt.outcome(story.now_ns) == "stalled":
            yield _finding(story, attempt)


def _signs(attempt: QuicConnection) -> list[str]:
    """What the packets say about the reason; facts only."""
    signs = []
    if attempt.first_answer is None:
        signs.append("the server's packets are not in this capture, but the client acknowledges them")
    elif attempt.server_handshake is None and attempt.server_hello is not None:
        signs.append("the ServerHello came, and none of the server's Handshake packets")
    elif attempt.server_handshake is not None and attempt.server_hello is None:
        signs.append("Handshake packets came without the Initial that holds the ServerHello")
    elif attempt.retry is not None and attempt.server_scid is None:
        signs.append("after the Retry nothing more came")
    elif attempt.server_scid is not None and attempt.server_hello is None and attempt.server_handshake is None:
        signs.append("the server acknowledges, and no ServerHello came")
    if attempt.established and attempt.unconfirmed:
        signs.append("the client was ready, and the server repeats its handshake: it lacks the client's last part")
    # A Retry is small by nature.
    if attempt.server_scid is not None and attempt.server_largest < SMALLEST_INITIAL <= attempt.client_largest:
        signs.append(
            f"the largest datagram from the server is {attempt.server_largest} bytes, "
            f"the client's {attempt.client_largest}: full-sized ones may be lost on the way back"
        )
    # A Handshake packet, or what came back with a Retry, has proven the address (RFC 9000, 8.1).
    proven = attempt.client_handshake is not None or attempt.retry is not None
    if not proven and attempt.server_bytes >= AMPLIFICATION * attempt.client_bytes > 0:
        signs.append("the server has sent three times what it received, and must wait for the client's address")
    if attempt.too_big is not None:
        mtu = attempt.too_big[1].mtu
        signs.append(f"ICMP says that a datagram was too big for the path{f', MTU {mtu}' if mtu else ''}")
    return signs


def _finding(story: Story, attempt: QuicConnection) -> Finding:
    evidence: list[tuple[Mark, str]] = hellos(attempt)
    answered = attempt.first_answer
    if answered is not None:
        after = seconds((answered.time_ns - attempt.first.time_ns) / NS)
        evidence.append((answered, "the server's first packet"))
        summary = f"{attempt.server} answered after {after}, and the QUIC handshake did not finish"
    else:
        summary = f"The QUIC handshake with {attempt.server} began and did not finish"
    waited = seconds(attempt.stalled_ns / NS)
    signs, advice = _signs(attempt), ADVICE
    if attempt.left(story.now_ns) and attempt.client_handshake is not None:
        silence = seconds((story.now_ns - attempt.last.time_ns) / NS)
        summary += (
            f": the client answered the server's part of it, in packets that are encrypted, and for {silence} after "
            "that neither of the two sent anything: one that waits would repeat itself"
        )
        evidence.append((attempt.client_handshake, "the client's last packet: a Handshake packet"))
        signs, advice = [], ADVICE_LEFT
    else:
        summary += f" in the {waited} seen after that ({initials(attempt)})"
    summary += f": {'; '.join(signs)}." if signs else "."
    if attempt.too_big is not None:
        evidence.append((attempt.too_big[0], "ICMP: too big"))
    return Finding(SLUG, severity_of_failure(story, attempt), summary, cut(evidence), advice, [attempt])


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="The QUIC handshake stalled",
    looks_for=(
        "An answer from the server, then no end of the handshake for a second or more: no 1-RTT packet from the "
        "client. Says which packets are missing, how large the largest answered datagram was, and whether the "
        "server had to wait for the client (anti-amplification). Or the client answered the server's part of it and "
        "both fell silent: one that does not accept the certificate ends it in a packet that is encrypted."
    ),
    advice=ADVICE,
    sources=(
        "RFC 9000, 8.1 and 14",
        "RFC 9001, 4.1.2",
        "RFC 9002, 6.2.2",
        "measured: Firefox 153 and curl 8.23 with an authority that they do not know",
    ),
    check=check,
)
