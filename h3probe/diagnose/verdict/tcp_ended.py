"""How TCP attempts that never became ready ended, in a clause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.text import count, seconds
from h3probe.track.clock import NS
from h3probe.wire.tls import alert_name

if TYPE_CHECKING:
    from h3probe.diagnose.story import Story
    from h3probe.track.tcp import TcpConnection


def tcp_ended(story: Story) -> str | None:
    """What is the same of all of a story's TCP attempts; None where they ended in different ways, or in none."""
    ends = {_end(story, tcp) for tcp in story.tcp}
    if len(ends) == 1:
        return next(iter(ends))
    kinds = {tcp.outcome(story.now_ns) for tcp in story.tcp}
    return "TCP was not answered" if kinds == {"unanswered"} else None


def _end(story: Story, tcp: TcpConnection) -> str | None:
    match tcp.outcome(story.now_ns):
        case "refused":
            return "TCP was refused"
        case "unanswered" if tcp.connected is None and tcp.syn is not None:
            span = (tcp.last_syn_ns - tcp.syn.time_ns) / NS
            return f"TCP was not answered ({count(tcp.syns, 'SYN')} over {seconds(span)})"
        case "unanswered":
            return "TCP connected and its ClientHello was not answered"
        case "reset":
            return _handshake_end(tcp)
        case _:
            return None


def alert_text(tcp: TcpConnection) -> str | None:
    """`the alert unknown_ca from the client`; None where no alert ended TLS."""
    if tcp.tls is None or tcp.tls.alert is None:
        return None
    side, code = tcp.tls.alert
    return f"{'an encrypted alert' if code is None else f'the alert {alert_name(code)}'} from the {side}"


def _handshake_end(tcp: TcpConnection) -> str | None:
    """How TLS ended early; whoever sent an RST may stand between the two."""
    alert = alert_text(tcp)
    if alert is not None:
        return f"TLS over TCP ended with {alert}"
    ended = tcp.ended
    if ended is None or tcp.hello is None or tcp.server_stream.bytes_seen:
        return None
    what = "reset" if tcp.ended_by_reset else "closed"
    if ended[1] == "server":
        return f"TCP was {what} from the server's side after the ClientHello"
    return f"the client {what} TCP, its ClientHello not answered"
