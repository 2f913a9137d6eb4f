"""Records real clients: a capture file of each scenario, and beside it what the client itself said.

    sudo uv run python -m captures.record [SCENARIO...]

needs what `scripts/real-parts` sets up. Each scenario has a network namespace of its own, so those that mostly wait for
timers run side by side; the others run one by one, because a race is decided by what else the machine is doing.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT

from tests.real.netns import Firewall, stop, wait_until
from tests.real.parts import ADVERTISED, PLAIN, PROXY, RETRY, SET_UP, STALE, Lab, Ran, RealParts, curl, java

FOLDER = Path(__file__).parent
SETTLE = 2.5
"""Seconds between the last command and the end of the capture.

Packets follow a client's exit, and the kernel hands packets to tcpdump a block at a time, after a second at the latest.
"""
ATTEMPTS = 200
"""How often a race is run to see the outcome that a scenario is about."""
STAGGER = 4.0
"""Seconds between the starts of the waiting scenarios, so that one JVM's start does not distort the next one's."""

_ADVERTISED = f"https://localhost:{ADVERTISED}/"
_STALE = f"https://localhost:{STALE}/"
_PLAIN = f"https://localhost:{PLAIN}/"
_RETRY = f"https://localhost:{RETRY}/"
_CACHE = ("--alt-svc", "alt-svc.txt")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One client in one situation.

    Attributes:
        name: of the files, and of the network namespace.
        commands: run one after the other.
        firewall: what becomes of UDP, None for a free way.
        waits: the client mostly waits for timers.
        until: text in the first line the client prints; a race is run again until it ends so, `ATTEMPTS` times at most.
        rare: the outcome wanted is seen once in dozens of runs, so the scenario is recorded only when it is named.
    """

    name: str
    commands: Sequence[Sequence[str]]
    firewall: Firewall | None = None
    waits: bool = False
    until: str = ""
    rare: bool = False


SCENARIOS = (
    Scenario("jdk26-http2-default", [java(_ADVERTISED, "none", "-", 4)]),
    Scenario("jdk26-client-any", [java(_ADVERTISED, "client", "ANY", 4)], until="HTTP_2"),
    Scenario("jdk26-client-any-quic-carried", [java(_ADVERTISED, "client", "ANY", 4)], until="HTTP_3", rare=True),
    Scenario("jdk26-request-any", [java(_ADVERTISED, "request", "ANY", 4)]),
    Scenario("jdk26-alt-svc", [java(_ADVERTISED, "client", "ALT_SVC", 4)]),
    Scenario("jdk26-uri-only", [java(_ADVERTISED, "client", "HTTP_3_URI_ONLY", 4)]),
    Scenario("jdk26-udp-dropped-client-any", [java(_ADVERTISED, "client", "ANY", 4)], Firewall.DROP, waits=True),
    Scenario("jdk26-udp-dropped-request-any", [java(_ADVERTISED, "request", "ANY", 3)], Firewall.DROP, waits=True),
    Scenario("jdk26-udp-dropped-uri-only", [java(_ADVERTISED, "client", "HTTP_3_URI_ONLY")], Firewall.DROP, waits=True),
    Scenario(
        "jdk26-udp-dropped-connect-timeout",
        [java(_ADVERTISED, "client", "ALT_SVC", 5, options=["-Dprobe.connectTimeout=2000"])],
        Firewall.DROP,
        waits=True,
    ),
    Scenario("jdk26-udp-closed-client-any", [java(_PLAIN, "client", "ANY", 2, pause_ms=4000)], waits=True),
    Scenario("jdk26-udp-closed-request-any", [java(_PLAIN, "request", "ANY", 2)], waits=True),
    Scenario(
        "jdk26-udp-admin-prohibited-request-any",
        [java(_ADVERTISED, "request", "ANY", 2)],
        Firewall.ADMIN_PROHIBITED,
        waits=True,
    ),
    Scenario("jdk26-stale-alt-svc", [java(_STALE, "client", "ALT_SVC", 3)], waits=True),
    Scenario("jdk26-tinyproxy-any", [java(_ADVERTISED, "client", "ANY", 2, proxy=PROXY)]),
    Scenario("curl-http3", [curl(_ADVERTISED, "--http3")]),
    Scenario("curl-http3-only", [curl(_ADVERTISED, "--http3-only")]),
    Scenario("curl-http3-udp-dropped", [curl(_ADVERTISED, "--http3")], Firewall.DROP),
    Scenario("curl-http3-only-refused", [curl(_PLAIN, "--http3-only")]),
    Scenario("curl-http3-tinyproxy", [curl(_ADVERTISED, "--http3", "--proxy", f"http://127.0.0.1:{PROXY}")]),
    Scenario("curl-retry", [curl(_RETRY, "--http3-only")]),
    Scenario("curl-alt-svc-cache", [curl(_ADVERTISED, *_CACHE), curl(_ADVERTISED, *_CACHE)]),
)


