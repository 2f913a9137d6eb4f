"""What `watch --isolate` costs: a real curl that fetches 64 MiB from a real nginx on the host's loopback, as a user.

    sudo scripts/real-parts && sudo .venv/bin/python -m benchmarks.isolate [ROUNDS]

Over HTTP/2 and over HTTP/3, through `watch --isolate` and through pasta alone, by turns in one run; and what the
start of an isolated command, and its end, cost. The ratio is the one of the medians.
"""

from __future__ import annotations

import compileall
import statistics
import sys
import time
from pathlib import Path

from benchmarks.lab import H3PROBE, SERVER, SIZE, VERSIONS, BenchLab, bench_lab
from tests.real.netns import give_routes
from tests.real.parts import curl

ROUNDS = 7
GATEWAY = "192.0.2.1"
"""What pasta takes for the host's loopback: the gateway of the routes given."""


def _run(lab: BenchLab, argv: list[str]) -> tuple[list[str], float]:
    began = time.monotonic()
    done = lab.netns.run(lab.parts.as_user(["env", "PYTHONDONTWRITEBYTECODE=1", *argv]), cwd=lab.folder, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines(), time.monotonic() - began


def _rate(lab: BenchLab, option: str, *, isolated: bool) -> float:
    """Fetch the file once; give MiB per second, by curl's own clock."""
    fetch = curl(f"https://localhost:{SERVER}/big", option, "-4")
    if isolated:
        argv = [*H3PROBE, "watch", "--isolate", "--", *fetch]
    else:
        argv = ["pasta", "--config-net", "--quiet", "--", *fetch, "--connect-to", f"::{GATEWAY}:{SERVER}"]
    lines, _ = _run(lab, argv)
    took = next(float(line.split()[2]) for line in lines if line[:2] in {"2 ", "3 "})
    return SIZE / (1 << 20) / took


def main() -> None:
    """Measure, and print each way's median and the ratio, and the seconds that an isolated command takes more."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    compileall.compile_dir(Path(__file__).parents[1] / "h3probe", quiet=1)  # as it is where it was installed
    rates: dict[tuple[str, bool], list[float]] = {}
    starts: dict[str, list[float]] = {"alone": [], "isolated": [], "until it runs": []}
    with bench_lab("isolate-benchmark") as lab:
        give_routes(lab.netns)
        for _ in range(rounds):
            for version, option in VERSIONS.items():
                for isolated in (False, True):
                    rates.setdefault((version, isolated), []).append(_rate(lab, option, isolated=isolated))
            starts["alone"].append(_run(lab, ["true"])[1])
            starts["isolated"].append(_run(lab, [*H3PROBE, "watch", "--isolate", "--", "true"])[1])
            began = time.time()
            lines, _ = _run(lab, [*H3PROBE, "watch", "--isolate", "--", "date", "+runs %s.%N"])
            runs = next(float(line.split()[1]) for line in lines if line.startswith("runs "))
            starts["until it runs"].append(runs - began)
    for version in VERSIONS:
        plain, isolated_rate = (statistics.median(rates[version, isolated]) for isolated in (False, True))
        ratio = isolated_rate / plain
        print(f"{version}  pasta {plain:7.1f} MiB/s  isolated {isolated_rate:7.1f} MiB/s  ratio {ratio:.2f}")
    alone = statistics.median(starts["alone"])
    for name in ("until it runs", "isolated"):
        print(f"{name}: {statistics.median(starts[name]) - alone:+.2f} s")


if __name__ == "__main__":
    main()
