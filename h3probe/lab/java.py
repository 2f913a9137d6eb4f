"""Real Java: found, checked, and the programs of the lab compiled for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError
from h3probe.vantage.clientlog.jdk import CATEGORIES, PROPERTY

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority
    from h3probe.lab.clients import Place
    from h3probe.lab.scenario import Scenario

PROBE: Final = Path(__file__).with_name("Probe.java")
PLAIN: Final = Path(__file__).with_name("Plain.java")
_WANTED: Final = 26
_FIRST: Final = 11
"""The Java that HttpClient came with."""
_CHECK_SECONDS: Final = 20.0
_IDLE_MS: Final = 2500
"""Longer than the keep-alive of one second that the scenarios set."""

_VERSION: Final = re.compile(r'version "(\d+)')
_USUAL: Final = "/usr/lib/jvm/java-25*/bin/java"


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that can run the lab's programs.

    Attributes:
        program: Its launcher.
        version: What `java -version` says about itself, one line.
    """

    program: str
    version: str


def find_java(path: str | None) -> JavaRuntime:
    """Find a JDK 26: at `path`, else where $H3PROBE_JAVA says, else on PATH.

    Args:
        path: A launcher, or the folder of a JDK.

    Raises:
        UserError: There is none, or it is too old, or it cannot run source files; one line says which.
    """
    program, said, version = _look(path or os.environ.get("H3PROBE_JAVA") or "java", _WANTED, "--java")
    if version < _WANTED:
        raise UserError(f"{program} is Java {version}; HTTP/3 came with Java {_WANTED}: name one with --java PATH")
    if "jdk.compiler" not in ask(program, "--list-modules"):
        raise UserError(f"{program} is a JRE; compiling Probe.java needs a JDK {_WANTED}")
    return JavaRuntime(program, said)


def find_java_before_http3(path: str | None) -> JavaRuntime:
    """Find a Java 25, or another one since 11: at `path`, else in $JAVA25_HOME, else where Debian has it.

    Raises:
        UserError: There is none, or it is another one.
    """
    usual = next((str(each) for each in sorted(Path("/").glob(_USUAL.lstrip("/")))), "java25")
    program, said, version = _look(path or os.environ.get("JAVA25_HOME") or usual, _WANTED - 1, "--java25")
    if not _FIRST <= version < _WANTED:
        raise UserError(f"{program} is Java {version}; this takes one from before HTTP/3: name it with --java25 PATH")
    return JavaRuntime(program, said)


def _look(wanted: str, release: int, option: str) -> tuple[str, str, int]:
    """The launcher, what it says of itself in one line, and its release."""
    launcher = Path(wanted, "bin", "java") if Path(wanted).is_dir() else wanted
    program = shutil.which(launcher)
    if program is None:
        variable = "H3PROBE_JAVA" if release == _WANTED else "JAVA25_HOME"
        raise UserError(f"no Java at {wanted}: name a JDK {release} with {option} PATH or ${variable}")
    said = ask(program, "-version")
    version = _VERSION.search(said)
    if version is None:
        raise UserError(f"{program} does not say that it is a Java: name a JDK {release} with {option} PATH")
    # Not always the first line: JAVA_TOOL_OPTIONS makes the JVM speak before.
    return program, next(line.strip() for line in said.splitlines() if version[0] in line), int(version[1])


def compile_programs(java: JavaRuntime, authority: Authority) -> Path:
    """Compile Probe.java and Plain.java once, into the authority's folder: launches from source take a second more.

    Returns:
        The folder, in which Java is to be run with relative names: a launcher may run it where the paths of this
        machine mean something else.

    Raises:
        UserError: One of them does not compile.
    """
    folder = authority.trust_store.parent
    for source, release in ((PROBE, _WANTED), (PLAIN, _FIRST)):
        compiled = folder / f"{source.stem}.class"
        if not compiled.exists():
            shutil.copyfile(source, folder / source.name)
            javac = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", str(release), "-d", ".", source.name]
            said = ask(java.program, *javac, folder=folder)
            if not compiled.exists():
                raise UserError(f"{java.program} does not compile {source.name}: {said.strip().partition(chr(10))[0]}")
    return folder


def ask(program: str, *arguments: str, folder: Path | None = None) -> str:
    """What a program prints.

    Raises:
        UserError: It cannot be run, or takes too long.
    """
    try:
        done = subprocess.run(  # noqa: S603 -- the program that the user named
            [program, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{program} cannot be run: {error}") from None
    return done.stderr + done.stdout


def command_line(java: JavaRuntime, scenario: Scenario, place: Place) -> list[str]:
    """The command that plays a scenario, for the folder that `compile_programs` gives.

    Args:
        java: What runs it.
        scenario: How many requests, and with which settings.
        place: Where.
    """
    from h3probe.lab.authority import TRUST_STORE_PASSWORD  # noqa: PLC0415 -- loads cryptography

    how = scenario.java
    properties = list(how.properties)
    if how.connect_timeout_ms:
        properties.append(f"probe.connectTimeout={how.connect_timeout_ms}")
    if how.clients:
        properties.append(f"probe.clients={how.clients}")
    if place.trusts:
        properties.append(f"javax.net.ssl.trustStore={place.authority.trust_store.name}")
        properties.append(f"javax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD}")
    if place.log is not None:
        properties.append(f"{PROPERTY}={CATEGORIES}")
    if place.proxy_port and how.program == "Plain":
        properties += ["https.proxyHost=127.0.0.1", f"https.proxyPort={place.proxy_port}"]
    argv = [java.program, *(f"-D{each}" for each in properties), "-cp", "."]
    if how.program == "Plain":
        argv += [PLAIN.stem, place.url, str(scenario.requests)]
    else:
        pause = f"{scenario.network.dropped_after}@{_IDLE_MS}" if scenario.network.dropped_after else str(how.pause_ms)
        argv += [PROBE.stem, place.url, how.where, how.mode, str(scenario.requests), str(place.proxy_port), pause]
        argv.append(str(how.linger_ms))
    if how.fresh == 1:
        return argv
    repeat = f'for i in $(seq {how.fresh}); do "$@" || exit; done'
    return ["sh", "-c", repeat, "sh", *argv]
