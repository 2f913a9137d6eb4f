"""What a rule is, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.story import REST_NS
from h3probe.text import seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from h3probe.diagnose.missing import Missing
    from h3probe.diagnose.race import Race
    from h3probe.diagnose.story import Story
    from h3probe.events import ProxyDied
    from h3probe.records import Severity
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection

# From this on a delay is a problem that a user notices.
NOTICEABLE_S = 1.0
EVIDENCE_LIMIT = 12


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found.

    Attributes:
        rule: The rule's slug.
        severity: From what happened.
        summary: One or two sentences.
        evidence: Packets, and what each shows.
        advice: What to do.
        about: The connections that it is about.
        cost: Seconds lost, None where none can be stated.
    """

    rule: str
    severity: Severity
    summary: str
    evidence: list[tuple[Mark, str]]
    advice: str
    about: list[Connection] = field(default_factory=list)
    cost: float | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Tells the same finding, found again, from another one."""
        return (self.rule, *(connection.id for connection in self.about))


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """What is known of the capture as a whole.

    Attributes:
        truncated: It ends in the middle of a packet.
        damaged: Reading ended before it did.
        unreadable: Parts that could not be read, in words.
        dropped: Packets lost before they were seen, and by whom.
        malformed: Packets that could not be decoded.
        closed: Packets that could not be looked into, by what they are.
        forgotten: Connections of which nothing is said, to keep memory bounded.
        left: Connections that were not followed to their end, likewise.
        missing: What connections show to be missing.
        rests: TCP connections of which no more than segments without payload was seen.
        first: The first packet's mark, None when there was none.
        proxy_died: How h3probe's own proxy ended before it was told to, None where it did not.
    """

    truncated: bool
    damaged: bool
    unreadable: list[str]
    dropped: list[tuple[int, str]]
    malformed: int
    closed: Mapping[str, int]
    forgotten: int
    left: int
    missing: Missing
    rests: int
    first: Mark | None
    proxy_died: ProxyDied | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A named condition.

    Attributes:
        slug: Its name in output and on the command line.
        severity: What it usually is; a finding's own comes from what happened.
        title: A few words.
        looks_for: What must be seen for it to fire, and what keeps it from firing.
        advice: What to do about it.
        sources: Where its knowledge comes from.
        check: Looks at one story, or at a part of a very long one.
        check_whole: Looks at one story, however long, in a time that is next to linear in its length.
        check_capture: Looks at the capture as a whole.
        rests_on_absence: Whether a packet may still come that disproves it, however long the story has rested.
    """

    slug: str
    severity: Severity
    title: str
    looks_for: str
    advice: str
    sources: tuple[str, ...]
    check: Callable[[Story], Iterator[Finding]] | None = None
    check_whole: Callable[[Story], Iterator[Finding]] | None = None
    check_capture: Callable[[CaptureFacts], Iterator[Finding]] | None = None
    rests_on_absence: bool = False


def lasted(attempt: QuicConnection) -> float:
    """Seconds from an attempt's first packet to its client's latest one."""
    return ((attempt.last_client or attempt.last).time_ns - attempt.first.time_ns) / NS


def severity_of_failure(story: Story, attempt: QuicConnection) -> Severity:
    """Judge a failed QUIC attempt by what it did to the request behind it.

    An address of the other family that answers makes a refused one harmless, as RFC 8305 means it to be.
    """
    worked = [q for q in story.quic if q.established and q is not attempt and _alive(q, attempt)]
    if any(_is_twin(q, attempt) for q in worked):
        return "info"
    rescuer = story.first_syn_after(attempt)
    if rescuer is not None and rescuer.ready is not None and _succeeds(story, attempt, rescuer):
        waited = ((rescuer.syn or rescuer.first).time_ns - attempt.first.time_ns) / NS
        raced = any(race.quic is attempt or race.tcp is rescuer for race in story.races)
        return "problem" if waited > NOTICEABLE_S and not raced else "notice"
    if story.tcp_open_at(attempt.first.time_ns) is not None or any(
        _may_have_won(story, r, attempt) for r in story.races
    ):
        return "notice"
    # What was ready only before, and is closed, carried nothing for this attempt's request.
    if (
        any(t.mid_stream or (t.ready is not None and t.ready.time_ns > attempt.first.time_ns) for t in story.tcp)
        or worked
    ):
        return "notice"
    if story.tcp_unseen and _always_races(attempt):
        return "notice"  # That there is no TCP beside it is the capture's doing.
    gave_up = any(t.first.time_ns >= attempt.first.time_ns for t in story.tcp)
    if any(t.last.time_ns >= attempt.first.time_ns for t in story.tcp_elsewhere):
        return "notice"  # An Alt-Svc record may have led from there to here, and the origin's own port carries on.
    if story.across:
        return "notice"  # Another address of the same host may have got through.
    if story.mixed or (not gave_up and _may_go_on(story, attempt) and not story.had_time):
        return "notice"  # Another client's, perhaps; or the capture ends before this client would have gone on.
    return "notice" if story.one_sided and attempt.client_close is None else "problem"


