"""What hostile traffic costs: time for each frame, and whether memory grows with it.

    uv run python -m benchmarks.hostile [FRAMES]

Of each kind of traffic in tests/hostile.py so many frames (100,000 unless told) go through an engine, each by itself.
Printed are microseconds a frame in the first and in the second half, which are the same where time is linear, and the
memory (MiB) that the process had taken after a half and in the end.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING

from h3probe.engine import Engine
from tests.hostile import START, TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.events import Frame

FRAMES = 100_000
CHUNK = 5000
MICROSECOND_NS = 1000


def main() -> None:
    """Run each kind in a process of its own, and print a line for it."""
    frames = int(sys.argv[1]) if len(sys.argv) > 1 else FRAMES
    print(f"{frames:,} frames each: µs a frame in the halves, MiB after them, connections forgotten")
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name in TRAFFIC:
            first, second, middle, end, evicted = pool.apply(run, (name, frames))
            print(f"{name:42} {first:6.1f} {second:6.1f} {middle:6.0f} {end:6.0f} {evicted:9,}", flush=True)


def run(name: str, frames: int) -> tuple[float, float, float, float, int]:
    """Feed one kind; give what `main` prints."""
    engine = Engine("benchmark", "pcap")
    hostile = TRAFFIC[name]()
    first = _feed(engine, hostile, 0, frames // 2)
    middle = _taken()
    second = _feed(engine, hostile, frames // 2, frames)
    end = _taken()
    engine.finish()
    half = frames // 2
    return first / half * 1e6, second / (frames - half) * 1e6, middle, end, engine.tracker.evicted


def _feed(engine: Engine, hostile: Iterator[Frame], first: int, last: int) -> float:
    """Seconds in the engine; the making of the frames does not count."""
    took = 0.0
    for at in range(first, last, CHUNK):
        chunk = [
            replace(frame, number=number, time_ns=START + number * 10 * MICROSECOND_NS)
            for number, frame in enumerate(islice(hostile, min(CHUNK, last - at)), at + 1)
        ]
        began = time.perf_counter()
        for frame in chunk:
            engine.feed(frame)
        engine.take_moments()
        took += time.perf_counter() - began
    return took


def _taken() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
