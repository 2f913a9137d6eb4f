"""What is known of where a run happens: versions, system, interfaces, proxy settings, the client, the clock.

No program is run for it, nobody is asked, and what is a credential is left out.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from h3probe import __version__
from h3probe.run.recorder import this_os
from h3probe.track.clock import Clock
from h3probe.vantage.proxy_settings import BYPASS_VARIABLES, JAVA_VARIABLE, PROXY_VARIABLES, kind_of
from h3probe.vantage.remote import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PACKAGES: Final = ("scapy", "mitmproxy", "cryptography", "aioquic", "dnspython", "h2", "pylsqpack", "psutil")
JAVA_VARIABLES: Final = (JAVA_VARIABLE, "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS", "SBT_OPTS")
COMMAND_LINE: Final = "command line"
"""Where settings of Java's may stand, too."""
WHOLE: Final = "whole packets"
TRIMMED: Final = "handshakes and headers"
"""What is kept of packets."""
JAVA_SETTING: Final = re.compile(
    r"-D(?:https?\.(?:proxyHost|proxyPort|nonProxyHosts)|socksProxy(?:Host|Port)|java\.net\.useSystemProxies"
    r"|jdk\.httpclient\.(?:HttpClient\.log|quic\.\w+|http3\.\w+|keepalive\.timeout[.\w]*))(?:=[^\s'\"]*)?"
)
RELEASE: Final = re.compile(
    r'^(?P<name>JAVA_VERSION|JAVA_RUNTIME_VERSION|IMPLEMENTOR)="(?P<value>[^"\r\n]*)"', re.MULTILINE
)
RELEASE_SIZE: Final = 1 << 16
HOME: Final = re.compile(r"^/(?:home|Users)/[^/]+|^/root(?=/)")


def of_run(
    command: Sequence[str], interfaces: Sequence[str], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What is known of a run before it begins.

    Args:
        command: What is to be run; empty for nothing.
        interfaces: The interfaces that were named; none means all.
        environment: The command's; this process's own unless given.
    """
    environment = os.environ if environment is None else environment
    return {
        **_versions(),
        "recorded": "live",
        "os": this_os(),
        "machine": platform.machine(),
        "interfaces": _interfaces(interfaces),
        "proxy_settings": proxy_settings(environment, command),
        "client": client(command) if command else None,
        "clock": {
            "began": Clock.rfc3339(time.time_ns()),
            "offset_from_utc_s": time.localtime().tm_gmtoff,
            "synchronized": True if Path("/run/systemd/timesync/synchronized").exists() else None,
        },
    }


def of_capture(files: Sequence[str]) -> dict[str, Any]:
    """What is known of captures that somebody made somewhere: nothing of this machine belongs to them."""
    return {**_versions(), "recorded": "elsewhere", "files": [Path(shown(name)).name for name in files]}


def proxy_settings(environment: Mapping[str, str], command: Sequence[str] = ()) -> dict[str, str]:
    """The settings that lead a client to a proxy, or past it, without user names and passwords."""
    found = {name: without_credentials(environment[name]) for name in PROXY_VARIABLES if environment.get(name)}
    found |= {name: environment[name] for name in BYPASS_VARIABLES if environment.get(name)}
    places = [(name, environment.get(name, "")) for name in JAVA_VARIABLES]
    for name, text in (*places, (COMMAND_LINE, " ".join(command[1:]))):
        settings = " ".join(JAVA_SETTING.findall(text))
        if settings:
            found[name] = settings
    return found


def without_credentials(url: str) -> str:
    """A proxy's URL, or its `host:port`, without what stands before its host."""
    scheme, mark, rest = url.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def client(command: Sequence[str]) -> dict[str, Any]:
    """What a command's name, and the file that it names, tell of it; its arguments may hold anything."""
    found: dict[str, Any] = {"program": Path(command[0]).name}
    where = shutil.which(command[0])
    if where is None:
        return found
    path = Path(where).resolve()
    found["path"] = HOME.sub("~", str(path))
    if kind_of(command) == "java":
        found |= _release(path.parent.parent / "release")
    return found


def _release(path: Path) -> dict[str, str]:
    """The version of a JDK, by the file that each one has."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return {found["name"].lower(): found["value"] for found in RELEASE.finditer(stream.read(RELEASE_SIZE))}
    except OSError:
        return {}


def _versions() -> dict[str, Any]:
    return {
        "h3probe": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: version for name in PACKAGES if (version := _version(name)) is not None},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _interfaces(named: Sequence[str]) -> list[dict[str, Any]]:
    import psutil  # noqa: PLC0415 - loaded when interfaces are looked at

    families = (socket.AF_INET, socket.AF_INET6)
    states = psutil.net_if_stats()
    return [
        {
            "name": name,
            "addresses": [each.address.partition("%")[0] for each in addresses if each.family in families],
            "up": name in states and states[name].isup,
            "mtu": states[name].mtu if name in states else None,
        }
        for name, addresses in sorted(psutil.net_if_addrs().items())
        if not named or name in named
    ]