def _may_have_won(story: Story, race: Race, attempt: QuicConnection) -> bool:
    """Whether TCP carried what an attempt raced for, or may yet: not where it failed as well."""
    return race.quic is attempt and race.tcp.outcome(story.now_ns) not in ("refused", "reset", "unanswered")


def _may_go_on(story: Story, attempt: QuicConnection) -> bool:
    """Whether an attempt is one at whose end the client may still be waiting, and about to try TCP."""
    if attempt.client_close is not None or attempt.server_close is not None:
        return False
    if attempt.refusals:
        client = recognise(attempt)
        return client is not None and client.ignores_icmp is True
    return attempt.outcome(story.now_ns) != "version-negotiation"


def _always_races(attempt: QuicConnection) -> bool:
    client = recognise(attempt)
    return client is not None and client.always_races


def _alive(worked: QuicConnection, attempt: QuicConnection) -> bool:
    """Whether a connection that worked could carry the attempt's request: it lived when that began, or came later."""
    return (worked.last_client or worked.last).time_ns >= attempt.first.time_ns


def _is_twin(one: QuicConnection, other: QuicConnection) -> bool:
    """Whether two attempts are one try at two addresses of a name (Happy Eyeballs, RFC 8305)."""
    apart = abs(one.first.time_ns - other.first.time_ns)
    return one.server.host != other.server.host and apart <= TWIN_NS


def by_severity(story: Story, attempts: list[QuicConnection]) -> list[tuple[Severity, list[QuicConnection]]]:
    """Sort failed attempts by what each did to its request, the worst first."""
    found: list[tuple[Severity, list[QuicConnection]]] = []
    for episode in episodes(attempts):
        groups: dict[Severity, list[QuicConnection]] = {"problem": [], "notice": [], "info": []}
        for attempt in episode:
            groups[severity_of_failure(story, attempt)].append(attempt)
        found += [(severity, group) for severity, group in groups.items() if group]
    return found


def episodes[C: (QuicConnection, TcpConnection)](attempts: list[C]) -> list[list[C]]:
    """Split attempts where the client rested: what was told of one episode does not change with the next."""
    episodes: list[list[C]] = []
    latest_ns = 0
    for attempt in sorted(attempts, key=lambda a: a.first.time_ns):
        if not episodes or attempt.first.time_ns - latest_ns >= REST_NS:
            episodes.append([])
        episodes[-1].append(attempt)
        latest_ns = max(latest_ns, attempt.last.time_ns)
    return episodes


def _succeeds(story: Story, attempt: QuicConnection, rescuer: Connection) -> bool:
    """Whether a TCP attempt took over from a QUIC attempt: it began while that was pending, or soon after."""
    over = attempt.attempt_over_ns(story.now_ns)
    end = max(over if over is not None else story.now_ns, attempt.last.time_ns)
    return rescuer.first.time_ns <= end + TAKEOVER_NS


# Addresses of one name are tried within this of each other; RFC 8305, 5 recommends 250 ms.
TWIN_NS = 2 * NS
ONE_SIDED = "No packet at all to this client is in the capture, so it may hold one direction only."


# A client that gives QUIC up needs this long at most to send a SYN; a cold JVM was measured at 76 ms.
TAKEOVER_NS = 3 * NS // 2


def hellos(attempt: QuicConnection, limit: int = 4) -> list[tuple[Mark, str]]:
    """Evidence: the Initials that an attempt sent."""
    marks = list(dict.fromkeys(attempt.hello_datagrams))
    if not marks:
        return [(attempt.first, "the first packet")]
    first = attempt.dcid.hex() if attempt.dcid else "?"
    rows = [(marks[0], f"Initial, DCID {first}")]
    rows += [
        (mark, f"Initial again, {seconds((mark.time_ns - attempt.first.time_ns) / NS)} after the first")
        for mark in marks[1:]
        if mark.time_ns - attempt.first.time_ns > NS // 20
    ]
    if len(rows) <= limit:
        return rows
    last, text = rows[-1]
    return [*rows[: limit - 1], (last, f"{text} ({len(rows) - limit} more between)")]
