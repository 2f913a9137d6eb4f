"""Parts of sentences that several rules and the verdict share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.rule import NOTICEABLE_S, lasted
from h3probe.text import clean, count, seconds
from h3probe.track.clock import NS
from h3probe.wire.quic.errors import error_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.diagnose.clients import Timer
    from h3probe.diagnose.story import Story
    from h3probe.records import KnownFrom
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection
    from h3probe.track.tunnel import Tunnel
    from h3probe.wire.quic.frames import ConnectionClose

# Without ALPN nothing beyond HTTP/1.1 can be meant, and it need not be HTTP.
NO_ALPN = "TLS without ALPN (HTTP/1.1, if it is HTTP)"

PROXY_ANSWERS = {
    403: "the proxy does not allow it",
    407: "the proxy asks for credentials",
    500: "the proxy failed",
    502: "the proxy could not reach it",
    503: "the proxy, or the server behind it, is not available",
    504: "the proxy got no answer from it",
}

WITNESSES: dict[KnownFrom, str] = {
    "proxy": "seen at the proxy",
    "client-log": "by the client's own log",
    "decrypted": "as the decrypted traffic shows",
}

# A TLS 1.3 client's first bytes after its Finished: below this there is no room for the 24-byte HTTP/2
# preface and a SETTINGS frame, nor for an HTTP/1.1 request.
SMALLEST_REQUEST = 40

# So often, and for so long, a client sends nothing without an answer that it does not need one to.
CUT_OFF_TRIES = 3
CUT_OFF_NS = 2 * NS

AT_ONCE = "from the first request"
TOO_LITTLE = "too little followed to tell whether a request was answered"
"""What a verdict on HTTP/3 says, and what it says instead where it is not sure; `diff` looks for both."""


# Two waits that differ by less, as a share of the longer one, are told as one.
ALIKE = 0.02


def initials(*attempts: QuicConnection) -> str:
    """`5 Initials over 15.0 s`; of several attempts `4 attempts, 2 to 5 Initials over 30.0 s each`."""
    sent = [attempt.initials_sent or attempt.cut for attempt in attempts]
    least, most = min(sent), max(sent)
    text = count(most, "Initial") if least == most else f"{least:,} to {count(most, 'Initial')}"
    spans = [lasted(attempt) for attempt in attempts]
    if max(spans) > 0:
        text += f" over {' to '.join(map(seconds, _bounds(spans)))}"
    return text if len(attempts) == 1 else f"{count(len(attempts), 'attempt')}, {text} each"


def _bounds(waits: list[float]) -> list[float]:
    """The shortest and the longest wait, or the longest alone where they are much the same."""
    shortest, longest = min(waits), max(waits)
    return [longest] if longest - shortest <= ALIKE * longest else [shortest, longest]


def close_text(frame: ConnectionClose) -> str:
    """`CRYPTO_ERROR: no_application_protocol (0x178)`, with the reason where one was given."""
    name = error_name(frame.code, application=frame.application)
    text = f"{name} (0x{frame.code:x})" if name else f"error 0x{frame.code:x}"
    return f"{text}, “{clean(frame.reason, 120)}”" if frame.reason else text


def waited_until_close(attempt: QuicConnection) -> float | None:
    """Seconds from an attempt's first packet to its client's own close."""
    if attempt.client_close is None:
        return None
    return (attempt.client_close[0].time_ns - attempt.first.time_ns) / NS


def cut_off(story: Story, attempt: QuicConnection) -> str | None:
    """Say in a clause for how long a client of an established connection got no answer any more; None where it did."""
    tried, latest = attempt.tried, attempt.last_client
    if story.lossy or tried is None or latest is None or not attempt.established or attempt.server_short is None:
        return None
    silent_ns = latest.time_ns - tried.time_ns
    if attempt.tries < CUT_OFF_TRIES or silent_ns < CUT_OFF_NS or attempt.refusals or attempt.ended is not None:
        return None
    return f"the client tried {count(attempt.tries, 'time')} over {seconds(silent_ns / NS)}"


def answered_elsewhere(attempt: QuicConnection) -> str | None:
    """Say in a clause that an attempt was answered from where it did not go alone; None where it was not."""
    if attempt.elsewhere is None or attempt.answered:
        return None
    return f"QUIC was answered from {attempt.elsewhere[1]} alone, which was not asked"


def timer_of(attempt: QuicConnection, waited: float) -> tuple[str, Timer] | None:
    """Return the client's name and the timer that ended an attempt, when both are known."""
    client = recognise(attempt)
    if client is None:
        return None
    reason = attempt.client_close[1].reason if attempt.client_close is not None else None
    timer = client.timer_for(waited, reason)
    return None if timer is None else (client.name, timer)


