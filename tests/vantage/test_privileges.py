from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from h3probe.errors import PrivilegeError
from h3probe.vantage import privileges
from h3probe.vantage.privileges import User
from tests.vantage.conftest import needs_root

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.platform == "linux":
    import h3probe.vantage.linux  # noqa: F401 - here, since an unprivileged child may be unable to read it

# Test runners have threads; the children here only make system calls.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

NOBODY = User(65534, 65534, "nobody")


def in_child(function: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever JSON carries
    """Run a function in a forked process, and return what it returns; an exception comes back as its name."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = function()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = json.loads(pipe.read())
    os.waitpid(pid, 0)
    return answer


def tries() -> dict[str, str]:
    """What a process can still do of what takes root."""
    import socket  # noqa: PLC0415 - loaded in any case

    attempts: dict[str, Callable[[], object]] = {
        "setuid": lambda: os.setuid(0),
        "seteuid": lambda: os.seteuid(0),
        "setgid": lambda: os.setgid(0),
        "setgroups": lambda: os.setgroups([0]),
        "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close(),
        "read shadow": lambda: Path("/etc/shadow").read_bytes()[:0],
        "chroot": lambda: os.chroot("/"),
    }
    succeeded = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError:
            continue
        succeeded[name] = "succeeded"
    return succeeded


def state() -> dict[str, str]:
    """What the kernel says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {name: value for name, _, value in (line.partition(":\t") for line in lines)}


@needs_root
def test_drop_is_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """After dropping to a user nothing of root is left: identity, groups, capabilities, or a way back."""
    monkeypatch.setattr(privileges, "_python_is_readable_to", lambda _: True)

    def drop_and_try() -> list[Any]:
        changed = privileges.drop(NOBODY)
        return [changed, tries(), {name: state()[name] for name in ("Uid", "Gid", "Groups", "NoNewPrivs")}, caps()]

    changed, succeeded, kernel, capabilities = in_child(drop_and_try)
    assert changed
    assert succeeded == {}
    assert set(kernel["Uid"].split()) == set(kernel["Gid"].split()) == {"65534"}
    assert set(kernel["Groups"].split()) <= {"65534"}
    assert kernel["NoNewPrivs"] == "1"
    assert capabilities == [0] * 5


def caps() -> list[int]:
    """All five capability sets."""
    return [int(state()[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]


@needs_root
def test_nothing_is_gained_by_executing() -> None:
    """A program that root executes after giving up capabilities has none of them."""

    def give_up_and_execute() -> str:
        import subprocess  # noqa: PLC0415 - loaded in any case

        privileges.give_up_capabilities()
        code = "print([line for line in open('/proc/self/status') if line.startswith('CapEff')][0].split()[1])"
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert int(in_child(give_up_and_execute), 16) == 0


@needs_root
@pytest.mark.parametrize(
    ("options", "kept"),
    [({}, 1 << 5), ({"writes": True}, 1 << 5 | 1 << 1), ({"names_processes": True}, 1 << 5 | 1 << 19)],
    ids=["watch", "watch -w", "relay"],
)
def test_root_without_sudo_keeps_what_the_run_needs(options: dict[str, bool], kept: int) -> None:
    """With nobody to become, all capabilities go but those to end the command, to write, and to name processes."""

    def leave() -> list[Any]:
        privileges.leave_root(None, **options)
        return [os.geteuid(), caps()[1:3], state()["NoNewPrivs"]]

    assert in_child(leave) == [0, [kept, kept], "1"]


@needs_root
def test_capabilities_alone() -> None:
    """Root without a user to become keeps its number, and can do nothing that takes a capability."""

    def give_up() -> list[Any]:
        privileges.give_up_capabilities()
        return [os.geteuid(), caps(), sorted(tries())]

    uid, capabilities, succeeded = in_child(give_up)
    assert uid == 0
    assert capabilities == [0] * 5
    assert not {"packet socket", "chroot", "setgroups"} & set(succeeded)


@needs_root
def test_python_out_of_the_users_reach(tmp_path: Path) -> None:
    """Where the user could not read this Python's modules, the capabilities are given up and the identity is kept."""
    hidden = tmp_path / "root-only"
    hidden.mkdir(mode=0o700)

    def drop_with_hidden_modules() -> list[Any]:
        sys.path.append(str(hidden))
        return [privileges.drop(NOBODY), os.geteuid(), caps()]

    assert in_child(drop_with_hidden_modules) == [False, 0, [0] * 5]


@needs_root
def test_asking_whether_python_is_readable_changes_nothing() -> None:
    """The question is asked as the user, and root is itself again afterwards."""

    def ask() -> list[Any]:
        before = [os.getresuid(), os.getresgid(), os.getgroups()]
        privileges._python_is_readable_to(NOBODY)
        return [before == [os.getresuid(), os.getresgid(), os.getgroups()]]

    assert in_child(ask) == [True]


@needs_root
def test_drop_that_fails_is_an_error() -> None:
    """A drop that the system refuses is an error; nothing goes on as root by mistake."""

    def drop_twice() -> None:
        os.setuid(65534)
        privileges.drop(User(1, 1, "daemon"))

    assert in_child(drop_twice).startswith("PrivilegeError: root could not be given up for daemon")


def test_drop_without_root_is_an_error() -> None:
    """Whoever is not root cannot become another user."""

    def drop() -> None:
        if os.geteuid() == 0:
            os.setuid(65534)
        privileges.drop(User(1, 1, "daemon"))

    if sys.platform == "win32":
        pytest.skip("there are no users of this kind on Windows")
    assert in_child(drop).startswith(PrivilegeError.__name__)


@needs_root
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SUDO_UID": "1000", "SUDO_GID": "1001", "SUDO_USER": "someone"}, User(1000, 1001, "someone")),
        ({"SUDO_UID": "1000", "SUDO_GID": "1001"}, User(1000, 1001, "1000")),
        ({"SUDO_UID": "0", "SUDO_GID": "0", "SUDO_USER": "root"}, None),
        ({"SUDO_UID": "1000"}, None),
        ({"SUDO_UID": "-1", "SUDO_GID": "1"}, None),
        ({"SUDO_UID": "x", "SUDO_GID": "1"}, None),
        ({}, None),
    ],
)
def test_sudo_user(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: User | None) -> None:
    """Who called sudo is read from its variables; root itself, and nonsense, is nobody."""
    for name in ("SUDO_UID", "SUDO_GID", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert privileges.sudo_user() == expected


@needs_root
def test_sudo_variables_mean_nothing_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is not root was not started through sudo to be root, whatever its environment says."""
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "1000")

    def ask() -> object:
        os.setuid(65534)
        return privileges.sudo_user()

    assert in_child(ask) is None


@needs_root
def test_files_go_back_to_the_user(tmp_path: Path) -> None:
    """A file that root made is given to the user; a link is given itself, and its target stays root's."""
    made, target, link = tmp_path / "made", tmp_path / "target", tmp_path / "link"
    made.touch()
    target.touch()
    link.symlink_to(target)
    for path in (made, link):
        privileges.chown_to_user(path, NOBODY)
    assert (made.stat().st_uid, made.stat().st_gid) == (65534, 65534)
    assert link.lstat().st_uid == 65534
    assert target.stat().st_uid == 0


def test_file_stays_without_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sudo a file stays whose it is."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    made = tmp_path / "made"
    made.touch()
    privileges.chown_to_user(made)
    assert made.stat().st_uid == os.geteuid()


def test_environment_of_the_user() -> None:
    """The user's command sees the user's home and name, its own variables, and nothing of sudo."""
    environment = {"HOME": "/root", "USER": "root", "SUDO_UID": "1", "SUDO_COMMAND": "h3probe", "JAVA_HOME": "/jdk"}
    assert privileges.environment_of(User(1, 1, "daemon"), environment) == {
        "HOME": "/usr/sbin",
        "USER": "daemon",
        "LOGNAME": "daemon",
        "SHELL": "/usr/sbin/nologin",
        "JAVA_HOME": "/jdk",
    }


def test_environment_of_an_unknown_user() -> None:
    """A user whom this host does not know keeps the environment, under the name that sudo gave."""
    assert privileges.environment_of(User(4_000_000, 1, "far"), {"HOME": "/h"}) == {
        "HOME": "/h",
        "USER": "far",
        "LOGNAME": "far",
    }
