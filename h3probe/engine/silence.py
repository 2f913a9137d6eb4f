"""What is said of origins and clients that nothing was seen of, where something was to be expected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.diagnose.untried import URI_ONLY, untried_origins
from h3probe.diagnose.verdict import deserves_verdict
from h3probe.filters import Filters
from h3probe.text import count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from h3probe.diagnose.story import Story
    from h3probe.engine.stories import Circumstances
    from h3probe.engine.teller import Teller
    from h3probe.records import VerdictRecord
    from h3probe.track.tracker import Connection, Tracker

SILENT = "Nothing was sent to this origin: no QUIC packet, no TCP connection and no CONNECT to it."
MAY_BE_ITS = "No connection is known to be to this origin; {} no server's name, and may be to it."
SILENT_BEHIND_PROXY = "Nothing was sent: no CONNECT to the proxy, no QUIC packet, no TCP connection."
NOT_KNOWN_TO_BE_ITS = (
    "No CONNECT to the proxy, and no QUIC packet and no TCP connection that is known to be the command's; the owner of "
    "{} on this host is not known."
)
SILENT_ALONE = "It asked for nothing: no QUIC packet and no TCP connection in its network."
ASKED_DNS = "It asked for names, {}and for nothing else: no QUIC packet and no TCP connection in its network."
ORIGINS_SAID = 4
# By whether the command is Java.
HINTS = {True: f" With JDK 26 {URI_ONLY}", None: f" If it is a JDK 26 client, {URI_ONLY}", False: ""}


@dataclass(slots=True)
class Seen:
    """What there was, as far as silence is to be told from it.

    Attributes:
        stories: How many there are.
        origins: Theirs.
        sent: Connections of whoever is asked about.
        unowned: Those of them whose process is not known.
        at_proxy: Whether anything was asked of a proxy.
        told: Of the origins asked for, those that have a verdict.
        hidden: Of these origins, those that a connection hidden by a filter may have been to.
        elsewhere: Origins that were not asked for.
        nameless: How many connections may have been to an origin that was asked for, as far as their packets tell.
    """

    stories: int = 0
    origins: set[str | None] = field(default_factory=set)
    sent: int = 0
    unowned: int = 0
    at_proxy: bool = False
    told: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    nameless: Counter[str] = field(default_factory=Counter)

    def add(self, connections: Iterable[Connection], stories: Iterable[Story], filters: Filters) -> None:
        """Take note of some connections, and of what became of them."""
        asked = filters.origins or ()
        for connection in connections:
            if filters.wanted is not None and not filters.wanted(connection):
                continue
            self.sent += 1
            self.unowned += connection.process is None
            self.at_proxy = self.at_proxy or _at_proxy(connection)
            if asked and not filters.connection(connection):
                self.hidden |= {origin for origin in asked if _may_be_to(origin, connection)}
        for story in stories:
            self.stories += 1
            self.origins.add(story.origin)
            if asked and deserves_verdict(story):
                self.told |= {origin for origin in asked if Filters(frozenset({origin})).story(story)}

    def add_elsewhere(self, stories: Iterable[Story], asked: Collection[str]) -> None:
        """Take note of stories of other origins than were asked for: whoever mistypes one looks for those."""
        for story in filter(deserves_verdict, stories):
            self.elsewhere.add(story.label)
            # A connection can stand with a name that it does not give itself.
            connections: list[Connection] = [*story.quic, *story.tcp]
            for connection in connections:
                if connection.told_host is None:
                    self.nameless.update(o for o in asked if Filters(frozenset({o})).origin(connection) is None)


@dataclass(frozen=True, slots=True)
class Silence:
    """What is said of it.

    Attributes:
        teller: Makes the records.
        tracker: Knows what the proxy, DNS and the client's own log say.
        filters: What was asked about.
        run: What is known of the run.
    """

    teller: Teller
    tracker: Tracker
    filters: Filters
    run: Circumstances

    def verdicts(self, seen: Seen) -> list[VerdictRecord]:
        """Say so of an origin that was asked for by name, or of a command behind the proxy, when nothing was sent."""
        say, exchanges = self.teller.silence, self.tracker.proxy.facts.exchanges
        of_one = self.run.of_command or self.run.alone is not None or self.run.behind_proxy is not None
        untried = self._untried(seen, silent=of_one and not seen.sent and self.run.vantage == "wire")
        if untried and not seen.sent:
            return untried
        unowned = seen.unowned if self.run.of_command else 0
        if unowned == seen.sent and self.run.behind_proxy is not None and not (exchanges or seen.at_proxy):
            sentence = SILENT_BEHIND_PROXY + HINTS[self.run.is_java] if self.run.vantage == "wire" else self._unseen("")
            if unowned:
                sentence = NOT_KNOWN_TO_BE_ITS.format(count(unowned, "other connection"))
            return [say(None, self.run.behind_proxy, sentence)]
        if not seen.sent and not exchanges and self.run.alone is not None:
            names = self.tracker.names
            silent = ASKED_DNS.format("" if names.answered else "got no answer, ") if names.asked else SILENT_ALONE
            return [say(None, self.run.alone, f"{silent}{self.teller.in_force()}")]
        absent = sorted(set(self.filters.origins or ()) - seen.told - seen.hidden)
        return [*untried, *(say(origin, "any", self._absent(origin, seen)) for origin in absent)]

    def _absent(self, origin: str, seen: Seen) -> str:
        """What is said of an origin that was asked for by name, and that no connection is known to be to."""
        nameless, elsewhere = seen.nameless[origin], sorted(seen.elsewhere)
        sentence = SILENT if self.run.vantage == "wire" else self._unseen(" for this origin")
        if nameless:
            sentence = MAY_BE_ITS.format(f"{count(nameless, 'connection')} {'gives' if nameless == 1 else 'give'}")
        if not elsewhere:
            return sentence
        more = [f"{len(elsewhere) - ORIGINS_SAID:,} more"] if len(elsewhere) > ORIGINS_SAID else []
        return f"{sentence} Seen here: {', '.join([*elsewhere[:ORIGINS_SAID], *more])}."

    def _untried(self, seen: Seen, *, silent: bool) -> list[VerdictRecord]:
        """What the client's own log tells of requests that it did not even try, an origin each."""
        sentences = untried_origins(self.tracker.told.facts, seen.origins, silent=silent)
        client = self.run.alone or self.run.behind_proxy or "any"
        return [
            self.teller.silence(origin, client, f"{sentence}{self.teller.in_force()}")
            for origin, sentence in sentences.items()
        ]

    def _unseen(self, what: str) -> str:
        past = "what went past it, if anything, is not seen without sniffing"
        return f"Nothing came to the {self.run.vantage}{what}; {past}."


def _may_be_to(origin: str, connection: Connection) -> bool:
    """Whether a connection that a filter hides may have been to an origin that was asked for."""
    only = Filters(frozenset({origin}))
    tunnels = connection.tunnels.asked if connection.transport == "tcp" and connection.tunnels is not None else []
    return only.origin(connection) is not False or any(only.named(tunnel.target.lower()) for tunnel in tunnels)


def _at_proxy(connection: Connection) -> bool:
    """Whether a connection leads to a proxy, by what was asked on it or by the proxy's own word."""
    return connection.transport == "tcp" and (connection.tunnels is not None or connection.reported)
