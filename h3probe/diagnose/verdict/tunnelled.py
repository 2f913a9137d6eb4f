"""Verdicts on what went, or was to go, through a proxy's tunnels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.verdict.clauses import NO_CONNECTION, error_of
from h3probe.diagnose.verdict.tcp_ended import alert_text
from h3probe.diagnose.words import PROXY_ANSWERS, left_early, no_quic, proxy_asked, upstream_failure, used_version
from h3probe.text import seconds

if TYPE_CHECKING:
    from h3probe.diagnose.story import Story
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tunnel import Tunnel


def through_proxy(story: Story) -> str:
    """Return the verdict on a story with tunnels: what one carried, else what the proxy answered to the last."""
    opened = [(tcp, tunnel) for tcp, tunnel in story.tunnels if tunnel.open]
    if not opened:
        return _proxy_refused(*story.tunnels[-1])
    sound = [one for one in opened if not one[0].failed]
    worked = [one for one in sound if one[0].ready is not None or one[0].reported]
    tcp, tunnel = (worked or opened)[0]
    if tcp.failed and story.rejected:
        return f"No connection: the client does not take the certificate that the proxy {tcp.server} shows it."
    if tcp.hello is not None and tcp.outcome(story.now_ns) in NO_CONNECTION:
        alert = alert_text(tcp)
        why = "" if alert is None else f", with {alert}"
        return f"No connection: TLS failed in the {tunnel.method} tunnel of the proxy {tcp.server}{why}."
    if _is_silent(tcp, tunnel):
        return f"No answer to the ClientHello is seen in the {tunnel.method} tunnel of the proxy {tcp.server}."
    if tunnel.method == "connect-udp":
        return f"Through a connect-udp tunnel of the proxy {tcp.server}, which can carry HTTP/3."
    if story.exchanges and story.versions is None:
        return f"No response through the CONNECT tunnel of the proxy {tcp.server}: {error_of(story)}."
    name = used_version(story, *(carrier for carrier, _ in worked or opened)) if tcp.hello is not None else "TCP"
    to_name, _, port = (story.origin or "").rpartition(":")
    through = f"{name}, through a CONNECT tunnel of the proxy {tcp.server}"
    past = [attempt for attempt in story.host_quic.to_name(to_name) if str(attempt.server.port) == port]
    if past:
        whose = "" if tcp.process is not None else ", from this program or another at the same address"
        return f"{through}; QUIC to the same origin left directly{whose}, past the proxy."
    if story.host_quic:
        beside = "QUIC left this host for other origins"
        if story.host_quic.unnamed:
            beside = "QUIC left this host too, and does not tell for which origin"
        return f"{through}: such a tunnel cannot carry HTTP/3. {beside}."
    return f"{through}: such a tunnel cannot carry HTTP/3, and {no_quic(story)}."


def _is_silent(tcp: TcpConnection, tunnel: Tunnel) -> bool:
    """Whether nothing came back through a tunnel after the ClientHello."""
    seen = tcp.hello is not None and not tcp.torn and not tcp.reported
    return seen and tcp.server_stream.bytes_seen <= tunnel.server_start


def _proxy_refused(tcp: TcpConnection, tunnel: Tunnel) -> str:
    unseen = not tcp.reported and (tcp.one_sided or tunnel.entered)
    if tunnel.status is None and (tcp.server_stream.bytes_seen or tcp.ended is None or unseen):
        return f"{tunnel.method} {tunnel.target} was asked of the proxy {tcp.server}; its answer is not in the capture."
    who, failure = proxy_asked(tcp, tunnel), upstream_failure(tcp, tunnel)
    if failure is not None:
        return f"No connection: {failure}."
    left = left_early(tcp, tunnel)
    if tunnel.status is None and left is not None:
        return f"No connection: the client left {seconds(left)} after it had asked {who} for {tunnel.target}."
    if tunnel.status is None:
        return f"No connection: {who} did not answer {tunnel.method} {tunnel.target}."
    meaning = PROXY_ANSWERS.get(tunnel.status, "the proxy declined")
    return f"No connection: {who} answered {tunnel.status} to {tunnel.method}: {meaning}."
