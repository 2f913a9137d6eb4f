"""How fast the engine is: packets per second, and how the diagnosis grows with the number of connections.

    uv run python -m benchmarks.explain [PACKETS]

The traffic is made of the recordings in `captures/`, told over and over with connections of their own each time: once
each round by another client, so that there are many stories; once all by one client to one server, so that there are
few and long ones. Twice the packets should take twice the time in both.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.engine import Engine
from h3probe.events import Frame
from h3probe.vantage.files import open_capture

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPTURES = Path(__file__).parents[1] / "captures"
DEFAULT_PACKETS = 100_000
SERVER_PORTS = range(4433, 4439)
TCP, UDP = 6, 17
# Offsets in an Ethernet frame with an IPv4 header without options.
PROTOCOL, SOURCE, DESTINATION, PORTS = 23, 26, 30, 34
SERVER = bytes([10, 255, 255, 254])


def recorded() -> list[Frame]:
    """The TCP and UDP packets over IPv4 of all recordings, one recording after the other."""
    frames: list[Frame] = []
    for path in sorted(CAPTURES.glob("*.pcap")):
        with open_capture(path) as reader:
            frames += [event for event in reader if isinstance(event, Frame) and _fits(event.data)]
    return frames


def _fits(data: bytes) -> bool:
    return data[12:15] == b"\x08\x00\x45" and data[PROTOCOL] in {TCP, UDP} and _client_first(data) is not None


def _client_first(data: bytes) -> bool | None:
    """Whether the client sent it; None where neither port is a test server's."""
    source, destination = (int.from_bytes(data[at : at + 2]) for at in (PORTS, PORTS + 2))
    if destination in SERVER_PORTS:
        return True
    return False if source in SERVER_PORTS else None


def rounds(frames: list[Frame], packets: int, *, one_client: bool) -> Iterator[Frame]:
    """So many packets; time goes on from round to round. Checksums are left wrong, as offloads leave them."""
    span = max(frame.time_ns for frame in frames) - min(frame.time_ns for frame in frames)
    ports: dict[tuple[int, int, bytes], int] = {}
    fresh = count(1024)
    for number in range(packets):
        turn, place = divmod(number, len(frames))
        frame = frames[place]
        data = bytearray(frame.data)
        outgoing = _client_first(frame.data)
        host, port = (SOURCE, PORTS) if outgoing else (DESTINATION, PORTS + 2)
        data[SOURCE : SOURCE + 8] = SERVER + SERVER
        data[host : host + 4] = bytes([10, 0, 0, 1]) if one_client else bytes([10, *turn.to_bytes(2), 1])
        if one_client:
            key = (turn, data[PROTOCOL], bytes(data[port : port + 2]))
            if key not in ports:
                ports[key] = next(fresh)
            data[port : port + 2] = ports[key].to_bytes(2)
        yield replace(frame, number=number + 1, time_ns=frame.time_ns + turn * span, data=bytes(data))


def measure(title: str, frames: list[Frame]) -> None:
    """Run the engine once, and print what it took."""
    engine = Engine("benchmark", None)
    began = time.perf_counter()
    for frame in frames:
        engine.feed(frame)
    fed = time.perf_counter()
    engine.finish()
    ended = time.perf_counter()
    connections = engine.counts["quic"] + engine.counts["tcp"]
    speed = len(frames) / (fed - began)
    print(f"{title:<14} {len(frames):>8,} packets  {connections:>6,} connections  {speed:>8,.0f} packets/s", end="")
    print(f"  diagnosis {ended - fed:7.2f} s")


def main() -> None:
    """Measure both kinds of traffic, and half of each."""
    packets = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_PACKETS
    frames = recorded()
    for title, one_client in (("many clients", False), ("one client", True)):
        for size in (packets // 2, packets):
            measure(title, list(rounds(frames, size, one_client=one_client)))


if __name__ == "__main__":
    main()
