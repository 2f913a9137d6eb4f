"""The verdict: one sentence for an origin and a client, what carried its requests and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.fallback import wait_of
from h3probe.diagnose.words import (
    AT_ONCE,
    PROXY_ANSWERS,
    TOO_LITTLE,
    WITNESSES,
    close_text,
    http_over_tcp,
    initials,
    is_dns,
    is_h3,
    no_quic,
    past_proxy,
    proxy_asked,
    upstream_failure,
    used_version,
)
from h3probe.text import clean, count, seconds
from h3probe.track.clock import NS
from h3probe.track.tcp_tracker import OTHER_PROTOCOLS

if TYPE_CHECKING:
    from h3probe.diagnose.fallback import Wait
    from h3probe.diagnose.race import Race
    from h3probe.diagnose.story import Seen, Story
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection
    from h3probe.track.tunnel import Tunnel


NO_CONNECTION = frozenset({"reset", "refused", "unanswered"})

# Interception changes what it observes; a verdict that rests on it says so.
INTERCEPTED = "TLS was intercepted to see this, which by itself keeps Chromium and Firefox from HTTP/3."
INTERCEPTED_TCP = "TLS over TCP was intercepted to see this, QUIC was not; by itself that keeps Firefox from HTTP/3."


IN_THE_CLEAR = "That is http://, in the clear; HTTP/3 needs https://."

# Different errors that a sentence can hold.
ERRORS_SAID = 2


def deserves_verdict(story: Story) -> bool:
    """Whether a story is about HTTP at all, and the client's own."""
    if story.relayed:
        return False
    if story.tunnels or story.in_the_clear:
        return True
    if any(not is_dns(q) for q in story.quic):
        return True
    web = [t for t in story.tcp if t.server.port not in OTHER_PROTOCOLS]
    return any(t.hello is not None or t.refused for t in web)


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
        return _through_proxy(story)
    seen = _witnessed(story)
    return _from_the_wire(story) if seen is None else seen


def _from_the_wire(story: Story) -> str:
    """What packets alone tell."""
    quic = [q for q in story.quic if q.established and not q.mid_stream]
    tcp = [t for t in story.tcp if t.ready is not None and not t.failed]
    if story.crowded and story.tcp:
        return "Several QUIC attempts ran at once; which TCP connection belongs to which of them cannot be told."
    if story.races and (quic or tcp) and _begins_with(story, story.races[0]):
        return _raced(story, story.races[0]) + _then(story)
    if quic and tcp:
        return _both(quic[0], tcp[0]) + _then(story)
    if quic:
        return _quic_alone(story, quic[0])
    if tcp:
        return _tcp_alone(story, tcp[0])
    return _nothing(story)


def _witnessed(story: Story) -> str | None:
    """What a proxy's report, or the client's own log, settles by itself, of requests that no tunnel hides."""
    if story.answered:
        if story.in_the_clear:
            return f"{_exchanged(story)}{_refusals(story)} {IN_THE_CLEAR}"
        return _exchanged(story) + _then(story)
    if story.exchanges:
        return _no_response(story) if story.exchanges[0].known_from == "proxy" else _unanswered(story)
    if len(story.rejected) >= len(story.connections):
        return "No request: the client does not take the proxy's certificate."
    return None


def _begins_with(story: Story, race: Race) -> bool:
    """Whether nothing that carried something came before a race."""
    began_ns = min(race.quic.first.time_ns, race.tcp.first.time_ns)
    ready = [q.ready for q in story.quic] + [t.ready for t in story.tcp]
    return not any(mark is not None and mark.time_ns < began_ns for mark in ready)


def _exchanged(story: Story) -> str:
    """What is known of each exchange, and whether there may have been more past it."""
    over, rest = "", ""
    if past_proxy(story):
        over, rest = " over TCP", " QUIC went past the proxy: what it carried is not counted."
    return _seen(story, over) + rest + _ready_not_carried(story)


