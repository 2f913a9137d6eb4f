"""h3probe's add-ons to mitmproxy, put together."""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final, get_args

from mitmproxy import ctx, exceptions, version

from h3probe import __version__
from h3probe.events import ProxyMode, ProxyReady
from h3probe.vantage.mitm.connections import Connections
from h3probe.vantage.mitm.exchanges import Exchanges
from h3probe.vantage.mitm.interception import Interception, Onlooker
from h3probe.vantage.mitm.policy import Policy
from h3probe.vantage.mitm.tunnels import Tunnels
from h3probe.vantage.mitm.watch import endpoint

if TYPE_CHECKING:
    from h3probe.vantage.mitm.reporter import Reporter
    from h3probe.vantage.mitm.settings import Settings

NEVER: Final = ("emudhra", "emudhra_old", "save_stream_file", "hardump", "store_streamed_bodies")
"""Options that have no place here: certificates signed by somebody else's stolen key, and stored traffic."""
BACKLOG: Final = 4096
"""Connections that may wait to be accepted; asyncio would have 100, and let the rest retry after a second."""
_MODES: Final[dict[str, ProxyMode]] = {mode: mode for mode in get_args(ProxyMode)}


class Start:
    """An add-on for the proxy's own beginning.

    Args:
        connections: Reports.
        policy: Says whether TLS is terminated; None for an add-on to somebody else's mitmdump.
    """

    def __init__(self, connections: Connections, policy: Policy | None) -> None:
        self._connections = connections
        self._policy = policy

    def configure(self, _updated: set[str]) -> None:
        """Refuse to run with options that must not be on."""
        for name in NEVER if self._policy is not None else ():
            if name in ctx.options and getattr(ctx.options, name):
                raise exceptions.OptionsError(f"h3probe does not run with mitmproxy's option {name}")

    def running(self) -> None:
        """Say that the sockets listen: they do by now, or mitmdump would have ended."""
        server = ctx.master.addons.get("proxyserver")
        if self._policy is not None:
            _lengthen_queues(server)
        name = ctx.options.mode[0].partition("@")[0].partition(":")[0]
        mode = _MODES.get(name)
        if mode is None:
            return
        intercepts = not ctx.options.ignore_hosts if self._policy is None else self._policy.intercepts
        self._connections.emit(
            ProxyReady(
                time_ns=time.time_ns(),
                mode=mode,
                listening=tuple(dict.fromkeys(endpoint(address[:2]) for address in server.listen_addrs())),
                intercepts=intercepts,
                mitmproxy=version.VERSION,
                h3probe=__version__,
            )
        )


def _lengthen_queues(server: object) -> None:
    """Let more connections wait in the kernel, by calling `listen` again on asyncio's sockets."""
    for instance in getattr(server, "servers", ()):
        for each in getattr(instance, "_servers", ()):
            for listening in getattr(each, "sockets", ()):
                with socket.socket(fileno=socket.dup(listening.fileno())) as again:
                    again.listen(BACKLOG)


def make_addons(settings: Settings | None, reporter: Reporter, policy: Policy | None = None) -> list[object]:
    """The add-ons, in the order in which mitmproxy is to ask them.

    Args:
        settings: What is to be done; None to report only, in somebody else's mitmdump.
        reporter: Where events go.
        policy: Whose TLS is terminated; None likewise.
    """
    connections = Connections(reporter, bounded=settings is not None)
    addons: list[object] = [
        Start(connections, policy),
        connections,
        Tunnels(connections, settings, policy),
        Exchanges(connections, settings),
    ]
    if settings is None or policy is None:
        addons.append(Onlooker(connections, Policy(None), {}))
    else:
        addons.append(Interception(connections, policy, dict(settings.aliases)))
    return addons
