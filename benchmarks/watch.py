"""What watching costs the watched: a real curl that fetches 64 MiB from a real nginx, alone and beside `watch`.

    sudo scripts/real-parts && sudo .venv/bin/python -m benchmarks.watch [ROUNDS]

Over HTTP/2 and over HTTP/3, by turns in one run, in a network namespace of its own whose loopback has Ethernet's MTU.
The watcher is started anew for each round, and what it says of that round is checked: both connections, nothing lost.
The ratio is the one of the medians.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.lab import READY_S, SERVER, VERSIONS, BenchLab, bench_lab
from tests.real.netns import stop

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 7


def _watched(lab: BenchLab, told: Path) -> dict[str, float]:
    with told.open("w") as out:
        said, deadline = lab.folder / "log", time.monotonic() + READY_S
        before = said.stat().st_size
        watcher = lab.start("watch", "--json", stdout=out)
        while "watching" not in said.read_text()[before:]:
            if time.monotonic() > deadline:
                raise RuntimeError("the watcher did not start")
            time.sleep(0.02)
        found = {version: lab.fetch(SERVER, option) for version, option in VERSIONS.items()}
        stop(watcher)
    _check([json.loads(line) for line in told.read_text().splitlines()])
    return found


def _check(records: list[dict[str, Any]]) -> None:
    outcomes = [record["outcome"] for record in records if record["type"] in {"quic", "tcp"}]
    dropped = records[-1]["dropped"]
    rules = [record["rule"] for record in records if record["type"] == "finding"]
    if outcomes != ["established"] * 2 or dropped or "incomplete-capture" in rules:
        raise RuntimeError(f"the watcher saw {outcomes}, lost {dropped} packets and found {rules}")


def main() -> None:
    """Measure, and print each way's median and the ratio."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    alone: dict[str, list[float]] = {version: [] for version in VERSIONS}
    beside: dict[str, list[float]] = {version: [] for version in VERSIONS}
    with bench_lab("watch-benchmark") as lab:
        for _ in range(rounds):
            for version, option in VERSIONS.items():
                alone[version].append(lab.fetch(SERVER, option))
            for version, rate in _watched(lab, lab.folder / "told").items():
                beside[version].append(rate)
    for version in VERSIONS:
        free, watched = statistics.median(alone[version]), statistics.median(beside[version])
        print(f"{version}  alone {free:7.1f} MiB/s  watched {watched:7.1f} MiB/s  ratio {watched / free:.2f}")


if __name__ == "__main__":
    main()