def _seen(story: Story, over: str) -> str:
    first, *later = [clean(e.version or "HTTP", 16) for e in story.answered]
    failed = story.unanswered
    without = f"; {count(len(failed), 'request')} got no response{_said(failed)}" if failed else ""
    where = WITNESSES[story.exchanges[0].known_from]
    if story.astray and story.exchanges[0].known_from == "client-log":
        counts = Counter([first, *later]).items()
        some = " and ".join(f"{version} for {count(number, 'request')}" for version, number in counts)
        return f"{some}{over}, {where}{without}; it tells of further ones, which lead to no connection seen here."
    if not later:
        answered = " that was answered" if without else ""
        return f"{first} for the one request{over}{answered}, {where}{without}."
    if set(later) == {first}:
        answered = " that were answered" if without else ""
        both = "both" if len(later) == 1 else f"all {len(later) + 1}"
        return f"{first} for {both} requests{over}{answered}, {where}{without}."
    rest = " and ".join(f"{version} for {number}" for version, number in Counter(later).items())
    return f"{first} for the first request{over}, then {rest}, {where}{without}."


def _said(failed: list[Seen]) -> str:
    """What the client itself says of requests that failed, where it is the one who tells."""
    words = dict.fromkeys(clean(e.error, 120) for e in failed if e.error and e.known_from == "client-log")
    if not words:
        return ""
    return f" ({'; '.join([*words][:ERRORS_SAID])}{'; …' if len(words) > ERRORS_SAID else ''})"


def _ready_not_carried(story: Story) -> str:
    """Say so where the first request went over the one that was ready later."""
    race = next(iter(story.races), None)
    if race is None or race.carried is None or race.ready_margin is None or race.first_ready == race.carried:
        return ""
    ahead, behind = ("QUIC", "TCP") if race.first_ready == "quic" else ("TCP", "QUIC")
    return (
        f" {ahead} was ready {seconds(race.ready_margin)} before {behind} and did not carry the first request: the "
        "client lost that race, not the network."
    )


def _refusals(story: Story) -> str:
    """That nothing but errors came, of which a proxy's look like a server's."""
    statuses = [e.status for e in story.exchanges if e.status is not None]
    if min(statuses) < 400:
        return ""
    named = " and ".join(map(str, dict.fromkeys(statuses)))
    return f" The answer was {named}, the server's or that of a proxy before it."


def _no_response(story: Story) -> str:
    """What became of exchanges of which none was answered."""
    asked = "to the one request" if len(story.exchanges) == 1 else f"to any of {len(story.exchanges)} requests"
    why = _error_of(story)
    if story.unreached:
        why = f"it could not connect to {clean(story.unreached[0].target, 300)} ({story.unreached[0].error})"
    return f"No response {asked}, seen at the proxy: {why}."


def _unanswered(story: Story) -> str:
    """The same by the word of whoever else tells: what the wire shows comes first."""
    failed = story.unanswered
    where = WITNESSES[failed[0].known_from]
    return f"{_from_the_wire(story)} No response to {count(len(failed), 'request')}, {where}{_said(failed)}."


def _error_of(story: Story) -> str:
    return clean(story.exchanges[0].error or "no reason known", 160).removesuffix(".")


def _waits(story: Story) -> list[Wait]:
    """What was waited for before a request went on over TCP."""
    return [wait for wait in (wait_of(story, attempt) for attempt in story.quic) if wait is not None]


def later_wait(story: Story) -> tuple[float, str] | None:
    """Return the longest wait for QUIC before a fallback, in seconds, and a sentence about it."""
    waits = _waits(story)
    if not waits:
        return None
    wait = max(waits, key=lambda wait: wait.seconds)
    attempt, began_ns = wait.attempt, wait.attempt.first.time_ns
    before = [q for q in story.quic if q.server == attempt.server and q.ready and q.ready.time_ns < began_ns]
    what = "for QUIC, which had worked before," if before else "for QUIC"
    which = "The first request" if began_ns == story.begins_ns else "A later request"
    if wait.request is not None and wait.request > 1:
        which = f"Request {wait.request}"
    why = f"{seconds(wait.seconds)} {what} before it fell back to TCP: {_why(story, attempt)}"
    return wait.seconds, f" {which} waited {why}."


def _then(story: Story) -> str:
    wait = later_wait(story)
    return "" if wait is None else wait[1]


def _quic_name(attempt: QuicConnection) -> str:
    if is_h3(attempt):
        return "HTTP/3"
    offered = clean(", ".join(attempt.hello.alpn), 40) if attempt.hello is not None else ""
    return f"QUIC ({offered})" if offered else "QUIC"


def _ready_after(attempt: QuicConnection) -> str:
    if attempt.ready is None:
        return ""
    return f", ready after {seconds((attempt.ready.time_ns - attempt.first.time_ns) / NS)}"


