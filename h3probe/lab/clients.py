"""The clients that can play a scenario, each with its command line, and how a command line is run."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from h3probe.errors import UserError
from h3probe.lab.java import JavaRuntime, ask, command_line, compile_programs
from h3probe.lab.outcome import HttpVersion, Outcome, parse_outcome
from h3probe.vantage.clientlog.jdk import CATEGORIES, JdkLog
from h3probe.vantage.clientlog.pipe import Sieve
from h3probe.vantage.proxy_settings import client_log_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from h3probe.events import Told
    from h3probe.lab.authority import Authority
    from h3probe.lab.scenario import Expectation, Scenario

RUN_SECONDS: Final = 150.0
"""The longest a client may take; two waits of 30 s, several times, are no reason to end it."""

_MARK: Final = "h3probe-lab"
_CURL_LINE: Final = re.compile(
    rf"{_MARK} (?P<version>\d(?:\.\d)?) (?P<status>\d{{3}}) (?P<seconds>[\d.]+) (?P<port>-?\d+)(?P<error>.*)"
)
_CURL_VERSIONS: Final[dict[str, HttpVersion]] = {"1.1": "HTTP/1.1", "2": "HTTP/2", "3": "HTTP/3"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client finds the server of a scenario.

    Attributes:
        url: What to ask for.
        proxy_port: A CONNECT proxy on 127.0.0.1, 0 for none.
        authority: Whom to trust.
        trusts: Whether the client is told to; else it is to do as its environment tells it.
        log: Where its log goes, if it is to write one and writes it to a file; others write it to standard error.
    """

    url: str
    proxy_port: int
    authority: Authority
    trusts: bool = True
    log: Path | None = None


class LabClient(Protocol):
    """A client that can play scenarios."""

    @property
    def name(self) -> str:
        """What it is called in tables."""

    @property
    def logs(self) -> bool:
        """Whether it has a log that h3probe can read."""

    @property
    def writes_secrets(self) -> bool:
        """Whether it writes its TLS secrets to $SSLKEYLOGFILE."""

    @property
    def trusts_environment(self) -> bool:
        """Whether it trusts whom its environment names, such as a proxy's authority, where it is told nothing else."""

    def expects(self, scenario: Scenario) -> Expectation | None:
        """What should come of a scenario; None where nobody knows."""

    def obstacle(self, scenario: Scenario) -> str:
        """Why it cannot play a scenario; empty where it can."""

    def argv(self, scenario: Scenario, place: Place) -> list[str]:
        """Its command line, for the folder of the authority.

        Raises:
            UserError: It cannot be made ready.
        """

    def outcome(self, line: str, number: int) -> Outcome | None:
        """Read a line it printed, the `number`th outcome perhaps; None for anything else."""


@dataclass(frozen=True, slots=True)
class BuiltinClient:
    """h3probe's own client."""

    name = "builtin"
    logs = False
    writes_secrets = True
    trusts_environment = True

    def expects(self, scenario: Scenario) -> Expectation | None:
        """The scenario's own."""
        return scenario.expect

    def obstacle(self, scenario: Scenario) -> str:  # noqa: ARG002 - the protocol's
        """None."""
        return ""

    def argv(self, scenario: Scenario, place: Place) -> list[str]:
        """This Python, with `h3probe.lab.probe`."""
        argv = [sys.executable, "-P", "-m", "h3probe.lab.probe", place.url, scenario.policy, str(scenario.requests)]
        if place.trusts:
            argv += ["--ca", str(place.authority.ca_file)]
        if scenario.network.dropped_after:
            argv += ["--disconnect-after", str(scenario.network.dropped_after)]
        if scenario.timeout is not None:
            argv += ["--timeout", str(scenario.timeout)]
        if place.proxy_port:
            argv += ["--proxy", str(place.proxy_port)]
        return argv

    def outcome(self, line: str, number: int) -> Outcome | None:  # noqa: ARG002 - the protocol's
        """As Probe.java prints it."""
        return parse_outcome(line)


