"""Two addresses that may be one host's: an IPv4 and an IPv6 one that ask for the same name at the same time.

Where a capture has no link layer, or a router stands between, nothing tells whether they are (RFC 8305 has clients try
both). They are two stories then; but neither may say of its client what the other one's packets would make false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.origin import name_of
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from h3probe.diagnose.story import Story
    from h3probe.events import Endpoint
    from h3probe.track.tracker import Connection

# Addresses of a name are tried within this of each other, or after one has failed.
NEAR_NS = 5 * NS
# With more connections for one name than this there are many clients, and none to be taken for another.
CROWD = 64


class Families:
    """Connections of addresses that are no known host's, by the name and the port that they ask for.

    Args:
        connections: All that are looked at.
        identity: Tells which host an address belongs to.
    """

    def __init__(self, connections: Iterable[Connection], identity: Callable[[Endpoint], str]) -> None:
        self._asked: dict[tuple[str, int], list[Connection]] = {}
        for connection in connections:
            name = name_of(connection)
            asked = self._asked.setdefault((name, connection.server.port), []) if name is not None else None
            if asked is not None and len(asked) <= CROWD and identity(connection.client) == connection.client.address:
                asked.append(connection)

    def across(self, story: Story) -> list[Connection]:
        """Return what the one other address asked for that may be the same host's; nothing where there are several."""
        own = {connection.client.host for connection in story.connections}
        name, _, port = (story.origin or "").rpartition(":")
        asked = self._asked.get((name, int(port)), []) if name and len(own) == 1 else []
        size = len(next(iter(own)))
        others = [c for c in asked if len(c.client.host) != size and _near(story, c)]
        alone = len({c.client.host for c in others}) == 1 and len(asked) <= CROWD
        return others if alone and any(c.client.host in own for c in asked) else []


def _near(story: Story, other: Connection) -> bool:
    return any(abs(other.first.time_ns - c.first.time_ns) <= NEAR_NS for c in story.connections[:CROWD])
