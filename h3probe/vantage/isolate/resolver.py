"""The command's own resolv.conf: the host's, with the one name server that can be reached from inside."""

from __future__ import annotations

from pathlib import Path

_PATH = Path("/etc/resolv.conf")


def resolv_conf(host: str, server: str) -> str:
    """Give the text of a resolv.conf(5) with `server` for all name servers of `host`; search list and options stay."""
    kept = [
        line for line in host.splitlines() if line.split()[:1] in (["search"], ["domain"], ["options"], ["sortlist"])
    ]
    return "".join(f"{line}\n" for line in [f"nameserver {server}", *kept])


def replacement(server: str, path: Path = _PATH) -> tuple[str, str] | None:
    """Give the real path to be replaced (it may be a link to another program's file) and its text; None without one."""
    real = path.resolve()
    try:
        text = real.read_text(errors="surrogateescape")
    except OSError:
        return None
    return str(real), resolv_conf(text, server)
