"""Why there is no isolation here, in one line, with the way around."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TUN: Final = "/dev/net/tun"
_PROC: Final = Path("/proc")

_RELAY: Final = "`h3probe watch --relay PORT=HOST:PORT`, which needs nothing"
_PACKAGES: Final = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
_UNPRIVILEGED: Final = "kernel.unprivileged_userns_clone"
_APPARMOR: Final = "kernel.apparmor_restrict_unprivileged_userns"
_MAXIMUM: Final = "user.max_user_namespaces"


class IsolateError(UserError):
    """There is no isolation to be had; the message is one line: the obstacle and the way around."""


def check_platform() -> None:
    """Raise `IsolateError` where there are no network namespaces."""
    if sys.platform != "linux":
        raise IsolateError(f"--isolate: network namespaces are Linux's alone; elsewhere take {_RELAY}")


def check_tun(path: str = TUN) -> None:
    """Raise `IsolateError` where the uplink could not make its interface."""
    if not Path(path).exists():
        raise IsolateError(
            f"--isolate: there is no {path}: `sudo modprobe tun`, in a container `--device {path}`, or take {_RELAY}"
        )
    if not os.access(path, os.R_OK | os.W_OK):
        raise IsolateError(
            f"--isolate: {path} is closed to this user: `sudo chmod 0666 {path}` opens it, as it is on most systems; "
            f"or use sudo, or {_RELAY}"
        )


def check_tools(found: Mapping[str, str | None]) -> None:
    """Raise `IsolateError` for programs that were looked for and not found."""
    missing = [name for name, path in found.items() if path is None]
    if missing:
        packages = " ".join(sorted({_PACKAGES[name] for name in missing}))
        what = " and ".join(f"`{name}`" for name in missing)
        raise IsolateError(f"--isolate: {what} not found: install {packages}, or take {_RELAY}")


def no_uplink(instead: Sequence[str]) -> IsolateError:
    """Word what was found in place of an uplink."""
    return IsolateError(
        f"--isolate: {', '.join(instead)} here: install passt (2024 or later) or slirp4netns (1.2 or later), "
        f"or take {_RELAY}"
    )


def explain(step: str, number: int, said: str, *, root: bool = False) -> IsolateError:
    """Word a step of `init.py` that failed.

    Args:
        step: Its name there.
        number: The errno; 0 where a program failed.
        said: What that program said.
        root: Whether it was root who failed.
    """
    said = " ".join(said.split())
    if step == "uplink":
        what = "gave no network within 5 s" if number == errno.ETIMEDOUT else "ended at once"
        return IsolateError(f"--isolate: the uplink {what}{_quoted(said)}; {_RELAY}")
    if number in {errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS} or "not permitted" in said:
        return _denied(step, number, root=root)
    if number == errno.EROFS:
        return IsolateError(
            f"--isolate: {step} is read-only, as in a container: start it with `--security-opt systempaths=unconfined` "
            f"(podman: `unmask=ALL`), run h3probe outside of it, or take {_RELAY}"
        )
    if step == "rules":
        return IsolateError(
            f"--isolate: nftables refused the rules{_quoted(said)}: is there a kernel with nf_tables and NAT? "
            f"Otherwise take {_RELAY}"
        )
    reason = said or (os.strerror(number) if number else "for an unknown reason")
    return IsolateError(f"--isolate: no {step}: {reason}; take {_RELAY}")


def _denied(step: str, number: int, *, root: bool) -> IsolateError:
    if root:
        return IsolateError(
            f"--isolate: root may make no {step} here, as in a container without CAP_SYS_ADMIN and CAP_NET_ADMIN: "
            f"start it with `--cap-add SYS_ADMIN --cap-add NET_ADMIN --device {TUN}`, or take {_RELAY}"
        )
    if number in {errno.ENOSPC, errno.EUSERS} or _setting(_MAXIMUM) == "0":
        return _switched_off(f"{_MAXIMUM}=0", f"{_MAXIMUM}=10000")
    if _setting(_UNPRIVILEGED) == "0":
        return _switched_off(f"{_UNPRIVILEGED}=0", f"{_UNPRIVILEGED}=1")
    if _setting(_APPARMOR) == "1":
        return IsolateError(
            "--isolate: AppArmor lets ordinary users have no user namespace with rights in it "
            f"({_APPARMOR}=1): `sudo sysctl {_APPARMOR}=0`, use sudo, or {_RELAY}"
        )
    if not _is_filtered():
        return IsolateError(
            f"--isolate: no {step} allowed here, as in a chroot: start h3probe outside of it, use sudo, or {_RELAY}"
        )
    return IsolateError(
        f"--isolate: no {step} allowed here, as in a container (its seccomp filter): start the container with "
        f"`--security-opt seccomp=unconfined --device {TUN}`, run h3probe outside of it, or take {_RELAY}"
    )


def _switched_off(setting: str, mended: str) -> IsolateError:
    return IsolateError(
        f"--isolate: user namespaces are switched off ({setting}): `sudo sysctl {mended}`, use sudo, or {_RELAY}"
    )


def _is_filtered() -> bool:
    """Whether a seccomp filter decides which system calls this process may make (proc(5))."""
    try:
        lines = (_PROC / "self/status").read_text().splitlines()
    except OSError:
        return True
    return "Seccomp:\t2" in lines


def _setting(name: str) -> str | None:
    try:
        return Path(_PROC, "sys", *name.split(".")).read_text().strip()
    except OSError:
        return None


def _quoted(said: str) -> str:
    return f" ({said[:200]})" if said else ""
