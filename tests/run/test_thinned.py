from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from h3probe.capture import blocks
from h3probe.events import Frame
from h3probe.run import thinned
from h3probe.run.explaining import Asked, explained
from h3probe.track import quic_tracker, tcp_tracker, thinning_pass
from h3probe.track.table import RecencyTable
from tests.diagnose.scenario import CLIENT, STATION, Network
from tests.run.mixes import FOLDER, mixes, pcap, pcapng

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CAPTURES = sorted(FOLDER.glob("*.pcap"))


class Crowded(RecencyTable[Any, Any]):
    """A table that is full with two connections."""

    def __init__(self, _: int) -> None:
        super().__init__(2)


@pytest.fixture(
    params=[(2048, RecencyTable, 1), (1 << 20, RecencyTable, 1), (1 << 20, Crowded, 1), (4096, RecencyTable, 8)]
)
def _in_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest capture counts as large.

    Blocks are small; or hold all of it; or connections have to leave early; or blocks come and go.
    """
    size, table, fewest = request.param
    monkeypatch.setattr(quic_tracker, "RecencyTable", table)
    monkeypatch.setattr(tcp_tracker, "RecencyTable", table)
    monkeypatch.setattr(thinning_pass, "_WORTH", 1)
    monkeypatch.setattr(thinning_pass, "FEW", 3)
    monkeypatch.setattr(thinned, "LARGE", 0)
    monkeypatch.setattr(blocks, "FEWEST", fewest)
    monkeypatch.setattr(blocks, "ONE_BY_ONE", 0)
    monkeypatch.setattr(blocks, "SIZE", size)


def both(path: Path) -> tuple[list[str], list[str]]:
    """What is said of a capture in blocks, and frame by frame."""
    said = []
    for one_by_one in (False, True):
        found = explained(Asked((str(path),), one_by_one=one_by_one))
        said.append([str(each) for each in (*found.all_records, *found.all_moments)])
    return said[0], said[1]


@pytest.mark.usefixtures("_in_blocks")
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_recording_in_blocks_says_the_same(capture: Path) -> None:
    """Each record and each line of the timeline is the same, whether packets are counted or looked at."""
    fast, slow = both(capture)
    assert fast == slow


@pytest.mark.usefixtures("_in_blocks")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=mixes(), write=st.sampled_from((pcap, pcapng)), cut=st.integers(0, 40))
def test_a_mix_in_blocks_says_the_same(
    frames: list[tuple[int, bytes, int]],
    write: Callable[..., bytes],
    cut: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """So it is for traffic that no client makes: lost, doubled, cut, disordered, with ports used anew."""
    path = tmp_path_factory.getbasetemp() / "mix"
    data = write(frames)
    path.write_bytes(data[: len(data) - cut])
    fast, slow = both(path)
    assert fast == slow


@pytest.mark.usefixtures("_in_blocks")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.sampled_from("cccccs"), st.sampled_from((0.0, 0.1, 0.6, 2.0))), max_size=60),
    silent=st.integers(0, 6),
)
def test_silence_in_blocks_is_the_same(
    steps: list[tuple[str, float]], silent: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A client that sends on and on in vain is seen to, whether its packets are counted or looked at."""
    network = Network(stations={CLIENT: STATION})
    quic = network.quic()
    quic.connects(0.0)
    at = 1.0
    for side, pause in [*steps, *[("c", 0.7)] * silent]:
        at += pause
        (quic.request if side == "c" else quic.response)(at, size=60)
    path = tmp_path_factory.getbasetemp() / "silence"
    frames = [event for event in network.events() if isinstance(event, Frame)]
    path.write_bytes(pcap([(frame.time_ns, frame.data, len(frame.data)) for frame in frames]))
    fast, slow = both(path)
    assert fast == slow
