"""How mitmdump is run: its modes, its options, its environment, and what the add-on is told once it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.vantage import privileges
from h3probe.vantage.mitm.settings import Settings, Standing
from h3probe.vantage.proxy_ports import claim
from h3probe.vantage.proxy_spec import PASSWORD_VARIABLE
from h3probe.vantage.proxy_trust import system_roots

if TYPE_CHECKING:
    from h3probe.vantage.privileges import User
    from h3probe.vantage.proxy_spec import Listen, ProxySpec

_PACKAGE: Final = Path(__file__).parents[1]
_SCRIPT: Final = Path(__file__).with_name("mitm") / "script.py"

_OPTIONS: Final = {
    # What is seen is what the client's own proxy would do: connect first, then answer.
    "connection_strategy": "eager",
    # Alt-Svc is rewritten by the add-on, which knows its grammar.
    "keep_alt_svc_header": "true",
    # Bodies pass through; none is kept.
    "stream_large_bodies": "1",
    # A proxy on loopback has no clients elsewhere; one that listens elsewhere has none on the Internet.
    "block_global": "true",
    "onboarding": "false",
    # An idle tunnel is the client's business; mitmproxy would end it after ten minutes.
    "tcp_timeout": "86400",
    "flow_detail": "0",
    "termlog_verbosity": "error",
}


def modes_of(spec: ProxySpec) -> tuple[list[str], tuple[Standing, ...]]:
    """Claim the ports, and return the modes as mitmproxy spells them, and the servers that it stands before.

    Raises:
        UserError: A port is in use.
    """
    if spec.listen is not None:
        upstream = spec.upstream
        mode = "regular" if upstream is None else f"upstream:{upstream.scheme}://{upstream.name}"
        return _listening(mode, spec.listen, udp=False)[0], ()
    if spec.transparent:
        # No port is tried here: they may be another namespace's.
        return [f"transparent@{listen.host}:{listen.port}" for listen in spec.transparent], ()
    modes: list[str] = []
    standing: list[Standing] = []
    for each in spec.reverse:
        host = f"[{each.target_host}]" if ":" in each.target_host else each.target_host
        more, port = _listening(f"reverse:https://{host}:{each.target_port}", each.listen, udp=True)
        modes += more
        standing.append(Standing(port, each.target_host, each.target_port))
    return modes, tuple(standing)


def _listening(mode: str, listen: Listen, *, udp: bool) -> tuple[list[str], int]:
    hosts, port = claim(listen.host, listen.port, udp=udp)
    return [f"{mode}@{host}:{port}" for host in hosts], port


def command_line(spec: ProxySpec, folder: Path, modes: list[str]) -> list[str]:
    """The command that runs it, with its authority in a folder."""
    options = _OPTIONS | {"confdir": str(folder), "ssl_insecure": str(spec.insecure).lower()}
    if spec.transparent:
        # Who comes there is up to the redirect.
        options["block_global"] = "false"
    roots = spec.upstream_ca or system_roots()
    if roots is not None:
        options["ssl_verify_upstream_trusted_ca"] = str(roots)
    # -P: the folder that the user happens to be in is no place to import from.
    argv = [sys.executable, "-P", "-m", "h3probe.vantage.mitm", "-s", str(_SCRIPT)]
    for mode in modes:
        argv += ["--mode", mode]
    for name, value in options.items():
        argv += ["--set", f"{name}={value}"]
    return argv


def environment_for(user: User | None) -> dict[str, str]:
    """What it finds in its environment: this process's own, or a user's, without the proxy's password."""
    environment = dict(os.environ)
    if user is not None:
        environment = privileges.environment_of(user, environment)
    environment.pop(PASSWORD_VARIABLE, None)
    paths = [str(_PACKAGE.parent), *filter(None, [environment.get("PYTHONPATH")])]
    return environment | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}


def settings_for(spec: ProxySpec, events: int, standing: tuple[Standing, ...]) -> Settings:
    """What the add-on is told, over a pipe that nobody else reads, once the process runs.

    Args:
        spec: What is asked of it.
        events: The descriptor that it reports to.
        standing: The servers that it stands before.
    """
    upstream = spec.upstream
    secret = None if upstream is None or upstream.authorization is None else upstream.authorization.partition(" ")[2]
    return Settings(
        events=events,
        intercept=spec.intercept,
        upstream=upstream,
        standing=standing,
        look_directly=spec.look_directly,
        secrets=() if secret is None else (secret,),
        aliases=spec.aliases,
        temporary=spec.temporary,
    )
