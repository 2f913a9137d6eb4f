"""Clauses that several verdicts share: how QUIC ended, and what TCP did beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.surroundings import PORTS
from h3probe.diagnose.verdict.tcp_ended import tcp_ended
from h3probe.diagnose.words import answered_elsewhere, close_text, cut_off, initials, is_h3, unasked
from h3probe.text import clean, seconds
from h3probe.track.clock import NS
from h3probe.wire.quic.versions import is_reserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.diagnose.story import Story
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tracker import Connection

NO_TCP = "no TCP was seen"
NO_CONNECTION = frozenset({"reset", "refused", "unanswered"})

IN_THE_CLEAR = "That is http://, in the clear; HTTP/3 needs https://."


def http_over_quic(attempt: QuicConnection) -> str:
    """Name what a QUIC connection is for, as far as its handshake tells."""
    if is_h3(attempt):
        return "HTTP/3"
    offered = clean(", ".join(attempt.hello.alpn), 40) if attempt.hello is not None else ""
    return f"QUIC ({offered})" if offered else "QUIC"


def ready_after(attempt: QuicConnection) -> str:
    """Say how long QUIC took; empty where it did not get ready."""
    if attempt.ready is None:
        return ""
    return f", ready after {seconds((attempt.ready.time_ns - attempt.first.time_ns) / NS)}"


def quic_ended(story: Story, attempt: QuicConnection) -> str:
    """Say in a clause how a QUIC attempt ended."""
    if not attempt.decodable and (attempt.version_negotiation is None or is_reserved(attempt.version)):
        return _undecoded(attempt)
    if attempt.client_close is not None and not (attempt.initials_sent or attempt.answered or attempt.mid_stream):
        return "the client gave QUIC up with its first packet"
    match attempt.outcome(story.now_ns):
        case "unanswered":
            return answered_elsewhere(attempt) or f"QUIC was not answered ({initials(attempt)})"
        case "refused":
            _, error = attempt.refusals[0]
            return f"QUIC was refused (ICMP {error.meaning})"
        case "stalled":
            return "the QUIC handshake was answered and did not finish"
        case "closed":
            return _closed(attempt)
        case "version-negotiation":
            return f"the server does not speak QUIC {attempt.version_name}"
        case "mid-stream":
            return "QUIC was already under way when it was first seen"
        case "established":
            return "QUIC was established"
        case _:
            return "QUIC had got no answer when the client went on" if not attempt.answered else "QUIC was not ready"


def _closed(attempt: QuicConnection) -> str:
    close = attempt.server_close or attempt.client_close
    return f"QUIC was closed in its handshake ({close_text(close[1])})" if close else "QUIC was closed"


def _undecoded(attempt: QuicConnection) -> str:
    """The same of a version that is not read; one that nobody speaks (RFC 9000, 15) is good for a question alone."""
    if not is_reserved(attempt.version):
        return f"QUIC was sent in a version that cannot be read ({attempt.version_name})"
    end = "no more" if attempt.version_negotiation is not None else "and got no answer that is seen"
    return f"with QUIC the client asked for the server's versions, {end}"


def quic_broke_off(story: Story, quic: QuicConnection) -> str:
    """A sentence about an ICMP error or a moment after which nothing came any more of a server that had answered."""
    ready = quic.ready
    if ready is None:
        return ""
    silence = cut_off(story, quic)
    if silence is not None and quic.tried is not None:
        after = seconds((quic.tried.time_ns - ready.time_ns) / NS)
        return f" QUIC fell silent {after} after it was ready: {silence} in vain."
    errors = [(mark, error) for mark, error in quic.refusals if mark.time_ns > ready.time_ns]
    if not errors or (quic.last_server is not None and quic.last_server.time_ns > errors[0][0].time_ns):
        return ""
    mark, error = errors[0]
    after = seconds((mark.time_ns - ready.time_ns) / NS)
    return f" QUIC was refused {after} after it was ready (ICMP {error.meaning})."


def quic_tries(story: Story) -> str:
    """Say how a story's QUIC attempts failed, one after the other."""
    first, *rest = story.quic
    repeats = [q for q in rest if q.server == first.server]
    if not repeats:
        return quic_ended(story, first)
    end = (repeats[-1].last_client or repeats[-1].last).time_ns
    total = seconds((end - first.first.time_ns) / NS)
    return f"{quic_ended(story, first)}, {len(repeats) + 1} attempts one after the other, {total} seen in all"


def unreadable(attempt: QuicConnection) -> bool:
    """Whether an attempt's version is one of which nothing can be read, and that may have carried something."""
    return not attempt.decodable and attempt.version_negotiation is None and not is_reserved(attempt.version)


def some_ports(ports: Sequence[int]) -> str:
    """`80, 8080`; of many the first, `and others`."""
    others = " and others" if len(ports) > PORTS else ""
    return ", ".join(map(str, ports[:PORTS])) + others


def tcp_beside(story: Story) -> str:
    """Say in a clause what TCP did of which none became ready."""
    if not story.tcp and story.mixed:
        return "which TCP connections are this client's cannot be told"
    if story.tcp_before or any(t.mid_stream for t in story.tcp):
        return "a TCP connection from before the capture may have carried requests too"
    if not story.tcp and story.tcp_named:
        return "TCP to the same address is for names, which no QUIC packet tells here"
    if not story.tcp and story.tcp_elsewhere:
        ports = some_ports(sorted({t.server.port for t in story.tcp_elsewhere}))
        return f"TCP for the same name went to port {ports}"
    if not story.tcp and story.across:
        used = " and ".join(dict.fromkeys("QUIC" if c.transport == "quic" else "TCP" for c in story.across))
        return f"{used} for the same name left {story.across[0].client.address}, which may be the same host's"
    if not story.tcp:
        return NO_TCP
    if any(map(is_cut, story.tcp)):
        return "what became of TCP is not in the capture"
    if any(map(unasked, story.tcp)):
        return "TCP was closed with nothing asked on it"
    return tcp_ended(story) or "TCP did not get ready"


def is_cut(connection: Connection) -> bool:
    """Whether TCP connected, and what the capture lacks of it leaves open whether it got ready."""
    if connection.transport == "quic" or connection.connected is None or connection.reported:
        return False
    return connection.torn and connection.ready is None


def error_of(story: Story) -> str:
    """Give the reason why the first exchange failed, as whoever saw it put it."""
    return clean(story.exchanges[0].error or "no reason known", 160).removesuffix(".")


def opening(text: str) -> str:
    """A clause as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
