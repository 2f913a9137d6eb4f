"""stale-alt-svc: the client relies on an h3 alternative that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.alternative import is_silent, origin_of_attempt, taken_over_elsewhere, tcp_works
from h3probe.diagnose.fallback import AHEAD_NS, SETTLING_NS, wait_of
from h3probe.diagnose.rule import NOTICEABLE_S, Finding, Rule, episodes, lasted
from h3probe.diagnose.rules import repeated_timeout
from h3probe.diagnose.rules.stuck_on_quic import runs
from h3probe.diagnose.words import cut
from h3probe.text import clean, count, seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.records import Severity
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection

SLUG = "stale-alt-svc"
ADVICE = (
    "Either UDP to this port is stopped on the way (ask whoever runs the firewall; another network shows it), or the "
    "server offers what it does not serve: have its HTTP/3 started, or the offer taken back (`alt-svc: clear`). "
    "A client remembers an offer until its `ma` runs out; a small `ma` makes that short. JDK 26 keeps it in the "
    "HttpClient: a new one has forgotten it."
)
NEW = "a new TCP connection was tried"


def check(story: Story) -> Iterator[Finding]:
    """Fire for attempts that follow an Alt-Svc record and get no answer, while TCP works and did not race them."""
    if story.tunnels or story.crowded:
        return
    worked = tcp_works(story)
    if worked is None:
        return
    stale = [attempt for attempt in story.quic if _is_stale(story, attempt)]
    stuck = {attempt.id for run in runs(story) for attempt in run} if stale else set()
    twice = {c.id for finding in repeated_timeout.check(story) for c in finding.about} if stale else set()
    for attempts in episodes(stale):
        yield _finding(story, attempts, worked, {attempt.id for attempt in attempts} & stuck, twice)


def _is_stale(story: Story, attempt: QuicConnection) -> bool:
    """Whether an attempt is one, outside of a race and not beside requests that went on over TCP."""
    if not is_silent(story, attempt) or any(race.quic is attempt for race in story.races):
        return False
    if origin_of_attempt(story, attempt) is None:
        return False
    end_ns = (attempt.last_client or attempt.last).time_ns - AHEAD_NS
    tcp = [*story.tcp, *story.tcp_elsewhere]
    return not any(t.responded_between(attempt.first.time_ns + SETTLING_NS, end_ns) for t in tcp)


def _finding(
    story: Story, attempts: list[QuicConnection], worked: TcpConnection, stuck: set[str], twice: set[str]
) -> Finding:
    first = attempts[0]
    waits: list[tuple[float, str]] = []
    lost: list[float] = []
    delayed: list[float] = []  # of which no other rule tells
    evidence: list[tuple[Mark, str]] = [
        (worked.ready or worked.first, f"TCP to {worked.server} is ready, and answered")
    ]
    for attempt in attempts:
        reason = origin_of_attempt(story, attempt)
        begins = f"QUIC to {attempt.server} begins"
        if reason is not None and reason[0] != attempt.first:
            evidence += [reason, (attempt.first, begins)]
        elif reason is not None:
            evidence.append((attempt.first, f"{begins}, {reason[1]}"))
        wait, elsewhere = wait_of(story, attempt), taken_over_elsewhere(story, attempt)
        if wait is not None:
            waits.append((wait.seconds, "was used again" if wait.reused else NEW))
            what = "the request on TCP" if wait.reused else "SYN"
            evidence.append(
                (wait.until, f"{what} to {wait.tcp.server}, {seconds(wait.seconds)} after the first Initial")
            )
        elif elsewhere is not None and elsewhere.syn is not None:
            delayed.append((elsewhere.syn.time_ns - attempt.first.time_ns) / NS)
            waits.append((delayed[-1], NEW))
            evidence.append(
                (elsewhere.syn, f"SYN to {elsewhere.server}, {seconds(delayed[-1])} after the first Initial")
            )
        elif any(e.status is None and e.connection == attempt.id for e in story.exchanges):
            lost.append(lasted(attempt) if attempt.id not in stuck | twice else 0.0)
            evidence.append((attempt.last_client or attempt.last, "the last packet of it; its request failed"))
    known = origin_of_attempt(story, first)
    how = f" ({known[1]})" if known is not None else ""
    state = "refuses QUIC" if all(attempt.refusals for attempt in attempts) else "does not answer QUIC"
    summary = f"The client relies on an Alt-Svc record for {clean(story.label, 260)}{how}, and {first.server} {state}."
    summary += _what_followed(story, first, waits, stuck=bool(stuck), lost=len(lost))
    severity: Severity = "problem" if lost or stuck or any(wait_s > NOTICEABLE_S for wait_s, _ in waits) else "notice"
    return Finding(SLUG, severity, summary, cut(evidence), ADVICE, list(attempts), sum(lost + delayed) or None)


def _what_followed(
    story: Story, first: QuicConnection, waits: list[tuple[float, str]], *, stuck: bool, lost: int
) -> str:
    """A sentence about TCP beside the attempts."""
    if waits:
        wait_s, how_tried = max(waits)
        return f" TCP works, and {how_tried} only {seconds(wait_s)} later."
    if lost:
        return f" TCP works, and was not tried: {count(lost, 'request')} failed."
    if stuck:
        return " TCP works, and was not tried."
    if story.mixed or story.first_syn_after(first) is not None:
        return " TCP works."
    return " TCP works, and no new connection to it followed."


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="An Alt-Svc record for a server that does not answer QUIC",
    looks_for=(
        "A QUIC attempt that follows an Alt-Svc record and gets no datagram back, outside of a race, while TCP to the "
        "origin works and no request went on over it. That it follows a record is known from the response that held "
        "it, where no QUIC came before that, or from marks that JDK 26 gives such an attempt alone: a name without a "
        "dot, or a resumed session and its 30 s timer before TCP. The seconds waited for TCP are told by "
        "`fallback-delay`; the cost here is that of requests that failed, or that waited for an alternative at another "
        "port."
    ),
    advice=ADVICE,
    sources=(
        "RFC 7838, 2.2 and 2.4",
        "measured: JDK 26 waits 30 s for an alternative, and starts no TCP beside it",
    ),
    check=check,
)
