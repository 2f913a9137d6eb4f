"""What `init.py` asks of the kernel that Python has no words for, and how it tells that something was refused.

The numbers are those of linux/prctl.h, linux/mount.h and linux/capability.h.
"""

from __future__ import annotations

import ctypes
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE, _PR_CAP_AMBIENT_CLEAR_ALL = 2, 4
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):  # noqa: N818 - it is a report of the set-up, and reads like one
    """A step of the set-up that was not possible.

    Attributes:
        step: Its name.
        number: The errno; 0 where a program failed.
        said: What the program said.
    """

    def __init__(self, step: str, number: int, said: str = "") -> None:
        super().__init__(step)
        self.step, self.number, self.said = step, number, said


def step(name: str, action: Callable[[], object]) -> None:
    """Do something; `Failed` with the name where the kernel refuses."""
    try:
        action()
    except OSError as error:
        raise Failed(name, error.errno or 0) from error


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount something, as the system call of that name does."""
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    if _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def write(path: str, text: str) -> None:
    """Write a file that exists with one call, as those of /proc want it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def set_value(path: str, value: str) -> None:
    """Set a sysctl by its path, where it exists; `Failed` with the path where it cannot be set."""
    try:
        write(path, value)
    except FileNotFoundError:  # a kernel without IPv6
        return
    except OSError as error:
        raise Failed(path, error.errno or 0) from error


def unmount(target: str) -> None:
    """Take away what is mounted on a folder; what is bound elsewhere stays there."""
    _libc.umount2(target.encode(), _MNT_DETACH)


def enter_user_namespace(plan: dict[str, Any]) -> None:
    """Make a user namespace in which this user has all capabilities, and the number that it has outside."""
    if not plan["user_namespace"]:
        return
    uid, gid = os.geteuid(), os.getegid()
    step("user namespace", lambda: os.unshare(os.CLONE_NEWUSER))
    # Without this an ordinary user may not map a group: one could be left that a file's permissions shut out.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        step("user map", partial(write, f"/proc/self/{name}", text))


def drop_privileges(order: dict[str, Any]) -> None:
    """Let the program that is executed next have what this user has outside, and become the user of the order."""
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _set_inheritable(0)
    if order["user"] is not None:
        uid, gid, groups = order["user"]
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def keep_capabilities_over_exec() -> None:
    """Let the programs of the set-up have this process's capabilities, although the user is not 0 (capabilities(7))."""
    if os.geteuid() == 0:
        return
    _set_inheritable((1 << 64) - 1)
    for capability in range(64):
        if _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0) < 0:
            break


def _set_inheritable(mask: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the upper halves of them
    _libc.capget(header, sets)
    sets[2], sets[5] = sets[1] & mask, sets[4] & (mask >> 32)
    _libc.capset(header, sets)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; to be asked again after a change of credentials."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
