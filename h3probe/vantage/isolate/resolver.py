"""The command's own resolv.conf: the host's, with the one name server that can be reached from inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATH = Path("/etc/resolv.conf")
_KEPT = (["search"], ["domain"], ["options"], ["sortlist"])

# Sockets on which the C library asks resolving services past resolv.conf, when they are there: names would be looked up
# outside, unseen. One that cannot be connected to has it send DNS queries (nss-resolve(8), nscd(8)).
_SERVICES = (Path("/run/systemd/resolve/io.systemd.Resolve"), Path("/run/nscd/socket"))


def resolv_conf(host: str, server: str) -> str:
    """Give the text of a resolv.conf(5) with `server` for all name servers of `host`; search list and options stay."""
    kept = [line for line in host.splitlines() if line.split()[:1] in _KEPT]
    return "".join(f"{line}\n" for line in [f"nameserver {server}", *kept])


def replacements(server: str, path: Path = _PATH, services: Sequence[Path] = _SERVICES) -> list[tuple[str, str]]:
    """Give what is to be covered inside, real paths (resolv.conf may be a link to another program's file) and texts.

    Without a resolv.conf nothing is: names are then looked up as outside, which is probably in vain.
    """
    real = path.resolve()
    try:
        text = real.read_text(errors="surrogateescape")
    except OSError:
        return []
    return [(str(real), resolv_conf(text, server)), *((str(each), "") for each in services if _exists(each))]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a folder that this user may not enter; then nor may the command
        return False
