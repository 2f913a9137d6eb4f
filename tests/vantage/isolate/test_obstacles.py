from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.vantage.isolate import obstacles
from h3probe.vantage.isolate.obstacles import IsolateError, check_platform, check_tools, check_tun, explain, no_uplink

if TYPE_CHECKING:
    from pathlib import Path


def one_line(error: IsolateError) -> str:
    """The message, which is one line, says the option and names the way that needs nothing."""
    text = str(error)
    assert "\n" not in text
    assert text.startswith("--isolate: ")
    assert "--relay PORT=HOST:PORT" in text
    assert error.exit_status == 2
    return text


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc in which nothing forbids anything."""
    monkeypatch.setattr(obstacles, "_PROC", tmp_path)
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n")
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/user").mkdir()
    return tmp_path


def test_another_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux the relay is named."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(IsolateError) as caught:
        check_platform()
    assert "Linux" in one_line(caught.value)


def test_missing_tools_are_named_with_their_packages() -> None:
    """What is missing, and what brings it."""
    with pytest.raises(IsolateError) as caught:
        check_tools({"ip": None, "nft": None})
    assert "`ip` and `nft` not found: install iproute2 nftables" in one_line(caught.value)
    check_tools({"ip": "/sbin/ip"})


def test_a_missing_device(tmp_path: Path) -> None:
    """Without /dev/net/tun the module and the container's option are named."""
    with pytest.raises(IsolateError) as caught:
        check_tun(str(tmp_path / "tun"))
    assert "modprobe tun" in one_line(caught.value)


def test_a_closed_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that this user may not open."""
    path = tmp_path / "tun"
    path.touch()
    check_tun(str(path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(IsolateError) as caught:
        check_tun(str(path))
    assert f"chmod 0666 {path}" in one_line(caught.value)


def test_no_uplink() -> None:
    """What was found instead, and what to install."""
    assert "a pasta older than 2024, no slirp4netns here: install passt" in one_line(
        no_uplink(["a pasta older than 2024", "no slirp4netns"])
    )


@pytest.mark.parametrize(
    ("setting", "value", "number", "words"),
    [
        ("user/max_user_namespaces", "0", errno.ENOSPC, "sudo sysctl user.max_user_namespaces=10000"),
        ("kernel/unprivileged_userns_clone", "0", errno.EPERM, "sudo sysctl kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            errno.EPERM,
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_settings_are_named(proc: Path, setting: str, value: str, number: int, words: str) -> None:
    """The setting that forbids it, and the command that mends it."""
    (proc / "sys" / setting).write_text(f"{value}\n")
    assert words in one_line(explain("user namespace", number, ""))


def test_apparmor_is_named_when_a_later_step_fails(proc: Path) -> None:
    """Under its restriction the namespace is made, and the rights in it are missing."""
    (proc / "sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    assert "AppArmor" in one_line(explain("pid namespace", errno.EPERM, ""))
    assert "AppArmor" in one_line(explain("rules", 0, "netlink: Error: Operation not permitted"))


def test_a_chroot_and_a_container(proc: Path) -> None:
    """Without any setting in the way: a chroot, or, with a filter on system calls, a container."""
    assert "chroot" in one_line(explain("user namespace", errno.EPERM, ""))
    (proc / "self/status").write_text("Seccomp:\t2\n")
    assert "seccomp=unconfined" in one_line(explain("user namespace", errno.EPERM, ""))


def test_root_in_a_container() -> None:
    """Root without its capabilities is told which ones."""
    assert "--cap-add SYS_ADMIN" in one_line(explain("pid namespace", errno.EPERM, "", root=True))


def test_settings_that_are_read_only() -> None:
    """A container's /proc/sys, and the option that opens it."""
    line = one_line(explain("/proc/sys/net/ipv4/ip_forward", errno.EROFS, ""))
    assert "ip_forward is read-only" in line
    assert "systempaths=unconfined" in line


def test_an_uplink_that_ends_or_hangs() -> None:
    """What it said last is quoted on the one line."""
    assert "ended at once (No such\tdevice)".replace("\t", " ") in one_line(explain("uplink", 0, "No such\n device"))
    assert "gave no network within 5 s" in one_line(explain("uplink", errno.ETIMEDOUT, ""))


def test_rules_that_the_kernel_refuses() -> None:
    """nft's own words, and the question they raise."""
    assert "nf_tables" in one_line(explain("rules", 0, "Error: Could not process rule: No such file or directory"))


def test_anything_else_is_quoted() -> None:
    """A step and its reason."""
    assert "no links: RTNETLINK answers: File exists" in one_line(explain("links", 0, "RTNETLINK answers: File exists"))
    assert "no mount: Invalid argument" in one_line(explain("mount", errno.EINVAL, ""))
