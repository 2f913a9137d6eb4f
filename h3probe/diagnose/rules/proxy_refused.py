"""proxy-refused: the proxy did not give the tunnel that was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.diagnose.rule import NOTICEABLE_S, Finding, Rule
from h3probe.diagnose.story import REST_NS
from h3probe.diagnose.words import PROXY_ANSWERS, cut, left_early, proxy_asked, upstream_failure
from h3probe.text import clean, seconds
from h3probe.track.clock import NS
from h3probe.track.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection
    from h3probe.track.tunnel import Tunnel

SLUG = "proxy-refused"
ADVICE = "Ask whoever runs the proxy, or exempt the host from it (NO_PROXY, -Dhttp.nonProxyHosts)."
ADVICE_BY_STATUS = {
    403: "The proxy's rules do not allow this host or port: ask whoever runs it for an exception.",
    407: "Give the client credentials for the proxy; the JDK also needs an Authenticator, and "
    "-Djdk.http.auth.tunneling.disabledSchemes= for Basic.",
    500: "Look at the proxy's log, and from its own host whether the name is found: some say so of one that is not.",
    502: "The proxy could not reach the server: look from the proxy's own host.",
    503: "The proxy could not serve it: look from its own host whether the server can be reached, then at the proxy.",
    504: "The proxy got no answer from the server: look from the proxy's own host.",
}
ADVICE_BY_TROUBLE = {
    "unreachable": "Look whether that proxy runs and takes connections from here, and whether --upstream names it.",
    "silent": "Ask whoever runs that proxy whether it takes this host, and whether it wants TLS (--upstream https://...).",
    "garbage": "What listens there is no HTTP proxy, or one that wants TLS (--upstream https://...): check the port.",
    "slow": "Look from that proxy's own host how long the server takes, then at the proxy.",
}
ADVICE_UNANSWERED = (
    "The proxy was still connecting: look from its host whether the server, or the proxy behind it, can be reached."
)
ADVICE_LEFT = "The client left by itself, before a proxy would have been late: nothing need be done there."
ADVICE_LATE = "Look from that proxy's own host how long a connection to the server takes, then at the proxy."
ADVICE_UDP = (
    "This proxy does not speak connect-udp (RFC 9298), which is what could carry HTTP/3; over CONNECT, "
    "HTTP/2 is the most there can be."
)

_LEFT = "client disconnected"
"""What mitmproxy says of a tunnel whose client has gone before it was answered: nobody refused anything."""


def check(story: Story) -> Iterator[Finding]:
    """Fire for tunnels that were refused, or answered late, or not at all, and for plain requests that were refused."""
    yield from _plain(story)
    late: list[tuple[TcpConnection, Tunnel]] = []
    refused: list[Finding] = []
    for carrier, tunnel in story.tunnels:
        if tunnel.error is not None and tunnel.error.lower().startswith(_LEFT):
            continue
        if tunnel.status is not None and not tunnel.open:
            refused.append(_refused(story, carrier, tunnel))
        elif tunnel.status is None and carrier.ended is not None and _silent(carrier, tunnel):
            yield _unanswered(carrier, tunnel)
        elif tunnel.open and _waited(tunnel) > NOTICEABLE_S:
            late.append((carrier, tunnel))
    yield from _alike(refused)
    if late:
        yield _late(story, late)


def _alike(refused: list[Finding]) -> list[Finding]:
    """The same refusal again and again, as browsers get it, is one finding for each time that the client was at it."""
    groups: dict[tuple[Severity, str, str], list[list[Finding]]] = {}
    for finding in refused:
        alike = groups.setdefault((finding.severity, finding.summary, finding.advice), [])
        if not alike or _asked_ns(finding) - _asked_ns(alike[-1][-1]) >= REST_NS:
            alike.append([])
        alike[-1].append(finding)
    return [group[0] if len(group) == 1 else _of_many(group) for alike in groups.values() for group in alike]


def _asked_ns(finding: Finding) -> int:
    return finding.evidence[0][0].time_ns


def _of_many(group: list[Finding]) -> Finding:
    first = group[0]
    return replace(
        first,
        summary=f"{first.summary} That was {len(group)} times.",
        evidence=cut([row for finding in group for row in finding.evidence]),
        about=[connection for finding in group for connection in finding.about],
        cost=max((finding.cost for finding in group if finding.cost is not None), default=None),
    )


def _silent(carrier: TcpConnection, tunnel: Tunnel) -> bool:
    """Whether nothing came back: not even something that the capture does not show, and the client goes on after."""
    goes_on = carrier.client_stream.bytes_seen > tunnel.client_start
    unseen = not carrier.reported and (goes_on or carrier.one_sided)
    return carrier.server_stream.bytes_seen == 0 and not unseen


def _waited(tunnel: Tunnel) -> float:
    if tunnel.waited is not None:
        return tunnel.waited
    return (tunnel.answered.time_ns - tunnel.asked.time_ns) / NS if tunnel.answered is not None else 0.0


def _evidence(tunnel: Tunnel) -> list[tuple[Mark, str]]:
    rows = [(tunnel.asked, f"{tunnel.method} {tunnel.target}")]
    if tunnel.answered is not None:
        rows.append((tunnel.answered, f"the answer: {tunnel.status}"))
    return rows


def _refused(story: Story, carrier: TcpConnection, tunnel: Tunnel) -> Finding:
    after = [t for _, t in story.tunnels if t.open and t.asked.time_ns >= tunnel.asked.time_ns]
    severity: Severity = "problem"
    if after:
        severity = "info"
    elif tunnel.method == "connect-udp":
        severity = "notice"
    meaning = PROXY_ANSWERS.get(tunnel.status or 0, "the proxy declined")
    advice = ADVICE_UDP if tunnel.method == "connect-udp" else ADVICE_BY_STATUS.get(tunnel.status or 0, ADVICE)
    failure = upstream_failure(carrier, tunnel)
    if failure is not None:
        summary = f"{failure[:1].upper()}{failure[1:]}; the client got {tunnel.status}."
        advice = ADVICE_BY_TROUBLE.get(tunnel.trouble or "", ADVICE)
    else:
        who = proxy_asked(carrier, tunnel)
        summary = f"{who[:1].upper()}{who[1:]} answered {tunnel.status} to {tunnel.method} {tunnel.target}: {meaning}."
        summary += f" It says: {clean(tunnel.error, 160)}." if tunnel.error else ""
    if after:
        summary += f" The client asked again, with {after[0].method}, and got its tunnel."
    waited = _waited(tunnel)
    cost = waited if waited > NOTICEABLE_S else None
    return Finding(SLUG, severity, summary, cut(_evidence(tunnel)), advice, [carrier], cost)


def _unanswered(carrier: TcpConnection, tunnel: Tunnel) -> Finding:
    end = carrier.ended[0] if carrier.ended is not None else carrier.last
    waited = (end.time_ns - tunnel.asked.time_ns) / NS
    by = carrier.ended[1] if carrier.ended is not None else "client"
    who = "proxy" if by == "server" else "client"
    summary = (
        f"{tunnel.method} {tunnel.target} got no answer from {proxy_asked(carrier, tunnel)}; the {who} closed the "
        f"connection after {seconds(waited)}."
    )
    advice = ADVICE_UNANSWERED if tunnel.reported else ADVICE
    if tunnel.upstream is not None:
        advice = ADVICE_BY_TROUBLE["slow"]
    evidence = [*_evidence(tunnel), (end, f"closed by the {who}")]
    if left_early(carrier, tunnel) is not None:
        return Finding(SLUG, "notice", summary, cut(evidence), ADVICE_LEFT, [carrier], None)
    return Finding(SLUG, "problem", summary, cut(evidence), advice, [carrier], waited)


def _late(story: Story, late: list[tuple[TcpConnection, Tunnel]]) -> Finding:
    """One finding, however many had to wait: a proxy that is slow is slow for all of them."""
    carrier, tunnel = max(late, key=lambda one: _waited(one[1]))
    waited = _waited(tunnel)
    who = proxy_asked(carrier, tunnel)
    summary = f"{tunnel.method} {tunnel.target} was answered by {who} after {seconds(waited)}."
    if len(late) > 1:
        summary = f"{len(late)} tunnels to {story.label} were answered late by {who}, the last after {seconds(waited)}."
    carriers: list[Connection] = [carrier, *(other for other, _ in late if other is not carrier)]
    return Finding(SLUG, "problem", summary, cut(_evidence(tunnel)), ADVICE_LATE, carriers, _together(late))


def _together(late: list[tuple[TcpConnection, Tunnel]]) -> float:
    """Seconds in which one of several tunnels, or more, was waited for."""
    total, until_ns = 0.0, 0
    for _, tunnel in sorted(late, key=lambda one: one[1].asked.time_ns):
        end_ns = tunnel.asked.time_ns + round(_waited(tunnel) * NS)
        total += max(end_ns - max(tunnel.asked.time_ns, until_ns), 0) / NS
        until_ns = max(until_ns, end_ns)
    return total


def _plain(story: Story) -> Iterator[Finding]:
    """Requests in the clear that the proxy behind the one asked did not pass on, a finding for each kind."""
    if not story.in_the_clear:
        return
    about = list(story.connections[:1])
    for trouble in {trouble.status: trouble for trouble in reversed(story.trouble)}.values():
        meaning = PROXY_ANSWERS.get(trouble.status or 0, "the proxy declined")
        who = f"The proxy {clean(trouble.upstream, 300)} behind {story.server}"
        summary = f"{who} answered {trouble.status} to a request for {story.label}: {meaning}."
        evidence = [(Mark(None, trouble.time_ns), f"the answer: {clean(trouble.text, 60)}")]
        yield Finding(SLUG, "problem", summary, evidence, ADVICE_BY_STATUS.get(trouble.status or 0, ADVICE), about)
    for leg in [leg for leg in story.unreached if leg.to_upstream][:1]:
        who = f"The proxy {clean(leg.target, 300)} behind {story.server}"
        summary = f"{who} cannot be reached with a request for {story.label}: {leg.error}."
        evidence = [(Mark(None, leg.ended_ns), leg.error)]
        yield Finding(SLUG, "problem", summary, evidence, ADVICE_BY_TROUBLE["unreachable"], about)


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="The proxy gave no tunnel, or gave it late",
    looks_for=(
        "A CONNECT or connect-udp that a proxy answered with something other than success, after more than a second, "
        "or not before the connection ended. One that the client followed with a request that succeeded, as after a "
        "first 407, is information. Where a proxy has another one behind it, the finding is about the one that failed."
    ),
    advice=ADVICE,
    sources=("RFC 9110, 9.3.6 and 15.5.8", "RFC 9298", "measured: curl 8.23 asks for connect-udp first"),
    check=check,
)
