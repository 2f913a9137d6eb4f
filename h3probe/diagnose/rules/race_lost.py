"""race-lost: QUIC and TCP raced, and the first exchange went over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.race import opens
from h3probe.diagnose.rule import Finding, Rule
from h3probe.diagnose.words import WITNESSES, cut, used_version
from h3probe.text import count, seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.race import Race
    from h3probe.diagnose.story import Story
    from h3probe.track.mark import Mark

SLUG = "race-lost"
ADVICE = (
    "A race that TCP wins is how the client is meant to work. For HTTP/3 QUIC has to be the faster one: see what kept "
    "it, below or on the server."
)


def check(story: Story) -> Iterator[Finding]:
    """Fire for each race in which TCP is known to have carried the first exchange."""
    for race in story.races:
        if race.carried == "tcp":
            yield _finding(story, race)


def _how_quic_went(story: Story, race: Race) -> str:
    outcome = race.quic.outcome(story.now_ns)
    if race.quic.ready is not None and race.tcp.ready is not None:
        after = (race.quic.ready.time_ns - race.tcp.ready.time_ns) / NS
        order = "before" if after < 0 else "after"
        return f"QUIC was ready {seconds(abs(after))} {order} TCP{_later(story, race)}"
    words = {
        "unanswered": "QUIC was not answered",
        "refused": "QUIC was refused",
        "stalled": "the QUIC handshake stalled",
        "closed": "QUIC was closed during its handshake",
        "version-negotiation": f"the server does not speak QUIC {race.quic.version_name}",
    }
    waited = (race.quic.last.time_ns - race.quic.first.time_ns) / NS
    default = "QUIC had not been answered" if not race.quic.answered else f"QUIC was not ready after {seconds(waited)}"
    return words.get(outcome or "", default)


def _later(story: Story, race: Race) -> str:
    """What became of a QUIC connection that was ready, by the word of who knows it, else as far as packets go."""
    witness = story.exchanges[0].known_from if story.exchanges else None
    carried = sum(e.connection == race.quic.id and e.status is not None for e in story.exchanges)
    if carried and witness is not None:
        return f", and carried {count(carried, 'later request')}, {WITNESSES[witness]}"
    if witness == "client-log" and not story.astray:  # The one that tells of all that the client did.
        return f", and carried no request, {WITNESSES[witness]}"
    sent, got = race.quic.client_bytes_ready, race.quic.server_bytes_ready
    return f"; {sent:,} bytes of the client's and {got:,} of the server's followed on it, encrypted" if got else ""


def _finding(story: Story, race: Race) -> Finding:
    began = race.tcp.syn or race.tcp.first
    ready = race.tcp.ready or race.tcp.first
    took = seconds((ready.time_ns - min(began.time_ns, race.quic.first.time_ns)) / NS)
    carried = "carried the first exchange" if opens(story, race) else "carried what came next"
    summary = (
        f"QUIC and TCP raced, and TCP ({used_version(story, race.tcp)}) {carried}, ready after {took}: "
        f"{_how_quic_went(story, race)}."
    )
    order = "after" if race.head_start >= 0 else "before"
    evidence: list[tuple[Mark, str]] = [
        (race.quic.first, "QUIC begins: first Initial"),
        (began, f"TCP begins: SYN, {seconds(abs(race.head_start))} {order} the Initial"),
        (ready, "TCP is ready"),
    ]
    if race.quic.ready is not None:
        evidence.append((race.quic.ready, "QUIC is ready"))
    elif race.quic.refusals:
        evidence.append((race.quic.refusals[0][0], "QUIC is refused"))
    return Finding(SLUG, "notice", summary, cut(evidence), ADVICE, [race.quic, race.tcp])


RULE = Rule(
    slug=SLUG,
    severity="notice",
    title="TCP won the race",
    looks_for=(
        "QUIC and TCP tried within the client's head start, neither ready or over when the other began, and TCP the "
        "one that carried the first exchange. Ready is not carried: where both became ready the wire cannot tell, "
        "and the race is reported without a loser."
    ),
    advice=ADVICE,
    sources=("RFC 8305", "JEP 517", "measured: JDK 26 sends request 1 over HTTP/2 though QUIC was ready first"),
    check=check,
)
