"""tls-failed: TCP connected, and TLS on it came to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import NOTICEABLE_S, Finding, Rule, episodes
from h3probe.diagnose.rules.quic_closed import ADVICE_BY_ALERT, NO_APPLICATION_PROTOCOL
from h3probe.diagnose.words import cut, is_dns, unasked
from h3probe.text import clean, seconds
from h3probe.track.clock import NS
from h3probe.track.tcp import OTHER_PROTOCOLS
from h3probe.wire.tls_names import alert_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.mark import Mark
    from h3probe.track.tcp import TcpConnection

SLUG = "tls-failed"
ADVICE = "The alert says what the side that sent it objects to; look there first."
ADVICE_CLIENT = (
    "A client that stops here most often does not accept the certificate: its issuer, its name or its dates. The "
    "client's own error says which; what it told the server is encrypted. Where TLS is intercepted on the way, the "
    "client must trust that CA."
)
ADVICE_WAITED = (
    "The server took the connection and had not answered TLS by then: look at its load, and at what is on the way, "
    "unless the client was just too early."
)
ADVICE_SERVER = (
    "The server, or something on the way in its name, ended TLS without a word: look at the server's log, and for a "
    "firewall that filters by name."
)
ADVICE_OVER_TCP = {
    **ADVICE_BY_ALERT,
    NO_APPLICATION_PROTOCOL: "The server speaks none of the protocols that were offered; h3 is one for QUIC alone.",
    112: "The server does not know this name: look at what it is configured for.",
}

# A client that looks at the certificate when TLS is ready does so at once.
AT_ONCE_NS = NS // 2


def check(story: Story) -> Iterator[Finding]:
    """Fire once for all TLS handshakes of an episode that one side ended in the same way.

    A handshake that ends without an alert in the clear may as well be an attempt that lost a race: it counts only where
    nothing else came to anything. What the proxy reports of a certificate that was refused is another rule's.
    """
    if story.rejected:
        return
    quic = any(q.established and not is_dns(q) for q in story.quic)
    over_tcp = [*story.tcp, *(carrier for carrier, tunnel in story.tunnels if tunnel.open)]
    worked = quic or bool(story.answered) or any(map(_worked, over_tcp))
    kinds: dict[tuple[str, str], list[TcpConnection]] = {}
    for tcp in over_tcp:
        what = _what(tcp) if _failed(story, tcp) else None
        if what is not None and not (worked and not _in_the_clear(tcp)):
            kinds.setdefault(what, []).append(tcp)
    for (words, advice), failed in kinds.items():
        for alike in episodes(failed):
            sure = not worked and any(map(_is_sure, alike))
            yield _finding(alike, words, advice, "problem" if sure else "notice")


def _failed(story: Story, tcp: TcpConnection) -> bool:
    if tcp.tls is None or tcp.hello is None or tcp.reported or tcp.server.port in OTHER_PROTOCOLS:
        return False
    if tcp.ready is None or tcp.ended is None:
        return tcp.outcome(story.now_ns) == "reset"
    # A connection that is made for what may come lives on for a while.
    return unasked(tcp) and tcp.ended[0].time_ns - tcp.ready.time_ns <= AT_ONCE_NS


def _is_sure(tcp: TcpConnection) -> bool:
    """Whether something failed: a client that just leaves may have changed its mind, unless it had waited for long."""
    if tcp.tls is None or tcp.tls.alert is not None or tcp.ended is None or tcp.ended[1] == "server":
        return True
    waited = tcp.ended[0].time_ns - tcp.first.time_ns >= NOTICEABLE_S * NS
    return waited and not _is_answered(tcp)


def _is_answered(tcp: TcpConnection) -> bool:
    """Whether the server's hello came before the end."""
    answer = tcp.tls.server_hello_mark if tcp.tls is not None else None
    return answer is not None and answer.time_ns <= _end(tcp)[0].time_ns


