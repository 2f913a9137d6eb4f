"""Verdicts from packets alone: QUIC, TCP, or both got ready, and what that leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.race import opens
from h3probe.diagnose.rule import severity_of_failure
from h3probe.diagnose.verdict.clauses import (
    IN_THE_CLEAR,
    http_over_quic,
    is_cut,
    opening,
    quic_broke_off,
    quic_ended,
    ready_after,
    some_ports,
    tcp_beside,
    unreadable,
)
from h3probe.diagnose.verdict.unconnected import nothing_ready
from h3probe.diagnose.verdict.waits import fallback_waits, kept_waiting, later_wait, then
from h3probe.diagnose.words import AT_ONCE, TOO_LITTLE, http_over_tcp, over_tcp, unasked
from h3probe.text import seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from h3probe.diagnose.race import Race
    from h3probe.diagnose.story import Story
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection


def from_the_wire(story: Story) -> str:
    """What packets alone tell."""
    quic = [q for q in story.quic if q.established and not q.mid_stream and not q.unconfirmed]
    tcp = [t for t in story.tcp if t.ready is not None and not t.failed and not unasked(t)]
    if story.crowded and tcp and all(story.failed(q) for q in story.quic):
        attempts = f"{len(story.quic)} attempts, several at once"
        return f"{over_tcp(tcp)}, not HTTP/3: {quic_ended(story, story.quic[0])}, the first of {attempts}."
    if story.crowded and story.tcp:
        return "Several QUIC attempts ran at once; which TCP connection belongs to which of them cannot be told."
    if story.races and (quic or tcp) and opens(story, story.races[0]):
        race = story.races[0]
        return _raced(story, race) + quic_broke_off(story, race.quic) + then(story) + _unlike(race.tcp, tcp)
    if quic and tcp:
        return _both(story, quic[0], tcp[0]) + quic_broke_off(story, quic[0]) + then(story) + _unlike(tcp[0], tcp)
    if quic:
        return _quic_alone(story, quic[0]) + quic_broke_off(story, quic[0])
    if tcp:
        return _tcp_alone(story, tcp)
    return nothing_ready(story)


def _unlike(told: TcpConnection, worked: list[TcpConnection]) -> str:
    """A sentence about TCP connections of other versions than that of the one that was told of."""
    others = [tcp for tcp in worked if http_over_tcp(tcp) != http_over_tcp(told)]
    return f" Over other TCP connections: {over_tcp(others)}." if others else ""


def _raced(story: Story, race: Race) -> str:
    tcp_name, quic_name = http_over_tcp(race.tcp), http_over_quic(race.quic)
    if race.carried == "tcp":
        text = f"{tcp_name} won the race: {quic_ended(story, race.quic)}."
    elif race.carried == "quic":
        text = f"{quic_name} won the race against TCP{ready_after(race.quic)}."
    elif race.first_ready is not None and race.ready_margin is not None:
        ahead, behind = ("QUIC", "TCP") if race.first_ready == "quic" else ("TCP", "QUIC")
        text = (
            f"QUIC and TCP raced: {ahead} was ready {seconds(race.ready_margin)} before {behind}. Both could carry the "
            "first request, and which one did is encrypted; the client's own log settles it."
        )
        if race.first_ready == "tcp" and "Z" in race.quic.history:
            text += " QUIC had sent 0-RTT data by then, which may have been the request."
    else:
        text = f"QUIC and TCP raced: {quic_ended(story, race.quic)}; what carried the first request cannot be told."
    return text


def _both(story: Story, quic: QuicConnection, tcp: TcpConnection) -> str:
    tcp_name, quic_name = http_over_tcp(tcp), http_over_quic(quic)
    ready_ns = tcp.ready.time_ns if tcp.ready is not None else tcp.first.time_ns
    if quic.first.time_ns > ready_ns:
        gap = seconds((quic.first.time_ns - ready_ns) / NS)
        took = f" and was ready {seconds((quic.ready.time_ns - quic.first.time_ns) / NS)} later" if quic.ready else ""
        began = f"QUIC began {gap} after TCP was ready{took}"
        client = recognise(quic)
        if client is not None and client.opens_unused and story.tcp_open_at(quic.first.time_ns) is not None:
            return (
                f"{tcp_name} first, and {quic_name} beside it: {began}. {client.name} opens such a connection whether "
                "or not a request goes over it; its own log tells."
            )
        return f"{tcp_name} first, then {quic_name}: {began}."
    if tcp.first.time_ns > (quic.ready or quic.first).time_ns:
        gap = seconds((tcp.first.time_ns - (quic.ready or quic.first).time_ns) / NS)
        return f"{quic_name} first{ready_after(quic)}; TCP ({tcp_name}) began {gap} after that."
    return f"Both {quic_name} and {tcp_name} were ready; which one carried which request is encrypted."


def _quic_alone(story: Story, first: QuicConnection) -> str:
    others = [q for q in story.quic if q is not first and story.failed(q) and q.first.time_ns <= first.first.time_ns]
    name, beside = http_over_quic(first), tcp_beside(story)
    if others and first.ready is not None and all(q.version_negotiation and q.server == first.server for q in others):
        took = seconds((first.ready.time_ns - others[0].first.time_ns) / NS)
        return f"{name}, ready after {took}, Version Negotiation to {first.version_name} included; {beside}."
    if others:
        before = f"{quic_ended(story, others[0])} at {others[0].server} before it"
        return f"{name}{ready_after(first)}; {before}. {opening(beside)}."
    worked = [q for q in story.quic if q.established]
    elsewhere = any(t.first.time_ns <= first.first.time_ns for t in story.tcp_elsewhere)
    unknown = elsewhere or story.tcp_before or story.tcp_named
    unknown = unknown or any(c.mid_stream or is_cut(c) for c in story.connections)
    if unknown or not first.talked:
        many = f", one of {len(worked)} connections" if len(worked) > 1 else ""
        little = "" if first.talked else f"; {TOO_LITTLE}"
        return f"{name}{ready_after(first)}{many}{little}; {beside}.{_failed_later(story)}"
    return f"{name} {AT_ONCE}{ready_after(first)}; {beside}.{_failed_later(story)}"


def _failed_later(story: Story) -> str:
    """A sentence about an attempt that failed after QUIC had worked, and left a request behind."""
    last = story.quic[-1]
    if not story.failed(last) or story.mixed or story.crowded or severity_of_failure(story, last) != "problem":
        return ""
    return f" A later attempt failed: {quic_ended(story, last)}."


def _tcp_alone(story: Story, tcp: list[TcpConnection]) -> str:
    text = _over_tcp(story, tcp)
    silent = all(t.ready is None or (t.response_bytes == 0 and t.tls is not None) for t in story.tcp)
    if not silent or any(t.reported or t.mid_stream or t.torn for t in story.tcp):
        return text
    return f"{text} {opening(TOO_LITTLE)}."


def _over_tcp(story: Story, worked: list[TcpConnection]) -> str:
    name, tcp = over_tcp(worked), worked[0]
    if not story.quic:
        return _without_quic(story, tcp, name)
    waits = sorted(fallback_waits(story), key=lambda wait: wait.attempt.first.time_ns)
    if waits:
        attempt, wait = waits[0].attempt, waits[0].seconds
        longest = later_wait(story)
        name, unlike = http_over_tcp(tcp), _unlike(tcp, worked)
        if attempt.first.time_ns > tcp.first.time_ns:
            return f"{name} for the first request.{longest[1] if longest else ''}{unlike}"
        text = f"{name}, not HTTP/3, after {seconds(wait)} of waiting for QUIC: {kept_waiting(story, waits[0])}."
        return text + (longest[1] if longest is not None and longest[0] > wait else "") + unlike
    unknown = [q for q in story.quic if q.mid_stream or unreadable(q)]
    if unknown:
        return f"{name}; {quic_ended(story, unknown[0])}: what that carried cannot be told."
    return f"{name}, not HTTP/3: {quic_ended(story, story.quic[0])}."


def _without_quic(story: Story, tcp: TcpConnection, name: str) -> str:
    """The verdict on TCP where the story has no QUIC, and where else there is some."""
    if all((t.http or t.preface) and t.tls is None for t in story.tcp):
        return f"{name}. {IN_THE_CLEAR}"
    if story.other_ports:
        ports = some_ports(story.other_ports)
        elsewhere = f"QUIC for the same name went to port {ports}"
        return f"{name}: no QUIC packet was sent to this port{story.as_far_as}; {elsewhere}."
    if story.host_quic.unnamed_to(tcp.server) or story.unowned_quic.unnamed_to(tcp.server):
        whose = " of this client" if story.among_others else ""
        none = f"no QUIC packet{whose} names this origin"
        return f"{name}: {none}; QUIC to the same address that names none may be its own."
    if story.mixed:
        return f"{name}; whether this client sent QUIC too cannot be told from that of others."
    if story.vantage == "relay":
        return f"{name}: no QUIC came through the relay; an Alt-Svc that names the server's own port leads past it."
    across = story.across_by("quic")
    if across is not None:
        elsewhere = f"QUIC for the same name left {across}, which may be the same host's"
        return f"{name}, and no QUIC from this address; {elsewhere}."
    none = "this client sent no QUIC packet" if story.among_others else "no QUIC packet was sent"
    return f"{name}: {none} to this origin{story.as_far_as}."