@dataclass(frozen=True, slots=True)
class JavaClient:
    """Java's HttpClient.

    Attributes:
        java: A JDK 26.
        before: A Java from before HTTP/3, or why there is none.
    """

    java: JavaRuntime
    before: JavaRuntime | str = "no Java 25: name one with --java25 PATH or $JAVA25_HOME"

    name = "java"
    logs = True
    writes_secrets = False
    trusts_environment = True

    def expects(self, scenario: Scenario) -> Expectation | None:
        """What is said for Java."""
        return scenario.java.expect

    def obstacle(self, scenario: Scenario) -> str:
        """That there is no old Java."""
        return self.before if scenario.java.release < 26 and isinstance(self.before, str) else ""

    def argv(self, scenario: Scenario, place: Place) -> list[str]:
        """One of the lab's programs, compiled."""
        compile_programs(self.java, place.authority)
        java = self.before if scenario.java.release < 26 and isinstance(self.before, JavaRuntime) else self.java
        return command_line(java, scenario, place)

    def outcome(self, line: str, number: int) -> Outcome | None:
        """As Probe.java prints it; several JVMs one after the other are counted on."""
        outcome = parse_outcome(line)
        if outcome is None or outcome.number >= number:
            return outcome
        return replace(outcome, number=number)


@dataclass(frozen=True, slots=True)
class CurlClient:
    """curl, as it is on PATH.

    Attributes:
        program: Its path.
        version: What `curl --version` says first; empty where nobody asked.
        http3: Whether it has HTTP/3.
    """

    program: str
    version: str = ""
    http3: bool = True

    name = "curl"
    logs = True
    writes_secrets = True
    trusts_environment = True

    def expects(self, scenario: Scenario) -> Expectation | None:
        """What is said for curl."""
        return None if scenario.curl is None else scenario.curl.expect

    def obstacle(self, scenario: Scenario) -> str:
        """That nothing is said for curl, or that this one cannot do it."""
        if scenario.curl is None:
            return "it is not for curl"
        needs_http3 = any(option.startswith("--http3") for option in scenario.curl.options)
        return f"{self.program} has no HTTP/3" if needs_http3 and not self.http3 else ""

    def argv(self, scenario: Scenario, place: Place) -> list[str]:
        """One curl for all requests."""
        options = () if scenario.curl is None else scenario.curl.options
        written = rf"{_MARK} %{{http_version}} %{{http_code}} %{{time_total}} %{{local_port}} %{{errormsg}}\n"
        trusted = ["--cacert", place.authority.ca_file.name] if place.trusts else []
        argv = [self.program, "-sS", *trusted, *options, "-w", written]
        if place.log is not None:
            argv += ["-v", "--trace-ids", "--trace-time"]
        argv += ["--max-time", "60"]
        if place.proxy_port:
            argv += ["-x", f"http://127.0.0.1:{place.proxy_port}", "--noproxy", ""]
        for _ in range(scenario.requests):
            argv += ["-o", "/dev/null", place.url]
        return argv

    def outcome(self, line: str, number: int) -> Outcome | None:
        """As `-w` has it written."""
        match = _CURL_LINE.search(line.strip())
        if match is None:
            return None
        version = _CURL_VERSIONS.get(match["version"]) if match["status"] != "000" else None
        status, error = int(match["status"]) or None, match["error"].strip() or "no response"
        port = max(int(match["port"]), 0) or None
        return Outcome(number, version, status, None, float(match["seconds"]), None if version else error, port)


