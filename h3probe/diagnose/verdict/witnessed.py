"""Verdicts on requests that someone saw: a proxy, the client's own log, or whoever has the secrets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from h3probe.diagnose.verdict.clauses import IN_THE_CLEAR, error_of
from h3probe.diagnose.verdict.waits import then
from h3probe.diagnose.verdict.wire import from_the_wire
from h3probe.diagnose.words import WITNESSES, past_proxy, unread
from h3probe.text import clean, count, seconds

if TYPE_CHECKING:
    from h3probe.diagnose.story import Seen, Story

# Different errors that a sentence can hold.
ERRORS_SAID = 2


def witnessed(story: Story) -> str | None:
    """What a proxy's report, or the client's own log, settles by itself, of requests that no tunnel hides."""
    if story.answered:
        if story.in_the_clear:
            return f"{_exchanged(story)}{_refusals(story)} {IN_THE_CLEAR}"
        return _exchanged(story) + then(story)
    if story.exchanges:
        return _no_response(story) if story.exchanges[0].known_from == "proxy" else _unanswered(story)
    if len(story.rejected) >= len(story.connections):
        return "No request: the client does not take the proxy's certificate."
    return None


def _exchanged(story: Story) -> str:
    """What is known of each exchange, and whether there may have been more past it."""
    over, rest = "", ""
    if past_proxy(story):
        over, rest = " over TCP", " QUIC went past the proxy: what it carried is not counted."
    return _seen(story, over) + rest + _unread(story) + _ready_not_carried(story)


def _seen(story: Story, over: str) -> str:
    first, *later = [clean(e.version or "HTTP", 16) for e in story.answered]
    failed = story.unanswered
    without = f"; {count(len(failed), 'request')} got no response{_said(failed)}" if failed else ""
    where = WITNESSES[story.exchanges[0].known_from]
    which = " that was answered" if without else " that could be read" if unread(story) else ""
    if story.astray and story.exchanges[0].known_from == "client-log":
        counts = Counter([first, *later]).items()
        some = " and ".join(f"{version} for {count(number, 'request')}" for version, number in counts)
        return f"{some}{over}, {where}{without}; it tells of further ones, which lead to no connection seen here."
    if not later:
        return f"{first} for the one request{over}{which}, {where}{without}."
    if set(later) == {first}:
        both = "both" if len(later) == 1 else f"all {len(later) + 1}"
        return f"{first} for {both} requests{over}{which.replace('was', 'were')}, {where}{without}."
    rest = " and ".join(f"{version} for {number}" for version, number in Counter(later).items())
    return f"{first} for the first request{over}, then {rest}, {where}{without}."


def _unread(story: Story) -> str:
    """Say so where other connections may have carried requests too, which no secret opened."""
    closed = unread(story)
    if not closed:
        return ""
    over = " and ".join({"quic": "QUIC", "tcp": "TCP"}[t] for t in dict.fromkeys(c.transport for c in closed))
    return f" {count(len(closed), 'connection')} over {over} may have carried more, which no secret known opens."


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
    why = error_of(story)
    if story.unreached:
        why = f"it could not connect to {clean(story.unreached[0].target, 300)} ({story.unreached[0].error})"
    return f"No response {asked}, seen at the proxy: {why}."


def _unanswered(story: Story) -> str:
    """The same by the word of whoever else tells: what the wire shows comes first."""
    failed = story.unanswered
    where = WITNESSES[failed[0].known_from]
    return f"{from_the_wire(story)} No response to {count(len(failed), 'request')}, {where}{_said(failed)}."
