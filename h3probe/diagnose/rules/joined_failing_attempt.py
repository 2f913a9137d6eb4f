"""joined-failing-attempt: a request waited on another one's QUIC attempt, and failed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.clients import recognise
from h3probe.diagnose.fallback import OWN_NS
from h3probe.diagnose.rule import Finding, Rule, hellos
from h3probe.diagnose.words import close_text, cut, timer_of, waited_until_close
from h3probe.text import clean, seconds
from h3probe.track.clock import NS
from h3probe.track.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Seen, Story
    from h3probe.track.quic import QuicConnection

SLUG = "joined-failing-attempt"
ADVICE = "Repeat the request that failed: the attempt that it waited on is over by then."


def check(story: Story) -> Iterator[Finding]:
    """Fire once for each attempt with requests that waited on it without having begun it, and got no response."""
    attempts = {attempt.id: attempt for attempt in story.quic}
    joined: dict[str, list[tuple[int, Seen]]] = {}
    for number, exchange in enumerate(story.exchanges, 1):
        attempt = attempts.get(exchange.connection or "")
        if attempt is None or exchange.status is not None or exchange.known_from == "proxy":
            continue
        if story.failed(attempt) and not attempt.established and _joined(story, exchange, attempt):
            joined.setdefault(attempt.id, []).append((number, exchange))
    for name, exchanges in joined.items():
        yield _finding(story, attempts[name], exchanges)


def _joined(story: Story, exchange: Seen, attempt: QuicConnection) -> bool:
    """Whether the attempt was another request's: it had begun long before, or TCP answered the one it raced for."""
    if exchange.time_ns > attempt.first.time_ns + OWN_NS and exchange.time_ns < exchange.ended_ns:
        return True
    carriers = {race.tcp.id for race in story.races if race.quic is attempt}
    return any(e.status is not None and e.connection in carriers for e in story.exchanges)


def _wait(exchange: Seen) -> float | None:
    """Seconds that a request waited, None where its times do not tell."""
    told = exchange.exact and exchange.ended_ns > exchange.time_ns
    return (exchange.ended_ns - exchange.time_ns) / NS if told else None


def _finding(story: Story, attempt: QuicConnection, exchanges: list[tuple[int, Seen]]) -> Finding:
    waits = [wait for wait in (_wait(exchange) for _, exchange in exchanges) if wait is not None]
    error = next((exchange.error for _, exchange in exchanges if exchange.error), None)
    after = f" after {' and '.join(dict.fromkeys(map(seconds, waits[:3])))}" if waits else ""
    said = f" (“{clean(error, 120)}”)" if error else ""
    summary = (
        f"{_which(story, exchanges)} failed{after}{said}: {'it' if len(exchanges) == 1 else 'each'} waited on the QUIC "
    )
    summary += "attempt that an earlier request had begun, and failed with it, without an attempt over TCP."
    waited = waited_until_close(attempt)
    timer = timer_of(attempt, waited) if waited is not None else None
    if timer is not None:
        setting = f" (`{timer[1].setting}`, {timer[1].unit})" if timer[1].setting else ""
        summary += f" What ended that attempt is {timer[1].waits}{setting}."
    evidence = [*hellos(attempt)]
    for number, exchange in exchanges[:3]:
        if _wait(exchange) is not None:
            evidence.append((Mark(None, exchange.time_ns), f"request {number} begins, by the client's log"))
        if exchange.exact:
            evidence.append((Mark(None, exchange.ended_ns), f"request {number} fails, by the client's log"))
    if attempt.client_close is not None:
        evidence.append((attempt.client_close[0], f"the attempt ends: {close_text(attempt.client_close[1])}"))
    client = recognise(attempt)
    advice = ADVICE
    if client is not None and client.joins is not None:
        summary += f" {client.name}: {client.joins.text}."
        advice = client.joins.advice
    cost = sum(waits) if len(waits) == len(exchanges) else None
    return Finding(SLUG, "problem", summary, cut(evidence), advice, [attempt], cost)


def _which(story: Story, exchanges: list[tuple[int, Seen]]) -> str:
    """`Request 2 to example.org:443`."""
    numbers = [str(number) for number, _ in exchanges]
    if len(numbers) == 1:
        return f"Request {numbers[0]} to {story.label}"
    listed = (
        f"{', '.join(numbers[:-1])} and {numbers[-1]}" if len(numbers) <= 6 else f"{', '.join(numbers[:5])} and more"
    )
    return f"{len(numbers)} requests to {story.label} ({listed})"


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="A request failed with another one's attempt",
    looks_for=(
        "A request without a response, which by the client's own log waited on a QUIC attempt that failed, and that "
        "had begun for another request: half a second or more before this one, or for one that TCP answered. From the "
        "wire alone it is not seen: such a request sends nothing."
    ),
    advice=ADVICE,
    sources=("measured: JDK 26, client-level ANY, second request while the first one's direct attempt is pending",),
    check=check,
)
