"""What is to be reported: by origin, by port, by process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.diagnose.story import Story
    from h3probe.track.tracker import Connection


@dataclass(slots=True)
class Filters:
    """What is to be reported; None lets everything through.

    Attributes:
        origins: Host names or addresses, with or without a port, lower case; IPv6 with brackets before a port.
        ports: Server ports, a proxy's too.
        wanted: Decides about a connection by its process; set by whoever knows processes.
        pending: Whether a connection's process may still become known soon; nothing is told of it before.
    """

    origins: frozenset[str] | None = None
    ports: frozenset[int] | None = None
    wanted: Callable[[Connection], bool] | None = None
    pending: Callable[[Connection], bool] | None = None

    def connection(self, connection: Connection) -> bool:
        """Whether port and process let a connection through."""
        if self.ports is not None and connection.server.port not in self.ports:
            return False
        return self.wanted is None or self.wanted(connection)

    def origin(self, connection: Connection) -> bool | None:
        """Whether a connection is to one of the origins; None when its own packets do not tell."""
        if self.origins is None:
            return True
        server = connection.server
        names = _spellings(server.address, server.port)
        hello = connection.hello
        if hello is not None and hello.sni:
            return not self.origins.isdisjoint(names | _spellings(hello.sni.lower(), server.port))
        if not self.origins.isdisjoint(names):
            return True
        elsewhere = all(
            f":{server.port}" != origin[origin.rfind(":") :] for origin in self.origins if _has_port(origin)
        )
        return False if elsewhere and all(map(_has_port, self.origins)) else None

    def story(self, story: Story) -> bool:
        """Whether a story is about one of the origins."""
        if self.origins is None:
            return True
        names: set[str] = set()
        for place in (story.label, *(str(server) for server in story.servers)):
            host, _, port = place.lower().rpartition(":")
            names |= _spellings(host.strip("[]"), int(port))
        return not names.isdisjoint(self.origins)

    def named(self, origin: str) -> bool:
        """Whether `host:port`, in lower case, is one of the origins."""
        host = origin.rpartition(":")[0]
        return self.origins is None or not self.origins.isdisjoint({origin, host, host.strip("[]")})

    def name(self, name: str) -> bool:
        """Whether a DNS name is one of the origins'."""
        return self.origins is None or any(o == name or o.startswith(f"{name}:") for o in self.origins)


def _has_port(origin: str) -> bool:
    return origin.rpartition(":")[2].isdecimal() and (origin.count(":") == 1 or "]:" in origin)


def parse_origin(text: str) -> str:
    """Read `HOST[:PORT]`, or a URL, of which that is left; an IPv6 address stands in brackets before a port.

    Raises:
        UserError: It is anything else.
    """
    rest = text.strip().lower()
    if "://" in rest:
        rest = rest.partition("://")[2].partition("/")[0].rpartition("@")[2]
    host, colon, port = rest.rpartition(":")
    bare_ipv6 = rest.count(":") > 1 and not rest.startswith("[")
    if colon and not bare_ipv6 and not rest.endswith("]"):
        if not port.isdecimal() or not 0 < int(port[:6]) < 65536 or not host:
            raise UserError(f"--origin {text!r}: write HOST or HOST:PORT")
    elif not rest or any(c in rest for c in "/?# "):
        raise UserError(f"--origin {text!r}: write HOST or HOST:PORT")
    return rest


def _spellings(host: str, port: int) -> set[str]:
    """The ways in which people write a host and a port."""
    return {host, f"[{host}]", f"{host}:{port}", f"[{host}]:{port}"}
