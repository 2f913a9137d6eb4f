"""What the client's own log, or decrypted traffic, tells of, given to the stories that it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.diagnose.grouping import is_about
from h3probe.diagnose.origin import origin_of_url
from h3probe.diagnose.story import Seen
from h3probe.events import AltSvcSeen
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from h3probe.diagnose.story import Story
    from h3probe.events import ToldExchange
    from h3probe.records import KnownFrom
    from h3probe.track.told import ToldFacts, ToldSighting


def add_told_facts(stories: list[Story], facts: ToldFacts) -> None:
    """Give stories what the client's log, or decrypted traffic, tells of their connections.

    What is told without a connection goes to the one story of its origin only where it failed without one: a log may
    hold requests of which the capture knows nothing. Where the proxy saw as many, its report is the same with more in
    it; what went past it only the others tell.
    """
    if not facts.exchanges and not facts.alt_svc:
        return
    by_connection = {c.id: story for story in stories for c in story.connections}
    by_origin: dict[str, list[Story]] = {}
    for story in stories:
        if story.origin is not None and not story.relayed:
            by_origin.setdefault(story.origin, []).append(story)
    _note_astray(stories, facts)
    told: dict[int, list[Seen]] = {}
    for sighting in facts.exchanges:
        found = by_connection.get(sighting.connection or "") or _failed_there(by_origin, sighting.told)
        if found is not None and is_about(found, sighting.told) and _same_host(found, sighting.told.origin):
            told.setdefault(id(found), []).append(_by_log(sighting, found))
    for story in stories:
        others = _one_source(told.get(id(story), []))
        if sum(e.status is not None for e in others) > len(story.answered) or not story.exchanges:
            # That the proxy took part is no less true.
            story.exchanges = [replace(e, intercepted=True) for e in others] if story.intercepted else others
    for seen in facts.alt_svc:
        likely = by_origin.get(origin_of_url(seen.told.origin), [])
        found = by_connection.get(seen.connection or "") or (likely[0] if len(likely) == 1 else None)
        if found is not None and (seen.connection is not None or _within(found, seen.told.time_ns)):
            lines = seen.told.lines
            # Not sooner than it can have been: what comes after it is to come after it for certain.
            at_ns = seen.told.time_ns + seen.told.within_ns
            client = found.connections[0].client
            line = AltSvcSeen(at_ns, seen.connection or "", client, seen.told.origin, lines, lines)
            found.alt_svc = (*found.alt_svc, line)


def _note_astray(stories: list[Story], facts: ToldFacts) -> None:
    """Tell stories of answers that lead to no connection."""
    lost = {origin_of_url(s.told.origin) for s in facts.exchanges if s.connection is None and s.told.status is not None}
    for story in stories:
        story.astray = story.origin in lost


def _same_host(story: Story, origin: str) -> bool:
    """Whether an exchange is with a story's origin: a client may use one connection for several."""
    return story.origin is None or story.origin.rpartition(":")[0] == origin_of_url(origin).rpartition(":")[0]


def _failed_there(by_origin: dict[str, list[Story]], told: ToldExchange) -> Story | None:
    likely = by_origin.get(origin_of_url(told.origin), [])
    if len(likely) != 1 or told.status is not None or told.local_port is not None or told.client is not None:
        return None
    return likely[0] if _within(likely[0], told.time_ns) else None


def _within(story: Story, time_ns: int) -> bool:
    """Whether a time is one at which a story's client was at work, by and large."""
    return story.begins_ns - NS <= time_ns <= max(c.last.time_ns for c in story.connections) + NS


def _by_log(sighting: ToldSighting[ToldExchange], story: Story) -> Seen:
    told = sighting.told
    connection = next((c for c in story.connections if c.id == sighting.connection), None)
    return Seen(
        told.known_from,
        told.time_ns if told.began_ns is None else told.began_ns,
        told.time_ns + told.within_ns,
        told.version,
        told.status,
        told.error,
        connection.client if connection is not None else None,
        sighting.connection,
        ended_ns=told.time_ns,
        broken=told.broken,
    )


def _one_source(told: list[Seen]) -> list[Seen]:
    """What one source tells, where several tell of the same exchanges: the client's own word first."""
    sources: tuple[KnownFrom, ...] = ("client-log", "decrypted")
    best = next((source for source in sources if any(e.known_from == source for e in told)), None)
    return sorted((e for e in told if e.known_from == best), key=lambda e: e.time_ns)