def _quic_alone(story: Story, first: QuicConnection) -> str:
    others = [q for q in story.quic if q is not first and story.failed(q) and q.first.time_ns <= first.first.time_ns]
    name, beside = _quic_name(first), _tcp_beside(story)
    if others:
        before = f"{_why(story, others[0])} at {others[0].server} before it"
        return f"{name}{_ready_after(first)}; {before}. {_clause(beside)}."
    worked = [q for q in story.quic if q.established]
    unknown = story.tcp_before or story.tcp_named or any(c.mid_stream or _is_cut(c) for c in story.connections)
    if unknown or not first.talked:
        many = f", one of {len(worked)} connections" if len(worked) > 1 else ""
        little = "" if first.talked else f"; {TOO_LITTLE}"
        return f"{name}{_ready_after(first)}{many}{little}; {beside}."
    return f"{name} {AT_ONCE}{_ready_after(first)}; {beside}."


def _is_cut(connection: Connection) -> bool:
    """Whether TCP connected, and what the capture lacks of it leaves open whether it got ready."""
    if connection.transport == "quic" or connection.connected is None or connection.reported:
        return False
    return connection.torn and connection.ready is None


def _tcp_beside(story: Story) -> str:
    """Say in a clause what TCP did of which none became ready."""
    if not story.tcp and story.mixed:
        return "which TCP connections are this client's cannot be told"
    if story.tcp_before or any(t.mid_stream for t in story.tcp):
        return "a TCP connection from before the capture may have carried requests too"
    if not story.tcp and story.tcp_named:
        return "TCP to the same address is for names, which no QUIC packet tells here"
    if not story.tcp:
        return "no TCP was seen"
    if any(map(_is_cut, story.tcp)):
        return "what became of TCP is not in the capture"
    return "TCP was refused" if all(t.refused for t in story.tcp) else "TCP did not get ready"


def _tcp_alone(story: Story, tcp: TcpConnection) -> str:
    name = http_over_tcp(tcp)
    if not story.quic and story.other_ports:
        ports = ", ".join(map(str, story.other_ports))
        elsewhere = f"QUIC for the same name went to port {ports}"
        return f"{name}: no QUIC packet was sent to this port{story.as_far_as}; {elsewhere}."
    if not story.quic and (story.host_quic.unnamed_to(tcp.server) or story.unowned_quic.unnamed_to(tcp.server)):
        return f"{name}: no QUIC packet names this origin; QUIC to the same address that names none may be its own."
    if not story.quic and story.mixed:
        return f"{name}; whether this client sent QUIC too cannot be told from that of others."
    if not story.quic and story.vantage == "relay":
        return f"{name}: no QUIC came through the relay; an Alt-Svc that names the server's own port leads past it."
    if not story.quic:
        return f"{name}: no QUIC packet was sent to this origin{story.as_far_as}."
    waits = sorted(_waits(story), key=lambda wait: wait.attempt.first.time_ns)
    if waits:
        attempt, wait = waits[0].attempt, waits[0].seconds
        longest = later_wait(story)
        if attempt.first.time_ns > tcp.first.time_ns:
            return f"{name} for the first request.{longest[1] if longest else ''}"
        text = f"{name}, not HTTP/3, after {seconds(wait)} of waiting for QUIC: {_why(story, attempt)}."
        return text + (longest[1] if longest is not None and longest[0] > wait else "")
    unknown = [q for q in story.quic if q.mid_stream or _unreadable(q)]
    if unknown:
        return f"{name}; {_why(story, unknown[0])}: what that carried cannot be told."
    return f"{name}, not HTTP/3: {_why(story, story.quic[0])}."


def _unreadable(attempt: QuicConnection) -> bool:
    """Whether an attempt's version is one of which nothing can be read."""
    return not attempt.decodable and attempt.version_negotiation is None


def _clause(text: str) -> str:
    """A clause as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def _tries(story: Story) -> str:
    """Say how a story's QUIC attempts failed, one after the other."""
    first, *rest = story.quic
    repeats = [q for q in rest if q.server == first.server]
    if not repeats:
        return _why(story, first)
    end = (repeats[-1].last_client or repeats[-1].last).time_ns
    total = seconds((end - first.first.time_ns) / NS)
    return f"{_why(story, first)}, {len(repeats) + 1} attempts one after the other, {total} seen in all"


