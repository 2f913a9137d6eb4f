"""`h3probe watch` around a real client: the scenarios, run side by side, and what came of each."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from .netns import Firewall, give_routes
from .parts import Lab, Ran, RealParts

H3PROBE = [sys.executable, "-P", "-m", "h3probe"]

APART_S = 1.5
"""From the start of one cold JVM to the next one's, in seconds."""

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Watched:
    """What `h3probe watch --json -- COMMAND` gave.

    Attributes:
        records: the NDJSON of its standard output.
        said: the command's own standard output, and both standard errors: lines.
        exit: the exit status.
        took_s: seconds.
        folder: the lab's folder, with the capture file in it.
    """

    records: list[Record]
    said: list[str]
    exit: int
    took_s: float
    folder: Path

    @classmethod
    def of(cls, ran: Ran, folder: Path) -> Self:
        """Take it from a finished run; every line of standard output must be a record."""
        return cls([json.loads(line) for line in ran.stdout], ran.stderr, ran.exit, ran.took_s, folder)

    def all(self, kind: str) -> list[Record]:
        """Give the records of one type, in order."""
        return [record for record in self.records if record["type"] == kind]

    def one(self, kind: str) -> Record:
        """Give the only record of its type."""
        (record,) = self.all(kind)
        return record

    def finding(self, rule: str) -> Record:
        """Give the only finding of a rule."""
        (record,) = [record for record in self.all("finding") if record["rule"] == rule]
        return record

    @property
    def rules(self) -> set[str]:
        """The rules that found something."""
        return {record["rule"] for record in self.all("finding")}

    @property
    def answers(self) -> list[str]:
        """What the client says of each request: `HTTP_2`, `HTTP_3`, or the class of an exception; of curl, `2`, `3`."""
        probes = [line.split()[2].rstrip(":") for line in self.said if line.startswith("request ")]
        return probes or [line.split()[0] for line in self.said if line[:1].isdigit()]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A client in a lab.

    Attributes:
        client: the command line, as `java` and `curl` of `parts` give it.
        firewall: what becomes of UDP.
        tinyproxy: whether a proxy is there.
        options: of `h3probe watch`.
        noise: another client's command line, which runs over and over meanwhile.
        isolated: whether it is `watch --isolate` by an ordinary user, on a host with routes to nowhere.
    """

    client: Sequence[str]
    firewall: Firewall | None = None
    tinyproxy: bool = False
    options: Sequence[str] = ()
    noise: Sequence[str] = ()
    isolated: bool = False

    def run(self, parts: RealParts, folder: Path, name: str) -> Watched:
        """Run it in a lab of its own, to its end."""
        with Lab(parts, folder, name) as lab:
            lab.start_nginx()
            if self.tinyproxy:
                lab.start_tinyproxy()
            if self.firewall is not None:
                lab.firewall(self.firewall)
            if self.noise:
                loop = 'while :; do "$@" || :; sleep 0.02; done'
                with (folder / "noise.log").open("w") as log:
                    lab.netns.start(parts.command(["sh", "-c", loop, "sh", *self.noise]), cwd=folder, stderr=log)
            if self.isolated:
                folder.chmod(0o777)
                give_routes(lab.netns)
                watch = [*H3PROBE, "watch", "--isolate", "--json", *self.options, "--", *self.client]
                return Watched.of(lab.run_here(parts.as_user(["env", "PYTHONDONTWRITEBYTECODE=1", *watch])), folder)
            command = [*H3PROBE, "watch", "--json", *self.options, "--", *parts.command(self.client)]
            return Watched.of(lab.run_here(command), folder)


@dataclass
class SideBySide:
    """Runs scenarios that mostly wait together, and the others beside them, one at a time.

    More at once would have cold JVMs compete for the processors, and their races with them.
    """

    parts: RealParts
    folder: Path
    scenarios: dict[str, Scenario]
    patient: Sequence[str]
    _results: dict[str, Future[Watched]] = field(default_factory=dict)
    _pools: list[ThreadPoolExecutor] = field(default_factory=list)

    def start(self) -> None:
        """Start what is not started yet."""
        waiting, short = ThreadPoolExecutor(len(self.patient)), ThreadPoolExecutor(1)
        self._pools += [waiting, short]
        for place, name in enumerate(self.patient):
            self._results[name] = waiting.submit(self._later, APART_S * place, name)
        short.submit(time.sleep, APART_S * len(self.patient))
        for name in self.scenarios:
            if name not in self.patient:
                self._results[name] = short.submit(self._run, name)

    def _later(self, seconds: float, name: str) -> Watched:
        time.sleep(seconds)
        return self._run(name)

    def _run(self, name: str) -> Watched:
        return self.scenarios[name].run(self.parts, self.folder / name, name)

    def __getitem__(self, name: str) -> Watched:
        """Give what came of a scenario, when it has ended."""
        if not self._results:
            self.start()
        return self._results[name].result()

    def close(self) -> None:
        """Wait for what runs, and start nothing more."""
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)


Watch = Callable[[str], Watched]
