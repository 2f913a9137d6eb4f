"""Giving up root once the sockets are open, and giving files back to whoever called sudo.

The order that `watch` keeps: open the sockets, start `ProcessesHelper`, start the command (as the user who called
sudo), then `leave_root`. What parses hostile packets from then on can neither become root again nor gain anything by
executing a set-user-ID program.

Root without sudo (a container, usually) has no user to become. The process stays user 0, and owns what user 0 owns,
but gives up all capabilities that the run still has no need of (`docs/threat-model.md` says which it keeps).
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from h3probe.errors import PrivilegeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class User(NamedTuple):
    """A user of this host.

    Attributes:
        uid: Its number.
        gid: Its primary group's number.
        name: Its name.
    """

    uid: int
    gid: int
    name: str


def sudo_user() -> User | None:
    """Who called sudo to start this process; None without sudo, and for root itself."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    try:
        uid, gid = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    return User(uid, gid, os.environ.get("SUDO_USER", str(uid))) if uid > 0 and gid >= 0 else None


def groups_of(user: User) -> list[int]:
    """The groups a login of this user would have."""
    try:
        return os.getgrouplist(user.name, user.gid)
    except OSError:
        return [user.gid]


def environment_of(user: User, environment: dict[str, str] | None = None) -> dict[str, str]:
    """An environment (this process's own, unless given) as it is for the user, without the marks of sudo."""
    import pwd  # noqa: PLC0415 - there is no such module on Windows, and no sudo

    result = dict(os.environ if environment is None else environment)
    for name in ("SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "SUDO_HOME"):
        result.pop(name, None)
    result |= {"USER": user.name, "LOGNAME": user.name}
    try:
        entry = pwd.getpwuid(user.uid)
    except KeyError:  # a user of another host's directory: sudo knew the name, this host does not
        return result
    return result | {"HOME": entry.pw_dir, "SHELL": entry.pw_shell}


def chown_to_user(path: Path, user: User | None = None) -> None:
    """Give a file that root made to the user who called sudo; nothing to do without one.

    Raises:
        OSError: There is no such file. A symbolic link is given itself, not what it points to.
    """
    user = user or sudo_user()
    if user is not None:
        os.chown(path, user.uid, user.gid, follow_symlinks=False)


@contextlib.contextmanager
def acting_as(user: User | None) -> Iterator[None]:
    """Be this user for a moment, as far as files go: what is made then is theirs, and made where they may.

    Nothing happens without a user. Single-threaded code only: it is the whole process that acts as the user.
    """
    if user is None:
        yield
        return
    groups = os.getgroups()
    try:
        os.setgroups(groups_of(user))
        os.setegid(user.gid)
        os.seteuid(user.uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def drop(user: User) -> bool:
    """Become this user for good: identity, groups, capabilities, and no way back.

    Returns:
        False when only the capabilities were given up, because this Python could not be read any more as that user
        (`sudo uv run` with a Python under /root): a module that is imported later must still be found.

    Raises:
        PrivilegeError: It could not be done, or root could be had again; the process must not go on.
    """
    try:
        if sys.platform == "linux":
            from h3probe.vantage import linux  # noqa: PLC0415 - Linux only

            linux.drop_bounding_set()
        if not _python_is_readable_to(user):
            give_up_capabilities()
            return False
        os.setgroups(groups_of(user))
        os.setgid(user.gid)  # called by root, these set the real, the effective and the saved one
        os.setuid(user.uid)
        give_up_capabilities()
    except OSError as error:
        raise PrivilegeError(f"root could not be given up for {user.name}: {error.strerror}") from error
    if _can_become_root():
        raise PrivilegeError(f"root was given up for {user.name} and could be had again; stopping")
    return True


def _python_is_readable_to(user: User) -> bool:
    folders = [folder for folder in (*sys.path, sys.prefix, sys.base_prefix) if folder and Path(folder).is_dir()]
    with acting_as(user):
        return all(os.access(folder, os.R_OK | os.X_OK, effective_ids=True) for folder in folders)


def leave_root(user: User | None, *, writes: bool = False, names_processes: bool = False) -> None:
    """Go on as this user; without one, as whoever this is, with no capabilities but those that are still needed.

    Args:
        user: Who called sudo.
        writes: Whether files are still to be made, in folders that may be anybody's.
        names_processes: Whether this process looks for the owners of sockets itself.

    Raises:
        PrivilegeError: It could not be done; the process must not go on.
    """
    if user is not None:
        drop(user)
        return
    if sys.platform != "linux":
        return
    from h3probe.vantage import linux  # noqa: PLC0415 - Linux only

    keep = [linux.CAP_KILL]  # a command may become somebody else, and be told to end
    keep += [linux.CAP_DAC_OVERRIDE] if writes else []
    keep += [linux.CAP_SYS_PTRACE] if names_processes else []
    try:
        give_up_capabilities(keep)
    except OSError as error:
        raise PrivilegeError(f"capabilities could not be given up: {error.strerror}") from error


def give_up_capabilities(keep: Collection[int] = ()) -> None:
    """Empty all capability sets but for what of `keep` there is, for good (Linux; elsewhere there are none)."""
    if sys.platform == "linux":
        from h3probe.vantage import linux  # noqa: PLC0415 - Linux only

        linux.limit_capabilities(linux.permitted_among(keep))
        linux.no_new_privileges()


def _can_become_root() -> bool:
    try:
        os.setuid(0)
    except OSError:
        return False
    return True
