from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numpy")

from h3probe.capture.pcapng_write import PcapngWriter
from h3probe.events import Frame
from tests.blocks import in_a_block

frames = st.builds(
    Frame,
    st.just(1),
    st.integers(0, 2**62),
    st.just(1),
    st.binary(max_size=70),
    st.integers(0, 65_000),
    st.just("eth0"),
)


@given(st.lists(frames, min_size=1, max_size=20))
def test_a_block_is_written_as_its_packets_are(made: list[Frame]) -> None:
    """The bytes are those that writing packet by packet gives, whatever lengths and times there are."""
    made = [replace(frame, length=len(frame.data) + frame.length) for frame in made]
    files = io.BytesIO(), io.BytesIO()
    at_once, one_by_one = (PcapngWriter(file, application="test") for file in files)
    for frame in made:
        one_by_one.packet(frame)
    at_once.packets(in_a_block(made))
    assert files[0].getvalue() == files[1].getvalue()
    for writer in (at_once, one_by_one):
        writer.statistics(0, None, 3)
    assert files[0].getvalue() == files[1].getvalue()
