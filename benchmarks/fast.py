"""How fast, and in how much memory, large captures are explained, beside tshark and capinfos in the same run.

    uv run python -m benchmarks.fast [FOLDER]

The captures are made once (`benchmarks/traffic.py`) and kept in FOLDER (3 GB; default `.cache/benchmarks`). tshark
is asked with `-T fields` for the facts that h3probe needs to say what it says. What is printed first is CPU time, user
and system, since it depends least on what else the machine does; times of different runs are not to be compared, ratios
are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.traffic import BULK, FLOOD, OFFICE, SHORT, TEN, captures

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "frame.len",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.stream",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.flags",
    "tcp.seq_raw",
    "tcp.len",
    "udp.stream",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "tls.record.content_type",
    "tls.handshake.type",
    "tls.handshake.version",
    "tls.handshake.ciphersuite",
    "tls.handshake.extension.type",
    "tls.handshake.extensions_server_name",
    "tls.handshake.extensions_alpn_str",
    "tls.alert_message.desc",
    "quic.header_form",
    "quic.long.packet_type",
    "quic.version",
    "quic.dcid",
    "quic.scid",
    "quic.packet_number",
    "quic.frame_type",
    "quic.cc.error_code",
    "quic.cc.reason_phrase",
    "http.request.method",
    "http.request.uri",
    "http.response.code",
    "icmp.type",
    "icmp.code",
    "dns.qry.name",
)
"""Addresses, ports, times and sizes; handshakes, versions, names and ends of connections; what else explains them."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Took:
    """What a program took: CPU time and time by the clock in seconds, and memory at its peak in MiB."""

    cpu: float
    clock: float
    memory: float


def run(argv: Sequence[str], cache: Path) -> Took:
    """Run a program once; what it prints is thrown away."""
    # Installed programs are compiled once; so is h3probe here, whatever the environment says about it.
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache / "pycache")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)  # noqa: S603
    _, status, usage = os.wait4(process.pid, 0)
    clock = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1}:
        sys.exit(f"{argv[0]} failed with {process.returncode}")
    return Took(usage.ru_utime + usage.ru_stime, clock, usage.ru_maxrss / 1024)


def explain(cache: Path, *args: str | Path) -> Took:
    """Run `h3probe explain --json`."""
    return run([sys.executable, "-P", "-m", "h3probe", "explain", "--json", *map(str, args)], cache)


def tshark(cache: Path, path: Path) -> Took:
    """Run tshark for the same facts."""
    return run(["tshark", "-r", str(path), "-T", "fields", *(word for name in FIELDS for word in ("-e", name))], cache)


def line(title: str, took: Took, other: Took | None = None) -> None:
    """Print one measurement, and how it compares."""
    text = f"  {title:<28}{took.cpu:8.2f} s CPU {took.clock:8.2f} s {took.memory:7.0f} MiB"
    if other is not None:
        text += f"   {other.cpu / took.cpu:5.1f} x the speed (by the clock {other.clock / took.clock:.1f} x)"
    print(text, flush=True)


def compare(cache: Path, title: str, path: Path) -> None:
    """One capture, with what there is to compare with."""
    print(f"{title}: {path.stat().st_size / MIB:,.0f} MiB", flush=True)
    other = tshark(cache, path) if shutil.which("tshark") else None
    if other is not None:
        line("tshark -T fields", other)
    if shutil.which("capinfos"):
        line("capinfos", run(["capinfos", str(path)], cache), other)
    line("h3probe explain", explain(cache, path), other)


def in_parallel(cache: Path, path: Path) -> None:
    """Four times the same capture, by one process and by one for each core."""
    folder = cache / "folder"
    folder.mkdir(exist_ok=True)
    for number in range(4):
        link = folder / f"{number}.pcap"
        if not link.exists():
            os.link(path, link)
    cores = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
    print(f"a folder of 4 captures, {cores} cores")
    one = explain(cache, "--jobs", "1", folder)
    line("h3probe explain --jobs 1", one)
    line("h3probe explain", explain(cache, folder), one)


def main() -> None:
    """Measure everything."""
    cache = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".cache" / "benchmarks"
    made = captures(cache)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine has other work (load {load:.1f}): only CPU times mean anything")
    explain(cache, made[TEN])
    print("ten packets")
    line("h3probe explain", explain(cache, made[TEN]))
    compare(cache, "1,000,000 packets of bulk", made[BULK])
    compare(cache, "100,000 short connections", made[SHORT])
    compare(cache, "60,000 connections of one address for 30,000 names", made[OFFICE])
    print(f"a flood: 1,000,000 SYNs and Initials, {made[FLOOD].stat().st_size / MIB:,.0f} MiB")
    line("h3probe explain", explain(cache, made[FLOOD]))
    in_parallel(cache, made[BULK])


if __name__ == "__main__":
    main()
