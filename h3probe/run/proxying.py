"""The proxy beside a run: announced to the person, handed to the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.run.settings import environment_to_add_to, tell_settings
from h3probe.track.table import BoundedTable
from h3probe.vantage import privileges
from h3probe.vantage.proxy_settings import kind_of, proxy_environment
from h3probe.vantage.proxy_trust import make_trust

if TYPE_CHECKING:
    from h3probe.engine import Engine
    from h3probe.records import Moment
    from h3probe.run.end import Plan
    from h3probe.run.output import Output
    from h3probe.vantage.proxy import Proxy

_MOST_TOLD: Final = 4096


class Races:
    """Tells a transparent proxy what goes past it, and it cannot know: that a client has QUIC to a host.

    A client that has lets go of its TCP to that host, which looks like the refusal of a certificate.

    Args:
        proxy: Is told.
        engine: Knows the connections.
    """

    def __init__(self, proxy: Proxy, engine: Engine) -> None:
        self._proxy = proxy
        self._engine = engine
        self._told: BoundedTable[str, bool] = BoundedTable(_MOST_TOLD)

    def __call__(self, moments: list[Moment]) -> None:
        """Look for what is new in these moments."""
        for moment in moments:
            quic = self._engine.connection(moment.connection)
            if quic is None or quic.transport != "quic" or quic.ready is None or self._told.get(quic.id):
                continue
            if quic.hello is not None:
                self._told.put(quic.id, value=True)
                # The JDK names no host that is `localhost`, nor do clients that have nothing but an address.
                self._proxy.quic_ready(quic.hello.sni or quic.server.address)


def hand_over(
    plan: Plan, proxy: Proxy, engine: Engine, output: Output, user: privileges.User | None
) -> dict[str, str] | None:
    """Say where the proxy is, and make the environment in which the plan's command uses it.

    Returns:
        The command's environment; None where there is no command. A reverse proxy is no setting of a client's, since
        it is found by its address, and neither is a transparent one: only their authority is handed over.

    Raises:
        UserError: The certificates that the command needs cannot be written.
    """
    spec = proxy.spec
    where = " and ".join(str(address) for address in proxy.addresses)
    what = "terminating TLS" if spec.intercept is not None else "TLS passes untouched"
    if spec.transparent:
        output.note(f"TCP goes through a proxy, {what}; its authority: {proxy.ca_file}")
    else:
        output.note(f"proxy on {where}, {what}; its authority: {proxy.ca_file}")
    if proxy.is_exposed and not spec.transparent:
        output.note(f"warning: {where} can be reached from other hosts, and the proxy lets anyone through")
    if not plan.command:
        return None
    if spec.listen is not None:
        engine.behind_proxy = Path(plan.command[0]).name
        engine.is_java = {"java": True, "native": False}.get(kind_of(plan.command))
    trust = None
    if spec.intercept is not None:
        with privileges.acting_as(user):
            trust = make_trust(proxy.folder, spec.upstream_ca)
    address = None if spec.listen is None else proxy.addresses[0]
    own = environment_to_add_to(None, user)
    environment, lines = proxy_environment(kind_of(plan.command), address, trust=trust, environment=own)
    tell_settings(output, lines)
    return environment
