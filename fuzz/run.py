"""Fuzzes targets, each for a given time, several of them side by side, and prints a table of what came of it.

    uv run --with atheris python -m fuzz.run --all --seconds 600 --jobs 2
    uv run --with atheris python -m fuzz.run quic tls --seconds 60 --seeds FOLDER

The exit status is 1 where something was found: then a target has ended early, and the input that broke it is named.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from fuzz.targets import CORPUS, TARGETS

TIMEOUT_S = 60
"""After so long an input counts as one that never ends."""
LAST_LINES = 60
HEADER = ("target", "executions", "per second", "edges", "longest input", "finding")
_EDGES = re.compile(rb"^#\d+\s.*?\bcov: (\d+)", re.MULTILINE)
_RATE = re.compile(rb"^stat::average_exec_per_sec:\s*(\d+)", re.MULTILINE)
_EXECUTIONS = re.compile(rb"^stat::number_of_executed_units:\s*(\d+)|^#(\d+)\s", re.MULTILINE)
_LONGEST = re.compile(rb"^longest: (\d+) ms (\d+) bytes", re.MULTILINE)
_FINDING = re.compile(rb"Test unit written to (\S+)")


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a target's run; `finding` names the input that broke it, or says what else went wrong."""

    target: str
    executions: int
    rate: int
    edges: int
    longest: str
    finding: str

    def row(self) -> tuple[str, ...]:
        """The cells of its line in the table."""
        numbers = (f"{number:,}" for number in (self.executions, self.rate, self.edges))
        return self.target, *numbers, self.longest, self.finding or "none"


def read(target: str, output: bytes, status: int) -> Run:
    """Understand what Atheris has printed."""
    numbers = [int(one or other) for one, other in _EXECUTIONS.findall(output)]
    edges = [int(each) for each in _EDGES.findall(output)]
    longest = _LONGEST.findall(output)
    findings = _FINDING.findall(output)
    finding = os.fsdecode(findings[-1]) if findings and status != 0 else ""
    if status != 0 and not finding:
        finding = (output.splitlines() or [b"nothing was printed"])[-1].decode(errors="replace")
    slowest = f"{int(longest[-1][0])} ms for {int(longest[-1][1]):,} B" if longest else "under 1 ms"
    rate = max(map(int, _RATE.findall(output)), default=0)
    return Run(target, max(numbers, default=0), rate, max(edges, default=0), slowest, finding)


def fuzz(target: str, *, seconds: int, folder: str | None) -> Run:
    """Fuzz a target in a process of its own; its output stays in a file beside its corpus."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    log = CORPUS / f"{target}.log"
    command = [sys.executable, "-m", "fuzz.one", target, *(["--seeds", folder] if folder else [])]
    command += [f"-max_total_time={seconds}", "-print_final_stats=1"]
    command += [f"-timeout={TIMEOUT_S}", f"-report_slow_units={TIMEOUT_S}"]
    with log.open("wb") as stream:
        status = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False).returncode  # noqa: S603 - this program
    return read(target, log.read_bytes(), status)


def end_of(target: str) -> list[str]:
    """The last lines of what a target printed: the traceback, and the input in Base64 where that is short."""
    with (CORPUS / f"{target}.log").open(errors="replace") as log:
        return list(deque(log, LAST_LINES))


def main() -> int:
    """Fuzz, print a line whenever a target is through, and the table at the end."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description="Fuzz targets and print a table.")
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--seconds", type=int, default=60, help="how long each is run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many run side by side")
    parser.add_argument("--seeds", metavar="FOLDER", help="captures, logs and the like to start from as well")
    asked = parser.parse_args()
    targets = list(TARGETS) if asked.all else asked.targets
    if not targets:
        parser.error("name targets, or --all")
    runs = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for run in pool.map(partial(fuzz, seconds=asked.seconds, folder=asked.seeds), targets):
            runs.append(run)
            print("  ".join(run.row()), file=sys.stderr, flush=True)
            if run.finding:
                print("".join(end_of(run.target)), file=sys.stderr, flush=True)
    print_table([HEADER, *(run.row() for run in runs)])
    return int(any(run.finding for run in runs))


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Print rows as a table in Markdown."""
    for number, row in enumerate(rows):
        print("|", " | ".join(row), "|")
        if not number:
            print("|", " | ".join("---" if at in {0, 5} else "--:" for at in range(len(row))), "|")


if __name__ == "__main__":
    sys.exit(main())
