"""The way out of the middle namespace that needs no privileges: pasta, or slirp4netns where pasta is not to be had."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from h3probe.vantage.isolate.addresses import PASTA, SLIRP
from h3probe.vantage.isolate.scripts import UPLINK_MTU

if TYPE_CHECKING:
    from h3probe.vantage.isolate.addresses import Addresses

PASTA_SINCE: Final = 2024_01_01
"""The date of the oldest pasta that is used: Debian 12's, of March 2023, hangs."""
_MAP_HOST_LOOPBACK_SINCE: Final = 2024_08_21
SLIRP_SINCE: Final = (1, 2)

_TOOL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Uplink:
    """A program that connects a network namespace with the host.

    Attributes:
        name: "pasta" or "slirp4netns".
        program: Its path.
        version: As it tells it.
        addresses: Who has which address behind it.
        ipv6: Whether it carries IPv6.
        icmp_errors: Whether ICMP errors from outside come back through it.
    """

    name: str
    program: str
    version: str
    addresses: Addresses
    ipv6: bool
    icmp_errors: bool

    def argv(self, netns: str, interface: str, *, ipv6: bool, root: bool) -> list[str]:
        """Give its command line.

        Args:
            netns: A path of the namespace it connects.
            interface: The name of its end there.
            ipv6: Whether IPv6 is wanted, and the host has a default route for it.
            root: Whether it runs as root, outside of a user namespace.
        """
        if self.name == "pasta":
            return self._pasta(netns, interface, ipv6=ipv6, root=root)
        network = self.addresses.tap.rpartition(".")[0] + f".0/{self.addresses.tap_prefix}"
        options = ["--configure", f"--mtu={UPLINK_MTU}", f"--cidr={network}", "--netns-type=path"]
        return [self.program, *options, netns, interface]

    def _pasta(self, netns: str, interface: str, *, ipv6: bool, root: bool) -> list[str]:
        at = self.addresses
        # The gateway's address stands for the host's loopback in every version that has a gateway; newer ones get by
        # without (a host without routes), and have an option.
        options = ["--foreground", "--quiet", "--config-net", "--ns-ifname", interface, "--mtu", str(UPLINK_MTU)]
        options += ["-a", at.tap, "-n", str(at.tap_prefix), "-g", at.host, "--dns-forward", at.dns]
        newer = pasta_date(self.version) >= _MAP_HOST_LOOPBACK_SINCE
        if newer:
            options += ["--map-host-loopback", at.host]
        if ipv6:
            options += ["-a", at.tap6, "-g", at.host6]
            options += ["--map-host-loopback", at.host6] if newer else []
        else:
            options.append("--ipv4-only")
        options += ["--no-dhcp", "--no-dhcpv6", "--no-ra", "--no-ndp"] if not ipv6 else ["--no-dhcp", "--no-dhcpv6"]
        # Nobody outside connects to the command, and it finds the host's ports by address.
        options += ["-t", "none", "-u", "none", "-T", "none", "-U", "none"]
        options += ["--netns-only", "--no-netns-quit", "--netns", netns]
        if root:
            options += ["--runas", "0"]  # nobody else may enter M; it gives up its capabilities itself
        return [self.program, *options]


def find_tool(name: str) -> str | None:
    """Give the path of a program, looked for where administrators' programs are, too."""
    return shutil.which(name) or shutil.which(name, path=_TOOL_PATH)


def find_uplink() -> tuple[Uplink | None, list[str]]:
    """Give the first that is there and new enough, and what was found instead of a better one."""
    rejected = []
    pasta = find_tool("pasta")
    if pasta is None:
        rejected.append("no pasta")
    else:
        said = _version(pasta)
        if pasta_date(said) >= PASTA_SINCE:
            return Uplink("pasta", pasta, said, PASTA, ipv6=True, icmp_errors=True), rejected
        rejected.append("a pasta older than 2024")
    slirp = find_tool("slirp4netns")
    if slirp is None:
        rejected.append("no slirp4netns")
    else:
        said = _version(slirp)
        if slirp_version(said) >= SLIRP_SINCE:
            return Uplink("slirp4netns", slirp, said, SLIRP, ipv6=False, icmp_errors=False), rejected
        rejected.append("a slirp4netns older than 1.2")
    return None, rejected


def pasta_date(said: str) -> int:
    """Give the date in what `pasta --version` says, such as `pasta 2024_09_06.6b38f07`, as 20240906; 0 without one."""
    found = re.search(r"(?<!\d)(20\d\d)_?(\d\d)_?(\d\d)(?!\d)", said)
    return int("".join(found.groups())) if found else 0


def slirp_version(said: str) -> tuple[int, int]:
    """Give major and minor of what `slirp4netns --version` says (`slirp4netns version 1.2.0`); zeros."""
    found = re.search(r"version (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _version(program: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the program that was found is asked what it is
            [program, "--version"], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0]
