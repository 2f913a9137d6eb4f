"""What making a bundle of a large capture costs: seconds, and the most memory that is resident at once.

    uv run python -m benchmarks.bundle [MEGABYTES] [FOLDER]

The capture is made of the recordings, as in `benchmarks.explain`, with a download of as many bytes after each round of
them; it is written to the folder (the system's for temporary files unless given), and removed again.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.explain import recorded, rounds
from h3probe.capture import PcapngWriter
from h3probe.events import Endpoint, Frame
from h3probe.vantage import synthesis
from h3probe.vantage.synthesis import LINKTYPE_RAW, Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_MB = 500
MB = 1_000_000
CLIENT, SERVER = Endpoint(bytes([10, 1, 0, 1]), 50_000), Endpoint(bytes([10, 1, 0, 2]), 443)
RECORD = b"\x17\x03\x03\x05\x50" + bytes(range(256)) * 5 + bytes(80)


def traffic(size: int) -> Iterator[Frame]:
    """Frames of so many bytes, half of them a download."""
    frames = recorded()
    written = downloaded = 0
    for frame in rounds(frames, size, one_client=False):  # more than are needed
        yield frame
        written += len(frame.data)
        while downloaded < written:
            packet = synthesis.tcp(SERVER, CLIENT, Segment(synthesis.ACK, downloaded & 0xFFFFFFFF, 1, RECORD))
            downloaded += len(packet)
            yield replace(frame, link_type=LINKTYPE_RAW, data=packet, length=len(packet))
        if written + downloaded >= size:
            return


def main() -> None:
    """Make a capture, make a bundle of it, and print what that took."""
    size = (int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_MB) * MB
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        capture, target = Path(name) / "large.pcapng", Path(name) / "large.h3probe.zip"
        with capture.open("wb") as stream:
            writer = PcapngWriter(stream, application="benchmark")
            for frame in traffic(size):
                writer.packet(frame)
        began = time.perf_counter()
        subprocess.run(  # noqa: S603 - this Python
            [sys.executable, "-m", "h3probe", "bundle", str(capture), "-o", str(target)], check=True
        )
        took = time.perf_counter() - began
        resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        print(f"{capture.stat().st_size / MB:,.0f} MB became {target.stat().st_size / MB:,.1f} MB", end="")
        print(f" in {took:.0f} s; at most {resident / MB:,.0f} MB resident")


if __name__ == "__main__":
    main()