def timer_text(name: str, timer: Timer) -> str:
    """`JDK 26 HttpClient: its 2750 ms direct timer, `-D…``."""
    return ", ".join([f"{name}: {timer.waits}", *([timer.changed_by] if timer.changed_by else [])])


def gave_up(attempts: list[QuicConnection]) -> str | None:
    """`2.75 s (JDK 26 …: its 2750 ms timer) and 30.0 s (…)`: after what the client closed, each timer once."""
    waits: dict[str, list[float]] = {}
    for attempt in attempts:
        waited = waited_until_close(attempt)
        if waited is not None:
            timer = timer_of(attempt, waited)
            waits.setdefault(f" ({timer_text(*timer)})" if timer else "", []).append(waited)
    said = [f"{' to '.join(map(seconds, _bounds(found)))}{timer}" for timer, found in waits.items()]
    return " and ".join(said) or None


def http_over_tcp(connection: TcpConnection) -> str:
    """What HTTP a TCP connection can have carried, as far as its handshake tells."""
    hello = connection.hello
    tls = connection.tls
    if hello is None or tls is None:
        return "HTTP/2" if connection.preface else "HTTP/1.1" if connection.http else "TCP"
    if tls.server_hello is not None and not tls.server_hello.is_tls13:
        chosen = tls.server_hello.alpn
        names = {"h2": "HTTP/2", "http/1.1": "HTTP/1.1", None: NO_ALPN}
        return names.get(chosen, f"TCP ({clean(chosen or '', 20)})")
    web = [p for p in hello.alpn if p in ("h2", "http/1.1")]
    if not hello.alpn:
        return NO_ALPN
    if web == ["http/1.1"]:
        return "HTTP/1.1"
    if web == ["h2"]:
        return "HTTP/2"
    if web:
        return "HTTP/2 or HTTP/1.1"
    return f"TCP ({clean(', '.join(hello.alpn), 40)})"


def over_tcp(connections: Sequence[TcpConnection]) -> str:
    """The same of several connections: each version once, in their order, with how many are of it if there are two."""
    names = Counter(map(http_over_tcp, connections))
    if len(names) == 1:
        return next(iter(names))
    *parts, last = (f"{name} on {count(number, 'connection')}" for name, number in names.items())
    return f"{', '.join(parts)} and {last}"


def proxy_asked(carrier: TcpConnection, tunnel: Tunnel) -> str:
    """The proxy that decides about a tunnel: the one that was asked, or the one behind it."""
    if not tunnel.by_upstream and tunnel.upstream is None:
        return f"the proxy {carrier.server}"
    named = "" if tunnel.upstream is None else f" {tunnel.upstream}"
    return f"the proxy{named} behind {carrier.server}"


def left_early(carrier: TcpConnection, tunnel: Tunnel) -> float | None:
    """Seconds after which a client left that had asked for a tunnel, where no proxy can be blamed for them."""
    if carrier.ended is None or carrier.ended[1] != "client" or tunnel.reported:
        return None
    waited = (carrier.ended[0].time_ns - tunnel.asked.time_ns) / NS
    return waited if waited <= NOTICEABLE_S else None


