"""What a watcher loses under load: 1,000 handshakes of a real client while loopback carries all that it can.

    sudo scripts/real-parts && sudo .venv/bin/python -m benchmarks.load [HANDSHAKES]

By turns in one run, for h3probe, h3probe with `-w`, tcpdump and tshark (both with their defaults): `benchmarks.flood`
runs on each processor, and curl makes a connection to each of so many names, first over QUIC, then over TCP. What
decides among their packets (long headers of QUIC; of TCP the SYN, FIN and RST, and TLS records that are no application
data, or small) is counted by the kernel on its way into the server and the client, by counters of nftables, and in the
capture file that the watcher wrote. Of itself h3probe has to tell all handshakes, each with when it was ready. At the
end: how busy an h3probe is that watches an idle network.
"""

from __future__ import annotations

import json
import os
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
from h3probe.wire.packet import FIN, RST, SYN, PacketDecoder, TcpSegment, UdpDatagram
from tests.real.netns import stop

if TYPE_CHECKING:
    import subprocess

FLOOD = Path(__file__).with_name("flood.py")
HANDSHAKES = 1000
AT_ONCE = 8
FLOOD_S = 900
IDLE_S = 20
SETTLE_S = 2.0
PATIENCE_S = 120
SMALL_RECORD = 512
COUNTER = f"""
table inet load {{
    chain input {{
        type filter hook input priority 0;
        udp dport {SERVER} @th,64,1 1 counter accept
        udp sport {SERVER} @th,64,1 1 counter accept
        tcp dport {SERVER} tcp flags & (fin | syn | rst) != 0 counter accept
        tcp sport {SERVER} tcp flags & (fin | syn | rst) != 0 counter accept
        tcp dport {SERVER} @ih,0,8 {{ 20, 21, 22 }} counter accept
        tcp sport {SERVER} @ih,0,8 {{ 20, 21, 22 }} counter accept
        tcp dport {SERVER} @ih,0,8 23 @ih,24,16 <= {SMALL_RECORD} counter accept
        tcp sport {SERVER} @ih,0,8 23 @ih,24,16 <= {SMALL_RECORD} counter accept
    }}
}}
"""
ARGUMENTS = {
    "h3probe": [*H3PROBE, "watch", "-i", "lo", "--json"],
    "h3probe -w": [*H3PROBE, "watch", "-i", "lo", "--json", "-w", "FILE"],
    "tcpdump": ["tcpdump", "-i", "lo", "-w", "FILE"],
    "tshark": ["tshark", "-q", "-i", "lo", "-w", "FILE"],
}
READY = {"h3probe": "watching", "tcpdump": "listening on", "tshark": "Capturing on"}


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one watcher.

    Attributes:
        offered: Packets a second on loopback.
        answered: Handshakes that curl made.
        deciding: Packets that decide, by the kernel's count.
        seen: Those in the capture file; None without one.
        busy: The processor time that it took, in processors.
    """

    offered: float
    answered: int
    deciding: int
    seen: int | None
    busy: float

    def __str__(self) -> str:
        line = f"{self.offered:9,.0f} packets/s offered, {self.answered:,} handshakes, {100 * self.busy:3.0f} % busy"
        if self.seen is None:
            return line
        lost = self.deciding - self.seen
        return f"{line}; {self.seen:,} of {self.deciding:,} deciding packets in its file, {lost:,} lost"


def main() -> None:
    """Measure, and print a line for each watcher."""
    handshakes = int(sys.argv[1]) if len(sys.argv) > 1 else HANDSHAKES
    with bench_lab("load-benchmark") as lab:
        (lab.folder / "counter.nft").write_text(COUNTER)
        if (made := lab.netns.run(["nft", "-f", "counter.nft"], cwd=lab.folder, timeout=10)).returncode:
            raise RuntimeError(made.stderr)
        for name, arguments in ARGUMENTS.items():
            print(f"{name:11}{_round(lab, name, arguments, handshakes)}", flush=True)
            if name.startswith("h3probe"):
                print(f"{'':11}{_told(lab.folder / 'told', 2 * handshakes)}", flush=True)
        print(f"{'idle':11}{_idle(lab):.2f} % of one processor")


def _round(lab: BenchLab, name: str, arguments: list[str], handshakes: int) -> Round:
    capture, said = lab.folder / "capture", lab.folder / "said"
    argv = [str(capture) if argument == "FILE" else argument for argument in arguments]
    floods = [
        lab.netns.start([sys.executable, str(FLOOD), str(FLOOD_S)], cwd=lab.folder, stderr=lab.log)
        for _ in os.sched_getaffinity(0)
    ]
    with said.open("w") as err, (lab.folder / "told").open("w") as out:
        watcher = lab.netns.start(argv, cwd=lab.folder, stdout=out, stderr=err)
        _wait(said, READY[name.partition(" ")[0]])
        time.sleep(SETTLE_S)
        packets, before, taken, began = _packets(lab), _deciding(lab), _taken(watcher), time.monotonic()
        answered = sum(_fetch(lab, option, handshakes) for option in ("--http3-only", "--http2"))
        took = time.monotonic() - began
        offered, busy = (_packets(lab) - packets) / took, (_taken(watcher) - taken) / took
        time.sleep(SETTLE_S)
        deciding = _deciding(lab) - before
        for flood in floods:
            stop(flood)
        watcher.terminate()
        watcher.wait(PATIENCE_S)
    seen = _seen(capture) if "FILE" in arguments else None
    capture.unlink(missing_ok=True)
    return Round(offered, answered, deciding, seen, busy)


def _wait(said: Path, ready: str) -> None:
    deadline = time.monotonic() + READY_S
    while ready not in said.read_text():
        if time.monotonic() > deadline:
            raise RuntimeError(f"it did not start: {said.read_text()}")
        time.sleep(0.02)


def _fetch(lab: BenchLab, option: str, handshakes: int) -> int:
    """Connect to so many names; how many were answered."""
    urls = f"https://h[1-{handshakes}].test:{SERVER}/none"
    argv = ["curl", "-s", "-k", option, "-Z", "--parallel-max", str(AT_ONCE), "--connect-to"]
    argv += [f"::127.0.0.1:{SERVER}", "-o", "/dev/null", "-w", "%{http_code}\\n", urls]
    return lab.netns.run(lab.parts.command(argv), cwd=lab.folder, timeout=FLOOD_S).stdout.count("404\n")


def _taken(watcher: subprocess.Popen[str]) -> float:
    """The processor time of a watcher and its children so far, seconds."""
    tree = [psutil.Process(watcher.pid), *psutil.Process(watcher.pid).children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in tree)


def _packets(lab: BenchLab) -> int:
    table = lab.netns.run(["cat", "/proc/net/dev"], cwd=lab.folder, timeout=10).stdout
    return int(next(line for line in table.splitlines() if "lo:" in line).split()[2])


def _deciding(lab: BenchLab) -> int:
    rules = lab.netns.run(["nft", "list", "table", "inet", "load"], cwd=lab.folder, timeout=10).stdout
    return sum(map(int, re.findall(r"counter packets (\d+)", rules)))


def _seen(capture: Path) -> int:
    decoder, port, count = PacketDecoder(), SERVER.to_bytes(2), 0
    with open_capture(capture) as reader:
        for event in reader:
            if isinstance(event, Frame) and port in event.data[34:38]:
                count += _decides(decoder.decode(event))
    return count


def _decides(fact: object) -> bool:
    """The same that the kernel counts."""
    if isinstance(fact, UdpDatagram):
        return bool(fact.payload and fact.payload[0] & 0x80)
    if not isinstance(fact, TcpSegment):
        return False
    kind = fact.payload[0] if fact.payload else 0
    small = int.from_bytes(fact.payload[3:5]) <= SMALL_RECORD
    return bool(fact.flags & (SYN | FIN | RST)) or 20 <= kind <= 22 or (kind == 23 and small)


def _told(path: Path, handshakes: int) -> str:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    ready = sum(
        record["outcome"] == "established" and record["ready_at"] is not None
        for record in records
        if record["type"] in {"quic", "tcp"} and record["server"].endswith(f":{SERVER}")
    )
    summary = records[-1]
    return (
        f"tells {ready:,} of {handshakes:,} that were tried, each with when it was ready; "
        f"{summary['packets']:,} packets seen, {summary['dropped']:,} lost, "
        f"{summary['uncounted']:,} of long transfers not counted"
    )


def _idle(lab: BenchLab) -> float:
    watcher = lab.start("watch", "-i", "lo")
    time.sleep(SETTLE_S)
    before = _taken(watcher)
    time.sleep(IDLE_S)
    taken = _taken(watcher) - before
    stop(watcher)
    return taken / IDLE_S * 100


if __name__ == "__main__":
    main()
