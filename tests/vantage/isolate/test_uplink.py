from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from h3probe.vantage.isolate import uplink
from h3probe.vantage.isolate.addresses import PASTA, SLIRP
from h3probe.vantage.isolate.uplink import Uplink, find_uplink, pasta_date, slirp_version

if TYPE_CHECKING:
    from pathlib import Path

FAMILIES = {"ipv6": True, "root": False}


@pytest.mark.parametrize(
    ("said", "date"),
    [
        ("pasta 0.0~git20261002.cba3570-1", 20261002),
        ("pasta 2024_09_06.6b38f07", 20240906),
        ("pasta 0^20240726.g57a21d2-1.fc40.x86_64", 20240726),
        ("pasta 0.0~git20230309.7c7625d-1", 20230309),
        ("pasta unknown version", 0),
        ("", 0),
    ],
)
def test_pastas_date(said: str, date: int) -> None:
    """Debian's, Fedora's and upstream's ways to write it are read."""
    assert pasta_date(said) == date


@pytest.mark.parametrize(
    ("said", "version"),
    [("slirp4netns version 1.2.0", (1, 2)), ("slirp4netns version 1.3.3+dev", (1, 3)), ("?", (0, 0))],
)
def test_slirps_version(said: str, version: tuple[int, int]) -> None:
    """Major and minor, or zeros."""
    assert slirp_version(said) == version


def fake(folder: Path, name: str, said: str) -> None:
    """A program that says which version it is."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "name", "rejected"),
    [
        (("pasta 2025_01_21.4f2c8e7", "slirp4netns version 1.2.0"), "pasta", []),
        (("pasta 0.0~git20230309.7c7625d-1", "slirp4netns version 1.2.0"), "slirp4netns", ["a pasta older than 2024"]),
        ((None, "slirp4netns version 1.2.0"), "slirp4netns", ["no pasta"]),
        ((None, "slirp4netns version 1.0.1"), None, ["no pasta", "a slirp4netns older than 1.2"]),
        ((None, None), None, ["no pasta", "no slirp4netns"]),
    ],
)
def test_the_best_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[str | None, str | None],
    name: str | None,
    rejected: list[str],
) -> None:
    """pasta before slirp4netns, nothing that is too old, and what was rejected is told."""
    for program, version in zip(("pasta", "slirp4netns"), said, strict=True):
        if version is not None:
            fake(tmp_path, program, version)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(uplink, "_TOOL_PATH", str(tmp_path))
    found, instead = find_uplink()
    assert (found.name if found else None, instead) == (name, rejected)


def pasta_of(version: str) -> Uplink:
    """A pasta."""
    return Uplink("pasta", "/usr/bin/pasta", version, PASTA, ipv6=True, icmp_errors=True)


def test_an_old_pasta_has_the_gateway_for_the_hosts_loopback() -> None:
    """The option of August 2024 is given to nobody older."""
    old = pasta_of("pasta 0.0~git20240220.1e6f92b-1").argv("/n", "tap0", **FAMILIES)
    new = pasta_of("pasta 2024_08_21.1d6142f").argv("/n", "tap0", **FAMILIES)
    assert "--map-host-loopback" not in old
    assert new[new.index("--map-host-loopback") + 1] == PASTA.host
    for argv in (old, new):
        assert [argv[at + 1] for at, word in enumerate(argv) if word == "-g"] == [PASTA.host, PASTA.host6]


def test_without_ipv6_pasta_is_told_so() -> None:
    """IPv6 of the host is not passed on unasked."""
    argv = pasta_of("pasta 2026_01_01.x").argv("/n", "eth0", ipv6=False, root=False)
    assert "--ipv4-only" in argv
    assert PASTA.tap6 not in argv


def test_root_stays_root_and_nobody_connects() -> None:
    """As root pasta stays root, since nobody else may enter; and it forwards no port into the namespace."""
    argv = pasta_of("pasta 2026_01_01.x").argv("/n", "eth0", ipv6=False, root=True)
    assert argv[argv.index("--runas") + 1] == "0"
    assert [argv[argv.index(option) + 1] for option in ("-t", "-u", "-T", "-U")] == ["none"] * 4
    assert argv[argv.index("--netns") + 1] == "/n"


def test_slirp_takes_its_addresses_from_its_network() -> None:
    """slirp4netns is given the network of which it takes the second, third and hundredth address."""
    slirp = Uplink("slirp4netns", "/usr/bin/slirp4netns", "", SLIRP, ipv6=False, icmp_errors=False)
    argv = slirp.argv("/n", "tap0", **FAMILIES)
    assert "--cidr=198.18.1.0/24" in argv
    assert argv[-2:] == ["/n", "tap0"]
