from __future__ import annotations

from io import BytesIO

import pytest

from h3probe.capture import read_capture
from h3probe.events import Counted, Frame
from h3probe.track.thinning import Thinning
from h3probe.track.tracker import Tracker
from tests.run.mixes import again, pcap, recorded
from tests.wire.packets import SECOND


def download(*, udp: bool) -> bytes:
    """A recording, and after it the server's last packet over UDP or TCP again and again."""
    frames = list(recorded("jdk26-client-any.pcap"))
    last = [f for f in frames if f[23] == (17 if udp else 6) and f[34:36] < f[36:38] and len(f) > 70][-1]
    for _ in range(200):
        frames += again(last, 37)[1:]
    return pcap([(SECOND + number, frame, len(frame)) for number, frame in enumerate(frames)])


def run(data: bytes) -> tuple[Tracker, int, int]:
    """Feed a capture in blocks; return the tracker, and how many frames were fed and counted."""
    tracker = Tracker()
    thinning = Thinning(tracker)
    fed = counted = 0
    reader = read_capture(BytesIO(data))
    while (block := reader.block()) is not None:
        for event in thinning.events(block):
            if isinstance(event, Counted):
                counted += event.frames
                tracker.count(event)
                continue
            fed += 1
            if isinstance(event, Frame):
                tracker.feed(event)
            else:
                tracker.follow(event, event.time_ns)
    return tracker, fed, counted


@pytest.mark.parametrize("udp", [True, False])
def test_a_download_is_counted(*, udp: bool) -> None:
    """Once a connection is ready, hardly one of thousands of packets is fed; all are accounted for."""
    tracker, fed, counted = run(download(udp=udp))
    assert counted > 7000
    assert fed < 150
    assert tracker.packets == fed + counted


def test_what_is_over_is_let_go_of() -> None:
    """What is remembered of a flow goes with its connection."""
    tracker, _, _ = run(download(udp=True))
    assert tracker.watched
    tracker.sweep(tracker.clock.now_ns + 1000 * SECOND)
    assert set(tracker.unwatched) == tracker.watched
