"""The one JSON object that `init.py` is given: everything it does, decided beforehand."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h3probe.vantage.isolate import scripts
from h3probe.vantage.isolate.addresses import CLIENT_INTERFACE, TAP, Addresses
from h3probe.vantage.isolate.host_ports import has_ipv6_route, listening
from h3probe.vantage.isolate.obstacles import IsolateError, check_platform, check_tools, check_tun, no_uplink
from h3probe.vantage.isolate.resolver import replacements
from h3probe.vantage.isolate.spec import IPV6_MINIMUM_MTU, IsolateSpec
from h3probe.vantage.isolate.uplink import Uplink, find_tool, find_uplink

if TYPE_CHECKING:
    from h3probe.vantage.isolate.host_ports import Ports

_STAGING = ("/mnt", "/srv", "/media", "/opt", "/tmp", "/run")  # noqa: S108 - covered for a moment, in a namespace of its own
_IPV4, _IPV6 = "/proc/self/net/route", "/proc/self/net/ipv6_route"
_SYSCTL_ROOM = 4000
"""Characters; the kernel reads a page at a time."""

# Nobody else could have the same address, and until that is found out a router cannot ask for its neighbours.
_NO_PROBING = ("/proc/sys/net/ipv6/conf/default/accept_dad", "0")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be set up.

    Attributes:
        order: What `init.py` reads.
        uplink: The way out.
        addresses: Who is where.
        ipv6: Whether C has IPv6.
        ports: What the host listens on.
        shaped: For each script of tc in `order`, in the order they are tried, the flags in force with it.
    """

    order: dict[str, Any]
    uplink: Uplink
    addresses: Addresses
    ipv6: bool
    ports: Ports
    shaped: list[IsolateSpec]


def make_plan(spec: IsolateSpec, *, intercept: bool) -> Plan:
    """Look at this host and decide.

    Raises:
        IsolateError: Something is missing that cannot be done without.
    """
    check_platform()
    tools = {name: find_tool(name) for name in ("ip", "nft")}
    check_tools(tools)
    uplink, instead = find_uplink()
    if uplink is None:
        raise no_uplink(instead)
    check_tun()
    ipv6 = has_ipv6_route() and spec.ipv6 and uplink.ipv6 and (spec.mtu is None or spec.mtu >= IPV6_MINIMUM_MTU)
    root = os.geteuid() == 0
    middle = intercept or spec.needs_middle
    addresses = uplink.addresses if middle else uplink.addresses.without_middle()
    files = replacements(uplink.addresses.dns)
    needed = [uplink.program, *(path for path in tools.values() if path), *(path for path, _ in files)]
    staging = _staging(needed)
    ports = listening()
    shaped = without_what_the_kernel_lacks(spec)
    interface = TAP if middle else CLIENT_INTERFACE
    order: dict[str, Any] = {
        "parent": os.getpid(),
        "user_namespace": not root,
        "staging": staging,
        "ip": [tools["ip"], "-batch", "-"],
        "nft": [tools["nft"], "-f", "-"],
        "tc": [find_tool("tc") or "/sbin/tc", "-batch", "-"],
        "uplink": uplink.argv(f"{staging}/net", interface, ipv6=ipv6, root=root),
        "tap": interface,
        "routes": [_IPV4, _IPV6] if ipv6 else [_IPV4],
        "middle": middle,
        "middle_settings": middle_settings(ipv6=ipv6) if middle else [],
        "middle_rules": scripts.middle_rules(addresses, spec, intercept=intercept),
        "client_settings": client_settings(ports, ipv6=ipv6),
        "client_rules": scripts.client_rules(addresses, ports, ipv6=ipv6),
        "client_links": scripts.client_links(addresses, spec, f"{staging}/net", ipv6=ipv6)
        if middle
        else scripts.loopback(spec),
        "uplink_links": scripts.middle_links(addresses, spec, ipv6=ipv6) if middle else scripts.way_back(ipv6=ipv6),
        "shaping": [scripts.shaping(each) for each in shaped],
        "files": files,
    }
    return Plan(order, uplink, addresses, ipv6, ports, shaped)


def client_settings(ports: Ports, *, ipv6: bool) -> list[tuple[str, str]]:
    """Give the sysctls of C, before it has an interface."""
    settings = [("/proc/sys/net/ipv4/conf/all/route_localnet", "1"), reserved(ports)]
    # Without a way out for it ::1 goes too: it could not be the host's, and would refuse what the host serves.
    settings.append(_NO_PROBING if ipv6 else ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"))
    return settings


def middle_settings(*, ipv6: bool) -> list[tuple[str, str]]:
    """Give the sysctls of M, before it has an interface."""
    settings = [("/proc/sys/net/ipv4/ip_forward", "1")]
    return [*settings, _NO_PROBING, ("/proc/sys/net/ipv6/conf/all/forwarding", "1")] if ipv6 else settings


def reserved(ports: Ports) -> tuple[str, str]:
    """Give the sysctl that keeps the command's own sockets from taking a port that stands for the host's by chance."""
    text = ""
    for port in sorted(set().union(*ports.values())):
        if len(text) > _SYSCTL_ROOM:  # the rest is left to chance
            break
        text += f",{port}" if text else str(port)
    return "/proc/sys/net/ipv4/ip_local_reserved_ports", text + "\n"


def without_what_the_kernel_lacks(spec: IsolateSpec) -> list[IsolateSpec]:
    """Give the flags as they are and, one by one, without those for which a kernel may have no queueing discipline."""
    found = [spec]
    for each in (replace(spec, delay_ms=0.0), replace(spec, rate_mbit=0.0)):
        if each not in found:
            found.append(each)
    neither = replace(spec, delay_ms=0.0, rate_mbit=0.0)
    return found if neither in found else [*found, neither]


def _staging(needed: list[str]) -> str:
    """Give a folder that may be covered for the time of the set-up, by which pasta finds the network it joins.

    AppArmor's profile of pasta (Debian's, Ubuntu's) lets it open one below /run/user alone.
    """
    runtime = Path("/run/user")
    users = [runtime / str(os.getuid()), *(sorted(runtime.iterdir()) if runtime.is_dir() else ())]
    for path in (*users, *map(Path, _STAGING)):
        real = path.resolve()
        if _is_folder(real) and not any(Path(each).resolve().is_relative_to(real) for each in needed):
            return str(real)
    raise IsolateError(f"--isolate: none of the folders {', '.join(_STAGING)} is there to mount something on")


def _is_folder(path: Path) -> bool:
    return path.is_dir() and os.access(path, os.X_OK)
