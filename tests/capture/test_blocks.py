from __future__ import annotations

import gzip
from io import BytesIO, RawIOBase
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from h3probe.capture import CaptureReader, blocks, read_capture
from tests.run.mixes import mixes, pcap, pcapng

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.capture.reader import CaptureEvent


def in_blocks(reader: CaptureReader) -> list[CaptureEvent]:
    """All events, those that come in blocks taken apart."""
    events: list[CaptureEvent] = []
    while True:
        block = reader.block()
        if block is not None:
            events += [block.frame(index) for index in range(len(block))]
            continue
        event = next(reader, None)
        if event is None:
            return events
        events.append(event)


@pytest.fixture(params=[64, 3000, 1 << 20])
def _size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers in which hardly a packet has room, and large ones."""
    monkeypatch.setattr(blocks, "SIZE", request.param)
    monkeypatch.setattr(blocks, "FEWEST", 2)
    monkeypatch.setattr(blocks, "ONE_BY_ONE", 100)


@pytest.mark.usefixtures("_size")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frames=mixes(),
    write=st.sampled_from((pcap, pcapng)),
    pack=st.sampled_from((bytes, gzip.compress)),
    cut=st.integers(0, 40),
    damage=st.none() | st.tuples(st.integers(0, 20_000), st.integers(0, 255)),
)
def test_blocks_hold_what_one_by_one_comes(
    frames: list[tuple[int, bytes, int]],
    write: Callable[..., bytes],
    pack: Callable[[bytes], bytes],
    cut: int,
    damage: tuple[int, int] | None,
) -> None:
    """The same events in the same order, whole captures and damaged ones."""
    data = bytearray(write(frames))
    data = data[: len(data) - cut]
    if damage is not None and len(data) > 64:
        data[64 + damage[0] % (len(data) - 64)] = damage[1]
    packed = pack(bytes(data))
    one, other = read_capture(BytesIO(packed)), read_capture(BytesIO(packed))
    assert in_blocks(one) == list(other)
    assert (one.truncated, one.dropped, one.offset) == (other.truncated, other.dropped, other.offset)


class Pipe(RawIOBase):
    """Gives what it has, and must not be asked for more while there are packets to tell of."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.told = 0

    def readable(self) -> bool:
        """It is read."""
        return True

    def readinto(self, room: Any) -> int:  # noqa: ANN401 - any buffer
        """The next piece."""
        assert self.told >= 3 or len(self.pieces) > 1, "somebody waits for a fourth packet before three are told of"
        piece = self.pieces.pop(0) if self.pieces else b""
        room[: len(piece)] = piece
        return len(piece)


def test_packets_that_are_there_are_not_held_back() -> None:
    """From a pipe come three packets, and then nothing for long: they are told of before anybody waits."""
    data = pcap([(number, bytes(60), 60) for number in range(4)])
    pipe = Pipe(data[:24], data[24 : 24 + 3 * 76], data[24 + 3 * 76 :])
    reader = read_capture(cast("BinaryIO", pipe))
    for _ in range(3):
        assert reader.block() is None
        assert next(reader, None) is not None
        pipe.told += 1
