"""quic-closed: one side ended the connection before it could carry a request, and said why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import Finding, Rule, hellos, severity_of_failure
from h3probe.diagnose.words import close_text, cut, timer_of, timer_text
from h3probe.text import clean, seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.quic.frames import ConnectionClose

SLUG = "quic-closed"
ADVICE = "The code and the reason say what the side that sent them objects to; look there first."
ADVICE_LOST = (
    "The server's answer is in this capture, and the client never acknowledged it: it may be lost between here and the "
    "client, datagrams of its size above all."
)
ADVICE_IDLE = "The server gave up waiting: what the client sent next did not reach it, or what it sent did not arrive."
ADVICE_SLOW = "The server answered too late, or not completely: look at its load, and for loss on the way."
ADVICE_QUIET = "The server ended it without naming an error: its log says why."
ADVICE_APPLICATION = (
    "What HTTP/3 objects to may not be said during the handshake, this code stands for it (RFC 9000, 10.2.3): the log "
    "of the side that closed says why."
)
ADVICE_CANCELLED = "The client gave the attempt up without an error: nothing need be done, unless requests are missing."
NO_ERROR = 0x00
APPLICATION_ERROR = 0x0C
# A server that closes without an error after so long had an idle timer run out.
IDLE_S = 5.0
CRYPTO_ERROR = 0x100
NO_APPLICATION_PROTOCOL = 120
ADVICE_BY_ALERT = {
    120: "The server speaks none of the protocols that were offered over QUIC: enable HTTP/3 (ALPN h3) for this name.",
    112: "The server does not know this name over QUIC: configure its HTTP/3 listener for it.",
    40: "The two share no TLS 1.3 parameters: compare cipher suites and groups.",
    42: "The certificate is not acceptable to the side that sent the alert.",
    43: "The certificate is not acceptable to the side that sent the alert.",
    44: "The certificate has been revoked: renew it.",
    48: "The client does not trust the certificate's issuer: add that CA to the client's trust store.",
    45: "The certificate has expired, by the clock of the side that sent the alert: renew it, or set that clock.",
    46: "The certificate is not acceptable to the side that sent the alert; its log says why.",
    70: "QUIC needs TLS 1.3 (RFC 9001, 4.2): enable it on the side that sent the alert.",
    109: "Each side has to send its QUIC transport parameters in TLS (RFC 9001, 8.2): what ends QUIC there lacks them.",
    116: "The server asks for a client certificate.",
}
UNKNOWN_CA = 48
ADVICE_CLIENT_CERTIFICATE = (
    "The server does not trust the issuer of the client's certificate: add that CA to the server's."
)
ADVICE_BY_CODE = {
    0x02: "The server refuses new connections: look at its limits and its log.",
    0x0B: "The client's token (from a Retry or an earlier connection) was not accepted: several servers behind one "
    "address need a shared key for tokens.",
}


def check(story: Story) -> Iterator[Finding]:
    """Fire for each attempt that a readable CONNECTION_CLOSE ended."""
    for attempt in story.quic:
        if attempt.outcome(story.now_ns) == "closed" and attempt.close is not None:
            yield _finding(story, attempt)


def _alert(frame: ConnectionClose) -> int | None:
    """The TLS alert in a transport error code; HTTP/3 has other meanings for the same numbers."""
    if frame.application or not CRYPTO_ERROR <= frame.code < 2 * CRYPTO_ERROR:
        return None
    return frame.code - CRYPTO_ERROR


def _advice(frame: ConnectionClose, side: str) -> str:
    alert = _alert(frame)
    if alert == UNKNOWN_CA and side == "server":
        return ADVICE_CLIENT_CERTIFICATE
    if alert is not None:
        return ADVICE_BY_ALERT.get(alert, ADVICE)
    if frame.code == APPLICATION_ERROR and not frame.application and not frame.reason:
        return ADVICE_APPLICATION
    return ADVICE if frame.application else ADVICE_BY_CODE.get(frame.code, ADVICE)


def _finding(story: Story, attempt: QuicConnection) -> Finding:
    # A client that ends an answered attempt and a server that does: the server's word weighs more.
    if attempt.server_close is not None:
        (mark, frame), side = attempt.server_close, "server"
    elif attempt.client_close is not None:
        (mark, frame), side = attempt.client_close, "client"
    else:  # pragma: no cover - the outcome says that there is one
        raise AssertionError
    after_s = (mark.time_ns - attempt.first.time_ns) / NS
    after = seconds(after_s)
    summary = f"The {side} closed QUIC to {attempt.server} after {after}: {close_text(frame)}."
    severity, advice = severity_of_failure(story, attempt), _advice(frame, side)
    if side == "client":
        timer = timer_of(attempt, (mark.time_ns - attempt.first.time_ns) / NS)
        if timer is not None:
            summary += f" {timer_text(*timer)}: the handshake had begun and was not finished by then."
            advice = ADVICE_SLOW
        elif frame.code == NO_ERROR and not frame.application:
            # It says itself that nothing went wrong: a request was cancelled, or no longer needed.
            severity, advice = ("notice" if severity == "problem" else severity), ADVICE_CANCELLED
    elif frame.code == NO_ERROR and not frame.application:
        advice = ADVICE_IDLE if after_s >= IDLE_S else ADVICE_QUIET
    if side == "client" and _alert(frame) is None and attempt.first_answer is not None and not attempt.answer_acked:
        advice = ADVICE_LOST
    if "alpn" in frame.reason.lower():
        advice = ADVICE_BY_ALERT[NO_APPLICATION_PROTOCOL]
    if _alert(frame) == NO_APPLICATION_PROTOCOL and attempt.hello is not None:
        summary += f" The client offered {clean(', '.join(attempt.hello.alpn), 80) or 'no protocol'}."
    evidence = [*hellos(attempt, limit=1), (mark, f"CONNECTION_CLOSE from the {side}: {close_text(frame)}")]
    return Finding(SLUG, severity, summary, cut(evidence), advice, [attempt])


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="QUIC was closed during the handshake",
    looks_for=(
        "A CONNECTION_CLOSE in an Initial, whose keys are public: from the server, or from the client after the "
        "server had answered. A client that ends its own unanswered attempt does not count. Closes in later "
        "packets are encrypted and cannot be seen."
    ),
    advice=ADVICE,
    sources=("RFC 9000, 19.19 and 20", "RFC 9001, 4.8: CRYPTO_ERROR is 0x100 plus the TLS alert"),
    check=check,
)