def _why(story: Story, attempt: QuicConnection) -> str:
    """Say in a clause how a QUIC attempt ended."""
    if _unreadable(attempt):
        return f"QUIC was sent in a version that cannot be read ({attempt.version_name})"
    if attempt.client_close is not None and not (attempt.initials_sent or attempt.answered or attempt.mid_stream):
        return "the client gave QUIC up with its first packet"
    match attempt.outcome(story.now_ns):
        case "unanswered":
            return f"QUIC was not answered ({initials(attempt)})"
        case "refused":
            _, error = attempt.refusals[0]
            return f"QUIC was refused (ICMP {error.meaning})"
        case "stalled":
            return "the QUIC handshake was answered and did not finish"
        case "closed":
            close = attempt.server_close or attempt.client_close
            return f"QUIC was closed in its handshake ({close_text(close[1])})" if close else "QUIC was closed"
        case "version-negotiation":
            return f"the server does not speak QUIC {attempt.version_name}"
        case "mid-stream":
            return "QUIC was already under way when the capture began"
        case "established":
            return "QUIC was established"
        case _:
            return "QUIC had got no answer when the client went on" if not attempt.answered else "QUIC was not ready"


def _raced(story: Story, race: Race) -> str:
    tcp_name, quic_name = http_over_tcp(race.tcp), _quic_name(race.quic)
    if race.carried == "tcp":
        text = f"{tcp_name} won the race: {_why(story, race.quic)}."
    elif race.carried == "quic":
        text = f"{quic_name} won the race against TCP{_ready_after(race.quic)}."
    elif race.first_ready is not None and race.ready_margin is not None:
        ahead, behind = ("QUIC", "TCP") if race.first_ready == "quic" else ("TCP", "QUIC")
        text = (
            f"QUIC and TCP raced: {ahead} was ready {seconds(race.ready_margin)} before {behind}. Both could carry the "
            "first request, and which one did is encrypted; the client's own log settles it."
        )
    else:
        text = f"QUIC and TCP raced: {_why(story, race.quic)}; what carried the first request cannot be told."
    return text


def _both(quic: QuicConnection, tcp: TcpConnection) -> str:
    tcp_name, quic_name = http_over_tcp(tcp), _quic_name(quic)
    ready_ns = tcp.ready.time_ns if tcp.ready is not None else tcp.first.time_ns
    if quic.first.time_ns >= ready_ns:
        gap = seconds((quic.first.time_ns - ready_ns) / NS)
        took = f" and was ready {seconds((quic.ready.time_ns - quic.first.time_ns) / NS)} later" if quic.ready else ""
        began = f"QUIC began {gap} after TCP was ready{took}"
        client, ended = recognise(quic), tcp.ended
        if client is not None and client.opens_unused and (ended is None or ended[0].time_ns > quic.first.time_ns):
            return (
                f"{tcp_name} first, and {quic_name} beside it: {began}. {client.name} opens such a connection whether "
                "or not a request goes over it; its own log tells."
            )
        return f"{tcp_name} first, then {quic_name}: {began}."
    if tcp.first.time_ns >= (quic.ready or quic.first).time_ns:
        gap = seconds((tcp.first.time_ns - (quic.ready or quic.first).time_ns) / NS)
        return f"{quic_name} first{_ready_after(quic)}; TCP ({tcp_name}) began {gap} after that."
    return f"Both {quic_name} and {tcp_name} were ready; which one carried which request is encrypted."


def _nothing(story: Story) -> str:
    if story.unreached:
        leg = story.unreached[0]
        return f"No connection: the proxy could not connect to {clean(leg.target, 300)} ({leg.error})."
    if all(c.first.frame is None for c in story.connections):
        return _passed_through(story)
    if story.quic and any(t.mid_stream for t in story.tcp):
        return f"{_clause(_why(story, story.quic[0]))}; a TCP connection from before the capture may carry requests."
    outcomes = {t.outcome(story.now_ns) for t in story.tcp}
    if story.quic and story.tcp:
        if not all(story.failed(q) for q in story.quic) or not outcomes <= NO_CONNECTION:
            return "What became of QUIC and TCP is not in the capture."
        return f"No connection: {_why(story, story.quic[0])}, and {_tcp_beside(story)}."
    if story.quic:
        return _no_quic(story)
    refused = all(t.refused for t in story.tcp)
    if refused or outcomes <= NO_CONNECTION:
        end = "TCP was refused" if refused else "TCP ended before it was ready"
        if story.udp_unseen and not story.mixed:
            return f"No connection is seen: {end}, and the capture holds no UDP at all."
        none = "whether QUIC was tried cannot be told" if story.mixed else f"no QUIC packet was sent{story.as_far_as}"
        return f"No connection: {end}, and {none}."
    only = "TCP" if story.udp_unseen else "TCP only"
    return f"{only}, and its start or its end is not in the capture: what it carried cannot be told."


