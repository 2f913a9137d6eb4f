"""A real Java client: found, checked, and run with the packaged Probe.java."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.errors import UserError
from h3probe.lab.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.lab.authority import Authority
    from h3probe.lab.outcome import HttpVersion
    from h3probe.lab.scenario import Scenario

PROBE: Final = Path(__file__).with_name("Probe.java")
_WANTED: Final = 26
_CHECK_SECONDS: Final = 20.0
_RUN_SECONDS: Final = 60.0
_IDLE_MS: Final = 2500
"""Longer than the keep-alive of one second that the scenarios set."""

_VERSION: Final = re.compile(r'version "(\d+)')
_LINE: Final = re.compile(r"request (?P<number>\d+): (?P<result>.*) after (?P<millis>\d+) ms")
_RESPONSE: Final = re.compile(r"(?P<version>HTTP_\S+) (?P<status>\d{3}) alt-svc=(?P<alt_svc>.*)")
_VERSIONS: Final[dict[str, HttpVersion]] = {"HTTP_1_1": "HTTP/1.1", "HTTP_2": "HTTP/2", "HTTP_3": "HTTP/3"}


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that can run Probe.java.

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
    wanted = path or os.environ.get("H3PROBE_JAVA") or "java"
    launcher = Path(wanted, "bin", "java") if Path(wanted).is_dir() else wanted
    program = shutil.which(launcher)
    if program is None:
        raise UserError(f"no Java at {wanted}: name a JDK {_WANTED} with --java PATH or $H3PROBE_JAVA")
    said = _ask(program, "-version")
    version = _VERSION.search(said)
    if version is None:
        raise UserError(f"{program} does not say that it is a Java: name a JDK {_WANTED} with --java PATH")
    if int(version[1]) < _WANTED:
        raise UserError(f"{program} is Java {version[1]}; HTTP/3 came with Java {_WANTED}: name one with --java PATH")
    if "jdk.compiler" not in _ask(program, "--list-modules"):
        raise UserError(f"{program} is a JRE; compiling Probe.java needs a JDK {_WANTED}")
    # Not always the first line: JAVA_TOOL_OPTIONS makes the JVM speak before.
    return JavaRuntime(program, next(line.strip() for line in said.splitlines() if version[0] in line))


def compile_probe(java: JavaRuntime, authority: Authority) -> Path:
    """Compile Probe.java once, into the authority's folder: nine launches from source would take ten seconds more.

    Returns:
        The folder, in which Java is to be run with relative names: a launcher may run it where the paths of this
        machine mean something else.

    Raises:
        UserError: It does not compile.
    """
    folder = authority.trust_store.parent
    if not (folder / "Probe.class").exists():
        shutil.copyfile(PROBE, folder / PROBE.name)
        said = _ask(java.program, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", ".", PROBE.name, folder=folder)
        if not (folder / "Probe.class").exists():
            raise UserError(f"{java.program} does not compile Probe.java: {said.strip().partition(chr(10))[0]}")
    return folder


def _ask(program: str, *arguments: str, folder: Path | None = None) -> str:
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


async def run_probe(  # noqa: PLR0913 -- each is named at the one call
    java: JavaRuntime,
    scenario: Scenario,
    authority: Authority,
    url: str,
    *,
    proxy_port: int,
    told: Callable[[Outcome], None],
) -> list[Outcome]:
    """Send the scenario's requests with Java's HttpClient.

    Args:
        java: From `find_java`.
        scenario: How many requests, and with which settings.
        authority: Whom to trust.
        url: What to ask for.
        proxy_port: A CONNECT proxy on 127.0.0.1, 0 for none.
        told: Called with each outcome at once.

    Raises:
        UserError: Java did not run the program.
    """
    process = await asyncio.create_subprocess_exec(
        java.program,
        *_arguments(scenario, authority, url, proxy_port),
        cwd=compile_probe(java, authority),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    outcomes: list[Outcome] = []
    try:
        async with asyncio.timeout(_RUN_SECONDS):
            complaint = asyncio.create_task(_read_all(process.stderr))
            while process.stdout is not None and (line := await process.stdout.readline()):
                outcome = parse_outcome(line.decode("utf-8", "replace"))
                if outcome is not None:
                    outcomes.append(outcome)
                    told(outcome)
            status, said = await process.wait(), await complaint
    except TimeoutError:
        raise UserError(f"{java.program} did not finish within {_RUN_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if status != 0 or not outcomes:
        raise UserError(f"{java.program} ended with status {status}: {said.strip().partition(chr(10))[0]}")
    return outcomes


def _arguments(scenario: Scenario, authority: Authority, url: str, proxy_port: int) -> list[str]:
    from h3probe.lab.authority import TRUST_STORE_PASSWORD  # noqa: PLC0415 -- loads cryptography

    pause = f"{scenario.dropped_after}@{_IDLE_MS}" if scenario.dropped_after else "0"
    return [
        f"-Djavax.net.ssl.trustStore={authority.trust_store.name}",
        f"-Djavax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD}",
        *(f"-D{each}" for each in scenario.java.properties),
        "-cp",
        ".",
        PROBE.stem,
        url,
        scenario.java.where,
        scenario.java.mode,
        str(scenario.requests),
        str(proxy_port),
        pause,
    ]


async def _read_all(stream: asyncio.StreamReader | None) -> str:
    return (await stream.read()).decode("utf-8", "replace") if stream is not None else ""


def parse_outcome(line: str) -> Outcome | None:
    """Read one line that Probe.java printed; None for anything else."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return None
    number, seconds = int(match["number"]), int(match["millis"]) / 1000
    response = _RESPONSE.fullmatch(match["result"])
    if response is None:
        return Outcome(number, None, None, None, seconds, error=match["result"])
    alt_svc = None if response["alt_svc"] == "-" else response["alt_svc"]
    return Outcome(number, _VERSIONS.get(response["version"]), int(response["status"]), alt_svc, seconds)
