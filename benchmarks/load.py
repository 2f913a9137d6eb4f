"""What a watcher loses under load: 1,000 handshakes of a real client while loopback carries all that it can.

    sudo scripts/real-parts && sudo .venv/bin/python -m benchmarks.load [HANDSHAKES]

For h3probe, tcpdump and tshark (both with their defaults), by turns in one run: `benchmarks.flood` runs, one curl makes
a QUIC connection to each of so many names, and what decides (their QUIC packets with long headers) is counted by the
kernel (a counter of nftables) and in the capture file that the watcher wrote. h3probe has to tell all handshakes as
well. At the end: how busy an h3probe is that watches an idle network.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.lab import H3PROBE, READY_S, SERVER, BenchLab, bench_lab
from h3probe.events import Frame
from h3probe.vantage.files import open_capture
from h3probe.wire.packet import PacketDecoder, UdpDatagram
from tests.real.netns import stop

if TYPE_CHECKING:
    from collections.abc import Callable

FLOOD = Path(__file__).with_name("flood.py")
HANDSHAKES = 1000
AT_ONCE = 8
FLOOD_S = 600
IDLE_S = 20
SETTLE_S = 2.0
COUNTER = f"""
table inet load {{
    chain input {{
        type filter hook input priority 0;
        udp dport {SERVER} @th,64,1 1 counter
        udp sport {SERVER} @th,64,1 1 counter
    }}
}}
"""
WATCHERS: dict[str, Callable[[str], list[str]]] = {
    "h3probe": lambda file: [*H3PROBE, "watch", "-i", "lo", "--json", "-w", file],
    "tcpdump": lambda file: ["tcpdump", "-i", "lo", "-w", file],
    "tshark": lambda file: ["tshark", "-q", "-i", "lo", "-w", file],
}
READY = {"h3probe": "watching", "tcpdump": "listening on", "tshark": "Capturing on"}


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one watcher.

    Attributes:
        offered: Packets a second on loopback.
        deciding: Packets that decide, by the kernel's count.
        seen: Those in the capture file.
        answered: Handshakes that curl made.
    """

    offered: float
    deciding: int
    seen: int
    answered: int


def main() -> None:
    """Measure, and print a line for each watcher."""
    handshakes = int(sys.argv[1]) if len(sys.argv) > 1 else HANDSHAKES
    with bench_lab("load-benchmark") as lab:
        (lab.folder / "counter.nft").write_text(COUNTER)
        lab.netns.run(["nft", "-f", "counter.nft"], cwd=lab.folder, timeout=10)
        for name, argv in WATCHERS.items():
            result = _round(lab, name, argv, handshakes)
            print(
                f"{name:8} {result.offered:9,.0f} packets/s offered, {result.answered:,} handshakes: "
                f"{result.seen:,} of {result.deciding:,} deciding packets seen, {result.deciding - result.seen:,} lost",
                flush=True,
            )
        _told(lab.folder / "h3probe.out", handshakes)
        print(f"idle     {_idle(lab):.2f} % of one processor")


def _round(lab: BenchLab, name: str, argv: Callable[[str], list[str]], handshakes: int) -> Round:
    capture, said = lab.folder / f"{name}.pcapng", lab.folder / f"{name}.err"
    flood = lab.netns.start([sys.executable, str(FLOOD), str(FLOOD_S)], cwd=lab.folder, stderr=lab.log)
    with said.open("w") as err, (lab.folder / f"{name}.out").open("w") as out:
        watcher = lab.netns.start(argv(str(capture)), cwd=lab.folder, stdout=out, stderr=err)
        deadline = time.monotonic() + READY_S
        while READY[name] not in said.read_text():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start: {said.read_text()}")
            time.sleep(0.02)
        time.sleep(SETTLE_S)
        packets, before, began = _packets(lab), _deciding(lab), time.monotonic()
        urls = f"https://h[1-{handshakes}].test:{SERVER}/none"
        fetch = ["curl", "-s", "-k", "--http3-only", "-Z", "--parallel-max", str(AT_ONCE), "--connect-to"]
        fetch += [f"::127.0.0.1:{SERVER}", "-o", "/dev/null", "-w", "%{http_version}\\n", urls]
        done = lab.netns.run(lab.parts.command(fetch), cwd=lab.folder, timeout=FLOOD_S)
        offered = (_packets(lab) - packets) / (time.monotonic() - began)
        time.sleep(SETTLE_S)
        deciding = _deciding(lab) - before
        stop(flood)
        stop(watcher)
    return Round(offered, deciding, _seen(capture), done.stdout.count("3\n"))


def _packets(lab: BenchLab) -> int:
    table = lab.netns.run(["cat", "/proc/net/dev"], cwd=lab.folder, timeout=10).stdout
    return int(next(line for line in table.splitlines() if "lo:" in line).split()[2])


def _deciding(lab: BenchLab) -> int:
    rules = lab.netns.run(["nft", "list", "table", "inet", "load"], cwd=lab.folder, timeout=10).stdout
    return sum(map(int, re.findall(r"counter packets (\d+)", rules)))


def _seen(capture: Path) -> int:
    decoder, count = PacketDecoder(), 0
    with open_capture(capture) as reader:
        for event in reader:
            fact = decoder.decode(event) if isinstance(event, Frame) else None
            if isinstance(fact, UdpDatagram) and SERVER in (fact.source.port, fact.destination.port):
                count += bool(fact.payload and fact.payload[0] & 0x80)
    return count


def _told(path: Path, handshakes: int) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    quic = [record for record in records if record["type"] == "quic" and record["server"].endswith(f":{SERVER}")]
    ready = sum(record["outcome"] == "established" and record["ready_at"] is not None for record in quic)
    print(f"h3probe  tells {ready:,} of {handshakes:,} handshakes, each with when it was ready")


def _idle(lab: BenchLab) -> float:
    watcher = lab.start("watch", "-i", "lo")
    time.sleep(SETTLE_S)
    tree = [psutil.Process(watcher.pid), *psutil.Process(watcher.pid).children(recursive=True)]
    before = sum(sum(process.cpu_times()[:2]) for process in tree)
    time.sleep(IDLE_S)
    taken = sum(sum(process.cpu_times()[:2]) for process in tree) - before
    stop(watcher)
    return taken / IDLE_S * 100


if __name__ == "__main__":
    main()