def _worked(tcp: TcpConnection) -> bool:
    return tcp.mid_stream or (tcp.ready is not None and not tcp.failed and not unasked(tcp))


def _in_the_clear(tcp: TcpConnection) -> bool:
    return tcp.tls is not None and tcp.tls.alert is not None and tcp.tls.alert[1] is not None


def _what(tcp: TcpConnection) -> tuple[str, str] | None:
    """Who ended it, how and when, and what to do about it; None where that is nobody's failure."""
    tls, ended = tcp.tls, tcp.ended
    if tls is None:
        return None
    if tls.alert is not None:
        side, code = tls.alert
        if code is not None:
            return f"the {side} sent the alert {alert_name(code)}", ADVICE_OVER_TCP.get(code, ADVICE)
        if side == "client":
            return f"the client ended it with an alert that is encrypted, {_phase(tcp)}", ADVICE_CLIENT
        return f"the server ended it with an alert that is encrypted, {_phase(tcp)}", ADVICE
    if ended is None:
        return None
    _, side = ended
    how = "RST" if tcp.ended_by_reset else "FIN"
    if side == "server":
        words = f"it was closed from the server's side ({how}), {_phase(tcp)}"
        return None if _is_answered(tcp) else (words, ADVICE_SERVER)
    return f"the client closed it ({how}), {_phase(tcp)}", ADVICE_CLIENT if _is_answered(tcp) else ADVICE_WAITED


def _phase(tcp: TcpConnection) -> str:
    if tcp.ready is not None:
        return "as soon as TLS was ready and before anything was asked"
    return "after the server's part of TLS" if _is_answered(tcp) else "before the server answered the ClientHello"


def _finding(failed: list[TcpConnection], words: str, advice: str, severity: Severity) -> Finding:
    first = failed[0]
    places = ", ".join(sorted({str(tcp.server) for tcp in failed}))
    times = "" if len(failed) == 1 else f", {len(failed)} times"
    after = seconds((_end(first)[0].time_ns - first.first.time_ns) / NS)
    summary = f"TLS over TCP to {places} came to nothing{times}, after {after}: {words}."
    if _in_the_clear(first) and first.tls is not None and first.tls.alert == ("server", NO_APPLICATION_PROTOCOL):
        offered = clean(", ".join(first.hello.alpn), 80) if first.hello is not None else ""
        summary += f" The client offered {offered or 'no protocol'}."
    evidence: list[tuple[Mark, str]] = []
    for tcp in failed:
        if tcp.tls is not None and tcp.tls.hello_mark is not None:
            evidence.append((tcp.tls.hello_mark, "ClientHello"))
        evidence.append(_end(tcp))
    return Finding(SLUG, severity, summary, cut(evidence), advice, list(failed))


def _end(tcp: TcpConnection) -> tuple[Mark, str]:
    """The alert, or else the end of the connection."""
    if tcp.tls is not None and tcp.tls.alert_mark is not None:
        return tcp.tls.alert_mark, "the alert"
    if tcp.ended is None:  # pragma: no cover - there is no other end
        return tcp.last, "its last packet"
    mark, side = tcp.ended
    return mark, f"closed by the {side}"


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="TLS over TCP came to nothing",
    looks_for=(
        "A TCP connection with a ClientHello that ended before TLS was ready, or that the client closed as soon as it "
        "was, before anything was asked: with an alert in the clear; or, where nothing else worked, with one that is "
        "encrypted or with none. A client that does not accept a certificate looks so; one that leaves without an "
        "alert may also have changed its mind: that is no problem, unless it had waited a second for the server's "
        "answer. A connection of which packets are missing does not count."
    ),
    advice=ADVICE_CLIENT,
    sources=(
        "RFC 8446, 6",
        "measured: curl 8.23, Go, Node 24, wget, wget2, JDK 21 and Firefox 153 with an authority that they do not know",
    ),
    check_whole=check,
)
