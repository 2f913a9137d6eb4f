"""The proxy beside a run: announced to the person, handed to the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.vantage import privileges
from h3probe.vantage.proxy_settings import kind_of, proxy_environment
from h3probe.vantage.proxy_trust import make_trust

if TYPE_CHECKING:
    from h3probe.engine import Engine
    from h3probe.run.end import Plan
    from h3probe.run.output import Output
    from h3probe.vantage.proxy import Proxy


def hand_over(
    plan: Plan, proxy: Proxy, engine: Engine, output: Output, user: privileges.User | None
) -> dict[str, str] | None:
    """Say where the proxy is, and make the environment in which the plan's command uses it.

    Returns:
        The command's environment; None where there is no command. A reverse proxy is no setting of a client's: it
        is found by its address, and only its authority is handed over.

    Raises:
        UserError: The certificates that the command needs cannot be written.
    """
    spec = proxy.spec
    where = " and ".join(str(address) for address in proxy.addresses)
    what = "terminating TLS" if spec.intercept is not None else "TLS passes untouched"
    output.note(f"proxy on {where}, {what}; its authority: {proxy.ca_file}")
    if proxy.is_exposed:
        output.note(f"warning: {where} can be reached from other hosts, and the proxy lets anyone through")
    if not plan.command:
        return None
    if not spec.reverse:
        engine.behind_proxy = Path(plan.command[0]).name
        engine.is_java = {"java": True, "native": False}.get(kind_of(plan.command))
    trust = None
    if spec.intercept is not None:
        with privileges.acting_as(user):
            trust = make_trust(proxy.folder, spec.upstream_ca)
    base = None if user is None else privileges.environment_of(user)
    address = None if spec.reverse else proxy.addresses[0]
    environment, lines = proxy_environment(kind_of(plan.command), address, trust=trust, environment=base)
    for line in lines:
        output.note(f"set for the command: {line}")
    return environment
