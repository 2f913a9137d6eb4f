"""Eight hours of a watcher at 1,000 connections a second, with a clock that runs fast: does memory grow?

    uv run python -m benchmarks.long_run [SECONDS]

Of each hour so many seconds (36, a hundredth of it, unless told) are at the full rate, one after the other, which is
more than fills the tables; in the others nothing comes, and time passes. Connections are QUIC and TLS in turn, each a
handshake, some packets, and over TLS its end. The engine is driven as `watch` drives it: packets as they come, and once
a second what is quiet is looked at. Printed are the memory that the process has taken (MiB) after each hour's traffic,
and at the end of the hour.
"""

from __future__ import annotations

import heapq
import os
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks.traffic import START_S, Pair, quic, tls
from h3probe.engine import Engine
from h3probe.events import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.traffic import Packets

HOURS = 8
HOUR_S = 3600
RATE = 1000
FULL_SECONDS = 36
PACKETS = 6
"""Of each connection, after its handshake."""
ETHERNET = 1
S, US = 10**9, 10**3


class Watcher:
    """An engine, driven as a live run drives it."""

    def __init__(self) -> None:
        self.engine = Engine("benchmark", "live")
        self.now_ns = START_S * S
        self.frames = self.moments = self.records = 0

    def frame(self, time_ns: int, data: bytes) -> None:
        """Take a packet, when its time has come."""
        self.until(time_ns)
        self.frames += 1
        self._take(self.engine.feed(Frame(self.frames, time_ns, ETHERNET, data, len(data))))

    def until(self, time_ns: int) -> None:
        """Let time pass."""
        while self.now_ns + S <= time_ns:
            self.now_ns += S
            self._take(self.engine.advance(self.now_ns))

    def _take(self, records: Sequence[object]) -> None:
        self.records += len(records)
        self.moments += len(self.engine.take_moments())


def busy(first: int, seconds: int, start_ns: int) -> Iterator[tuple[int, bytes]]:
    """Packets of connections that begin at the full rate, in order of time; connections are numbered from `first`."""
    random = Random(first)
    waiting: list[tuple[int, int, bytes, Packets]] = []

    def follow(at: int, number: int, packets: Packets) -> None:
        for gap, frame in packets:
            heapq.heappush(waiting, (at + gap * US, number, frame, packets))
            return

    for begun in range(seconds * RATE):
        at = start_ns + begun * S // RATE
        while waiting and waiting[0][0] <= at:
            due, number, frame, packets = heapq.heappop(waiting)
            yield due, frame
            follow(due, number, packets)
        number = first + begun
        follow(at, number, (quic if number % 2 else tls)(Pair(number), random, PACKETS))
    while waiting:
        due, number, frame, packets = heapq.heappop(waiting)
        yield due, frame
        follow(due, number, packets)


def memory() -> float:
    """What this process has in memory now, MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Run, and print a line for each hour."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else FULL_SECONDS
    watcher = Watcher()
    print(f"{RATE:,} connections a second in {seconds} seconds of each hour; at the beginning {memory():.0f} MiB")
    print("hour  busy MiB  quiet MiB  connections  records  forgotten  CPU s")
    for hour in range(HOURS):
        start_ns = (START_S + hour * HOUR_S) * S
        for time_ns, data in busy(hour * seconds * RATE, seconds, start_ns):
            watcher.frame(time_ns, data)
        after_traffic = memory()
        watcher.until(start_ns + HOUR_S * S)
        counts, evicted = watcher.engine.counts, watcher.engine.tracker.evicted
        print(
            f"{hour + 1:4}  {after_traffic:8.0f}  {memory():9.0f}  {counts['quic'] + counts['tcp']:11,}  "
            f"{watcher.records:7,}  {evicted:9,}  {time.process_time():5.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
