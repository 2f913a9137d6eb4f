"""What the relay costs: a real curl that fetches 64 MiB from a real nginx, directly and through `watch --relay`.

    sudo scripts/real-parts && sudo .venv/bin/python -m benchmarks.relay [ROUNDS]

Over HTTP/2 and over HTTP/3, by turns in one run, in a network namespace of its own whose loopback has Ethernet's MTU.
Both ways share the machine's processors with client and server. The ratio is the one of the medians.
"""

from __future__ import annotations

import statistics
import sys

from benchmarks.lab import SERVER, VERSIONS, bench_lab

ROUNDS = 7
RELAY = 5433


def main() -> None:
    """Measure, and print each way's median and the ratio."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    rates: dict[tuple[str, int], list[float]] = {}
    with bench_lab("relay-benchmark") as lab:
        lab.start("watch", "--relay", f"127.0.0.1:{RELAY}=127.0.0.1:{SERVER}")
        lab.wait(RELAY)
        for _ in range(rounds):
            for version, option in VERSIONS.items():
                for port in (SERVER, RELAY):
                    rates.setdefault((version, port), []).append(lab.fetch(port, option))
    for version in VERSIONS:
        direct, relayed = (statistics.median(rates[version, port]) for port in (SERVER, RELAY))
        print(f"{version}  direct {direct:7.1f} MiB/s  relay {relayed:7.1f} MiB/s  ratio {relayed / direct:.2f}")


if __name__ == "__main__":
    main()