@dataclass(frozen=True, slots=True)
class OtherClient:
    """Any command, with {url}, {port}, {ca} and {proxy} in it: what should come of it is not known.

    Attributes:
        command: Its words.
    """

    command: tuple[str, ...]

    logs = False
    writes_secrets = False
    trusts_environment = True

    @property
    def name(self) -> str:
        """The program's."""
        return self.command[0]

    def expects(self, scenario: Scenario) -> Expectation | None:  # noqa: ARG002 - the protocol's
        """Nobody knows."""
        return None

    def obstacle(self, scenario: Scenario) -> str:  # noqa: ARG002 - the protocol's
        """None."""
        return ""

    def argv(self, scenario: Scenario, place: Place) -> list[str]:  # noqa: ARG002 - the protocol's
        """The command with the scenario's server in it."""
        port = place.url.rpartition(":")[2].strip("/")
        proxy = f"http://127.0.0.1:{place.proxy_port}" if place.proxy_port else ""
        words = {"{url}": place.url, "{port}": port, "{ca}": str(place.authority.ca_file), "{proxy}": proxy}
        return [_filled(each, words) for each in self.command]

    def outcome(self, line: str, number: int) -> Outcome | None:  # noqa: ARG002 - the protocol's
        """If it should print what Probe.java prints."""
        return parse_outcome(line)


def _filled(text: str, words: dict[str, str]) -> str:
    for place, word in words.items():
        text = text.replace(place, word)
    return text


def find_curl() -> CurlClient:
    """Find curl on PATH.

    Raises:
        UserError: It is not there, or cannot be run.
    """
    program = shutil.which("curl")
    if program is None:
        raise UserError("no curl on PATH")
    version, _, more = ask(program, "--version").partition("\n")
    return CurlClient(program, version.partition(" (")[0], http3="HTTP3" in more.split())


def other_client(text: str) -> OtherClient:
    """Read a command as a shell would.

    Raises:
        UserError: It is no command.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"--client {text!r}: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise UserError(f"--client {text!r}: builtin, java, curl, or a command with {{url}} in it; {words[:1]} is none")
    return OtherClient(words)


async def run_client(
    client: LabClient,
    argv: Sequence[str],
    folder: Path,
    told: Callable[[Outcome], None],
    on_log: Callable[[Told], None] | None = None,
) -> list[Outcome]:
    """Run a client to its end.

    Args:
        client: Who reads what it prints.
        argv: Its command line.
        folder: Where it runs.
        told: Called with each outcome at once.
        on_log: Called with what the client's own log tells, which a Java is asked to write then.

    Raises:
        UserError: It cannot be started, it does not end, or it says nothing.
    """
    environment = client_log_environment("java", CATEGORIES)[0] if on_log is not None else None
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise UserError(f"{argv[0]} cannot be run: {error.strerror}") from None
    outcomes: list[Outcome] = []
    try:
        async with asyncio.timeout(RUN_SECONDS):
            reading = read_all(process.stderr) if on_log is None else _read_log(process.stderr, on_log)
            complaint = asyncio.create_task(reading)
            while process.stdout is not None and (line := await process.stdout.readline()):
                outcome = client.outcome(line.decode("utf-8", "replace"), len(outcomes) + 1)
                if outcome is not None:
                    outcomes.append(outcome)
                    told(outcome)
            status, said = await process.wait(), await complaint
    except TimeoutError:
        raise UserError(f"{argv[0]} did not finish within {RUN_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if not outcomes and not isinstance(client, OtherClient):
        raise UserError(f"{argv[0]} ended with status {status}: {said.strip().partition(chr(10))[0]}")
    return outcomes


async def _read_log(stream: asyncio.StreamReader | None, on_log: Callable[[Told], None]) -> str:
    """What a pipe gives until its end, but for a JDK's log, which is read."""
    jdk, rest = JdkLog(), bytearray()
    sieve = Sieve([jdk], [jdk])
    while stream is not None and (data := await stream.read(1 << 16)):
        rest += sieve.feed(data, time.time_ns())
        for told in sieve.take():
            on_log(told)
    rest += sieve.finish(time.time_ns())
    for told in sieve.take():
        on_log(told)
    return rest.decode("utf-8", "replace")


async def read_all(stream: asyncio.StreamReader | None) -> str:
    """What a pipe gives until its end."""
    return (await stream.read()).decode("utf-8", "replace") if stream is not None else ""
