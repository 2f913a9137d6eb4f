"""The stories of connections: told of them, and given what is known of the run and of the capture beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.diagnose.grouping import Beside, add_proxy_facts, tell_stories
from h3probe.diagnose.told import add_told_facts

if TYPE_CHECKING:
    from h3probe.diagnose.story import Story, Vantage
    from h3probe.filters import Filters
    from h3probe.track.kept import KeptConnections
    from h3probe.track.tracker import Connection, Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known of a run, and no packet tells.

    Attributes:
        vantage: Where from.
        of_command: Whether only a command's traffic is wanted.
        client_over: Whether the client whose traffic is wanted has ended.
        behind_proxy: The command that was given a proxy.
        alone: The command that has a network of its own.
        is_java: Whether that command is Java; None where its name does not tell.
        swallows_icmp: What is on the way and lets no ICMP error come back; None where they do.
        live: Whether packets are seen as they come, so that what is not there yet may still come.
        lossy: Whether packets were lost before they were seen, by what was told on the way or at the end.
    """

    vantage: Vantage
    of_command: bool
    client_over: bool
    behind_proxy: str | None
    alone: str | None
    is_java: bool | None
    swallows_icmp: str | None
    live: bool
    lossy: bool


@dataclass(frozen=True, slots=True)
class Stories:
    """Tells them.

    Attributes:
        tracker: Knows what the proxy, DNS and the client's own log say.
        filters: What was asked about.
        kept: All connections.
        run: What is known of the run.
    """

    tracker: Tracker
    filters: Filters
    kept: KeptConnections
    run: Circumstances

    def of(self, kept: list[Connection]) -> tuple[list[Story], list[Story]]:
        """The stories that connections make: those that were asked about, and those of other origins."""
        connections = [c for c in kept if self.filters.connection(c)]
        names = {}
        for connection in connections:
            name = self.tracker.names.name_of(connection.server.host)
            if name is not None:
                names[connection.server.host] = name
        # A filter by port hides connections, and must not hide that there were any.
        wanted = self.filters.wanted
        ports = self.filters.ports
        others = [c for c in kept if ports and c.server.port not in ports and (wanted is None or wanted(c))]
        strangers = [c for c in kept if wanted is not None and not wanted(c)]
        facts = self.tracker.proxy.facts
        beside = Beside(others, strangers, facts, self.kept.tunnelled)
        told = tell_stories(connections, self.tracker.clock, names, self.tracker.hosts.identity, beside)
        stories: list[Story] = []
        elsewhere: list[Story] = []
        for story in told:
            (stories if self.filters.story(story) else elsewhere).append(story)
        for story in stories:
            self._add_circumstances(story)
        add_told_facts(stories, self.tracker.told.facts)
        return stories, elsewhere

    def _add_circumstances(self, story: Story) -> None:
        """Give a story what is known of the capture that it is from."""
        clients = {c.client.host for c in story.connections}
        run = self.run
        add_proxy_facts(story, self.tracker.proxy.facts, self.tracker.names)
        story.of_command = run.of_command
        story.vantage = run.vantage
        story.swallows_icmp = run.swallows_icmp
        if run.alone is not None and all(c.process is None for c in story.connections):
            story.client = run.alone  # which of its processes it was is not known; that it was one of them is
        story.over = run.client_over
        story.lossy = run.lossy
        story.lacks = frozenset() if run.live else self.tracker.lacks
        story.unowned = run.of_command and not any(c.process is not None for c in story.connections)
        ends = {(c.client.host, c.server) for c in story.connections}
        # A command's connections are younger than the watch.
        story.tcp_before = not run.of_command and any(self.tracker.tcp.was_before(*end) for end in ends)
        story.one_sided = bool(clients) and not any(self.tracker.hears(host) for host in clients)