def _passed_through(story: Story) -> str:
    """The verdict on connections to a reverse proxy, of which nothing is seen but its report, and no request."""
    through = [t for t in story.tcp if t.outcome(story.now_ns) not in NO_CONNECTION]
    offered = ([_quic_name(story.quic[0])] if story.quic else []) + [http_over_tcp(t) for t in through[:1]]
    if not offered:
        return "No connection: TLS ended before it was ready, as far as the proxy saw."
    names = " and ".join(offered)
    return f"{names} was offered in TLS that passed the proxy untouched: what it carried is not seen there."


def _no_quic(story: Story) -> str:
    """The verdict where QUIC alone was tried, and was not established for all that is seen."""
    if all(story.failed(q) for q in story.quic):
        if story.proxied:
            return f"No connection past the proxy: {_tries(story)}, and no TCP was seen; see the proxy's tunnel."
        if not story.tcp and not story.mixed and "tcp" in story.lacks:
            # A filter may have left TCP out: what is not seen is all that can be said.
            return f"No connection is seen: {_tries(story)}, and the capture holds no TCP at all."
        until = "" if story.had_time else " before the capture ends"
        return f"No connection: {_tries(story)}, and {_tcp_beside(story)}{until}."
    if all(q.mid_stream for q in story.quic):
        return "QUIC, under way before the capture began: what it carried cannot be told."
    if any(_unreadable(q) for q in story.quic):
        return f"{_clause(_why(story, story.quic[0]))}: what it carried cannot be told."
    return "What became of QUIC is not in the capture."


def _through_proxy(story: Story) -> str:
    opened = [(tcp, tunnel) for tcp, tunnel in story.tunnels if tunnel.open]
    if not opened:
        return _proxy_refused(*story.tunnels[-1])
    sound = [one for one in opened if not one[0].failed]
    worked = [one for one in sound if one[0].ready is not None or one[0].reported]
    tcp, tunnel = (worked or opened)[0]
    if tcp.failed and story.rejected:
        return f"No connection: the client does not take the certificate that the proxy {tcp.server} shows it."
    if tcp.hello is not None and tcp.outcome(story.now_ns) in NO_CONNECTION:
        return f"No connection: TLS failed in the {tunnel.method} tunnel of the proxy {tcp.server}."
    if tunnel.method == "connect-udp":
        return f"Through a connect-udp tunnel of the proxy {tcp.server}, which can carry HTTP/3."
    if story.exchanges and story.versions is None:
        return f"No response through the CONNECT tunnel of the proxy {tcp.server}: {_error_of(story)}."
    name = used_version(story, tcp) if tcp.hello is not None else "TCP"
    to_name, _, port = (story.origin or "").rpartition(":")
    if any(str(attempt.server.port) == port for attempt in story.host_quic.to_name(to_name)):
        return f"{name}, through a CONNECT tunnel of the proxy {tcp.server}; QUIC to it left directly, past the proxy."
    if story.host_quic:
        return (
            f"{name}, through a CONNECT tunnel of the proxy {tcp.server}: such a tunnel cannot carry HTTP/3. QUIC left "
            "this host for other origins."
        )
    return (
        f"{name}, through a CONNECT tunnel of the proxy {tcp.server}: such a tunnel cannot carry HTTP/3, and "
        f"{no_quic(story)}."
    )


def _proxy_refused(tcp: TcpConnection, tunnel: Tunnel) -> str:
    unseen = not tcp.reported and (tcp.one_sided or tunnel.entered)
    if tunnel.status is None and (tcp.server_stream.bytes_seen or tcp.ended is None or unseen):
        return f"{tunnel.method} {tunnel.target} was asked of the proxy {tcp.server}; its answer is not in the capture."
    who, failure = proxy_asked(tcp, tunnel), upstream_failure(tcp, tunnel)
    if failure is not None:
        return f"No connection: {failure}."
    if tunnel.status is None:
        return f"No connection: {who} did not answer {tunnel.method} {tunnel.target}."
    meaning = PROXY_ANSWERS.get(tunnel.status, "the proxy declined")
    return f"No connection: {who} answered {tunnel.status} to {tunnel.method}: {meaning}."
