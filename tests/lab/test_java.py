from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.lab.java import PROBE, find_java
from h3probe.lab.outcome import parse_outcome

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")


def stand_in(folder: Path, version: str, modules: str) -> str:
    """A program that answers as `java` does."""
    path = folder / "java"
    path.write_text(
        f"""#!/bin/sh
case $1 in
-version) echo '{version}' >&2 ;;
--list-modules) echo '{modules}' ;;
esac
"""
    )
    path.chmod(0o755)
    return str(path)


def test_probe_is_packaged() -> None:
    """Probe.java lies beside the module that runs it."""
    assert "final class Probe" in PROBE.read_text("utf-8")


def test_finds_a_jdk_26(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JDK 26 is taken from the path given, else from $H3PROBE_JAVA."""
    java = stand_in(tmp_path, 'openjdk version "26.0.2" 2026-07-21', "jdk.compiler@26.0.2")
    assert find_java(java).version == 'openjdk version "26.0.2" 2026-07-21'
    monkeypatch.setenv("H3PROBE_JAVA", java)
    assert find_java(None).program == java


def test_takes_a_jdks_folder(tmp_path: Path) -> None:
    """The home of a JDK stands for its launcher."""
    (tmp_path / "bin").mkdir()
    java = stand_in(tmp_path / "bin", 'openjdk version "27-ea"', "jdk.compiler@27")
    assert find_java(str(tmp_path)).program == java


@pytest.mark.parametrize(
    ("version", "modules", "complaint"),
    [
        ('openjdk version "17.0.15"', "jdk.compiler@17", "is Java 17; HTTP/3 came with Java 26"),
        ('openjdk version "26.0.2"', "java.base@26", "is a JRE"),
        ("no Java at all", "", "does not say that it is a Java"),
    ],
)
def test_unfit_java_is_one_line(tmp_path: Path, version: str, modules: str, complaint: str) -> None:
    """Too old, a JRE and something else are told apart."""
    with pytest.raises(UserError, match=complaint):
        find_java(stand_in(tmp_path, version, modules))


def test_missing_java_is_one_line(tmp_path: Path) -> None:
    """A path with nothing there is named."""
    with pytest.raises(UserError, match=r"no Java at .*: name a JDK 26"):
        find_java(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("line", "version", "status", "alt_svc", "error"),
    [
        (
            'request 1: HTTP_2 200 alt-svc=h3=":4433"; ma=3600 after 123 ms\n',
            "HTTP/2",
            200,
            'h3=":4433"; ma=3600',
            None,
        ),
        ("request 1: HTTP_3 404 alt-svc=- after 123 ms", "HTTP/3", 404, None, None),
        ("request 1: HTTP_1_1 200 alt-svc=- after 123 ms", "HTTP/1.1", 200, None, None),
        (
            "request 1: java.net.ConnectException: No response from peer for 2 seconds after 123 ms",
            None,
            None,
            None,
            "java.net.ConnectException: No response from peer for 2 seconds",
        ),
    ],
)
def test_lines_of_the_probe(
    line: str, version: str | None, status: int | None, alt_svc: str | None, error: str | None
) -> None:
    """Responses and failures are read as Probe.java prints them."""
    outcome = parse_outcome(line)
    assert outcome is not None
    assert (outcome.number, outcome.seconds) == (1, 0.123)
    assert (outcome.version, outcome.status, outcome.alt_svc, outcome.error) == (version, status, alt_svc, error)


@pytest.mark.parametrize("line", ["", "WARNING: something", "request x: HTTP_2 200 alt-svc=- after 1 ms"])
def test_other_lines_are_left_alone(line: str) -> None:
    """What the JVM prints beside it is no outcome."""
    assert parse_outcome(line) is None
