"""How fast the engine is: packets per second and memory, on a capture of many connections.

    uv run python -m benchmarks.explain [PACKETS]

The capture is made of the recordings in `captures/`, read into memory and told over and over, each time from client
addresses of its own, so that every round is new connections, new races and new findings.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.engine import Engine
from h3probe.events import Frame
from h3probe.vantage.files import open_capture
from h3probe.wire.link import network_layer

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPTURES = Path(__file__).parents[1] / "captures"
DEFAULT_PACKETS = 200_000
LOOPBACK = bytes([127, 0, 0, 1])


def recorded() -> list[Frame]:
    """The IPv4 frames of all recordings, one recording after the other."""
    frames: list[Frame] = []
    for path in sorted(CAPTURES.glob("*.pcap")):
        with open_capture(path) as reader:
            frames += [event for event in reader if isinstance(event, Frame) and network_layer(event.link_type, event.data)[0] == 4]
    return frames


def rounds(frames: list[Frame], packets: int) -> Iterator[Frame]:
    """So many packets; both addresses of each round are its own, and time goes on from round to round.

    The checksums are then wrong, which offloads make usual and h3probe does not look at.
    """
    span = max(frame.time_ns for frame in frames) - min(frame.time_ns for frame in frames)
    for number in range(packets):
        turn, place = divmod(number, len(frames))
        frame = frames[place]
        address = bytes([10, *turn.to_bytes(2), 1])
        yield replace(
            frame,
            number=number + 1,
            time_ns=frame.time_ns + turn * span,
            data=frame.data.replace(LOOPBACK, address),
        )


def main() -> None:
    """Run the engine once, and print what it took."""
    packets = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_PACKETS
    frames = list(rounds(recorded(), packets))
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    engine = Engine("benchmark", None)
    records = sum(len(engine.feed(frame)) for frame in frames)
    fed = time.perf_counter()
    records += len(engine.finish())
    ended = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{packets} packets, {records} records, {len(engine.stories())} stories")
    print(f"decoding and tracking  {fed - began:7.2f} s  {packets / (fed - began):10,.0f} packets/s")
    print(f"diagnosis              {ended - fed:7.2f} s")
    print(f"memory                 {(after.ru_maxrss - before.ru_maxrss) / 1024:7.1f} MiB more than before")


if __name__ == "__main__":
    main()