def record(scenario: Scenario, parts: RealParts) -> str:
    """Record one scenario and write its two files; gives a line that says what came of it.

    Raises:
        RuntimeError: a server or tcpdump did not start, packets were lost, or the race never ended as wanted; the
            files of an earlier recording are left as they were.
    """
    for attempt in range(1, ATTEMPTS + 1):
        with tempfile.TemporaryDirectory() as folder, Lab(parts, Path(folder), scenario.name) as lab:
            packets, ran = play(scenario, lab)
            if packets is None:
                continue
            firewall = lab.firewall_rules
        truth = {
            "scenario": scenario.name,
            "client": named(parts, "openjdk-26-jdk-headless" if scenario.name.startswith("jdk26") else "curl"),
            "server": named(parts, "nginx-core"),
            "proxy": named(parts, "tinyproxy") if through_proxy(scenario) else None,
            "firewall": firewall,
            "commands": [each.as_json() for each in ran],
        }
        (FOLDER / f"{scenario.name}.pcap").write_bytes(packets)
        (FOLDER / f"{scenario.name}.truth.json").write_text(json.dumps(truth, indent=1) + "\n")
        said = "; ".join(line for each in ran for line in each.stdout + each.stderr)
        return f"{scenario.name}: attempt {attempt}, {len(packets)} bytes: {said}"
    raise RuntimeError(f"{scenario.name}: no {scenario.until} first in {ATTEMPTS} attempts")


def play(scenario: Scenario, lab: Lab) -> tuple[bytes | None, list[Ran]]:
    """Run the scenario's commands in `lab` with tcpdump beside them; gives the capture file and what came of each.

    The capture file is None where the race did not end as the scenario wants it.
    """
    lab.start_nginx()
    if through_proxy(scenario):
        lab.start_tinyproxy()
    if scenario.firewall:
        lab.firewall(scenario.firewall)
    packets, log = lab.folder / "packets.pcap", lab.folder / "tcpdump.log"
    argv = ["tcpdump", "-i", "lo", "-w", str(packets), "-s", "0", "-U", "-Z", "root", "--time-stamp-precision=nano"]
    with log.open("w") as complaints:
        sniffer = lab.netns.start(argv, cwd=lab.folder, stderr=complaints)
    wait_until(lambda: "listening on lo" in log.read_text(), "tcpdump", sniffer)
    ran = [lab.run(command) for command in scenario.commands]
    if scenario.until not in ran[0].stdout[0]:
        return None, ran
    time.sleep(SETTLE)
    stop(sniffer, by=SIGINT)
    if "\n0 packets dropped by kernel" not in log.read_text():
        raise RuntimeError(f"{scenario.name}: packets are missing: {log.read_text()}")
    return packets.read_bytes(), ran


def through_proxy(scenario: Scenario) -> bool:
    """Tell whether the scenario's client is told of the proxy."""
    return any(argument.endswith(str(PROXY)) for command in scenario.commands for argument in command)


def named(parts: RealParts, package: str) -> str:
    """Give a package's name and version."""
    return f"{package} {parts.versions()[package]}"


def main(names: Sequence[str]) -> int:
    """Record the scenarios of these names, all but the rare ones where there are none; gives the exit status."""
    parts = RealParts.find()
    if parts is None:
        print(SET_UP, file=sys.stderr)
        return 2
    if unknown := set(names) - {scenario.name for scenario in SCENARIOS}:
        print(f"no such scenario: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    wanted = [scenario for scenario in SCENARIOS if scenario.name in names or not (names or scenario.rare)]
    waiting = [scenario for scenario in wanted if scenario.waits]
    recordings: list[Future[str]] = []
    # The second pool has one worker: its scenarios are over in a second or two and want the machine for themselves.
    with ThreadPoolExecutor(max_workers=len(waiting) or 1) as pool:
        for number, scenario in enumerate(waiting):
            time.sleep(STAGGER if number else 0)
            recordings.append(pool.submit(record, scenario, parts))
    with ThreadPoolExecutor(max_workers=1) as pool:
        recordings += [pool.submit(record, scenario, parts) for scenario in wanted if not scenario.waits]
        return report(recordings)


def report(recordings: Sequence[Future[str]]) -> int:
    """Print what came of each recording as it ends; gives the exit status."""
    status = 0
    for recording in recordings:
        try:
            print(recording.result(), flush=True)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