def upstream_failure(carrier: TcpConnection, tunnel: Tunnel) -> str | None:
    """What the proxy behind the one asked did in place of an answer, as a clause; None where it did answer."""
    who = proxy_asked(carrier, tunnel)
    match tunnel.trouble:
        case "unreachable":
            why = f": {clean(tunnel.error, 160)}" if tunnel.error else ""
            return f"{who} cannot be reached{why}"
        case "silent":
            return f"{who} closed the connection without an answer to {tunnel.method} {tunnel.target}"
        case "garbage":
            return f"{who} answered {tunnel.method} {tunnel.target} with something that is no HTTP"
        case _:
            return None


def no_quic(story: Story) -> str:
    """What can be said of QUIC where none was seen to be the client's."""
    if story.vantage == "wire" and story.unowned_quic:
        others = count(len(story.unowned_quic), "QUIC connection")
        return f"no QUIC packet is known to be this client's (the owner of {others} on this host is not known)"
    if story.vantage == "wire" and (story.others_quic or story.strangers_quic):
        return f"this client sent no QUIC packet{story.as_far_as}"
    if story.vantage == "wire":
        return f"no QUIC packet left this host{story.as_far_as}"
    return f"whether QUIC left past the {story.vantage} is not seen without sniffing"


def used_version(story: Story, *connections: TcpConnection) -> str:
    """The version that the proxy saw, else what the handshakes tell."""
    seen = [v for v in story.versions or () if v != "HTTP/3"]
    return " and ".join(seen) if seen else over_tcp(connections)


def is_h3(attempt: QuicConnection) -> bool:
    """Whether HTTP/3, and nothing else, was offered."""
    return (
        attempt.hello is not None
        and bool(attempt.hello.alpn)
        and all(p == "h3" or p.startswith("h3-") for p in attempt.hello.alpn)
    )


def is_dns(attempt: QuicConnection) -> bool:
    """Whether it is DNS over QUIC, which is nobody's HTTP/3."""
    protocols = attempt.hello.alpn if attempt.hello is not None else ()
    return bool(protocols) and all(p.startswith("doq") for p in protocols)


def past_proxy(story: Story) -> list[QuicConnection]:
    """The QUIC connections that carried nobody knows what beside the exchanges that the proxy saw."""
    if not story.exchanges or story.exchanges[0].known_from != "proxy":
        return []
    return [q for q in story.quic if q.established and not q.exchanged and not is_dns(q)]


def unread(story: Story) -> list[Connection]:
    """The connections that carried nobody knows what beside the exchanges that were decrypted: no secret opens them."""
    if not story.exchanges or story.exchanges[0].known_from != "decrypted":
        return []
    carriers = {exchange.connection for exchange in story.exchanges}
    beside: list[Connection] = [q for q in story.quic if (q.established or q.mid_stream) and not is_dns(q)]
    beside += [t for t in story.tcp if may_carry(t)]
    return [c for c in beside if c.missed or not (c.laid_open or c.id in carriers)]


def may_carry(connection: TcpConnection) -> bool:
    """Whether a TCP connection may have carried an exchange: settings alone look much like a request."""
    if connection.failed:
        return False
    if connection.mid_stream or connection.inner:
        return True
    if connection.hello is None or connection.torn:
        return connection.client_stream.bytes_seen > 0
    return connection.request_bytes >= SMALLEST_REQUEST and connection.response_bytes > 0


def unasked(connection: TcpConnection) -> bool:
    """Whether a TCP connection is known to have been closed with nothing asked on it, though it was ready."""
    hello = connection.hello
    if hello is None or connection.ready is None or connection.ended is None or hello.early_data:
        return False
    whole = not (connection.torn or connection.mid_stream or connection.inner or connection.reported)
    return whole and connection.request_bytes < SMALLEST_REQUEST


def cut(evidence: list[tuple[Mark, str]], limit: int = 12) -> list[tuple[Mark, str]]:
    """The first rows and the last one, in order of time."""
    rows = sorted(evidence, key=lambda row: row[0].time_ns)
    return rows if len(rows) <= limit else [*rows[: limit - 1], rows[-1]]
