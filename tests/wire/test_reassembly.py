from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.wire.reassembly import BLOCK, Reassembler

if TYPE_CHECKING:
    from random import Random

STREAM = b"".join(hashlib.sha256(bytes((n,))).digest() for n in range(3 * BLOCK // 32))


def test_pieces_in_order_grow_the_prefix() -> None:
    """Each piece that continues the stream is reported as growth and read back at once."""
    stream = Reassembler()
    assert stream.add(0, b"abc")
    assert stream.add(3, b"def")
    assert stream.contiguous == b"abcdef"
    assert stream.gaps == ()


def test_a_piece_ahead_waits_for_the_gap_to_close() -> None:
    """A piece ahead of its turn is no growth, its gap is reported, and the missing piece releases it."""
    stream = Reassembler()
    assert not stream.add(3, b"def")
    assert stream.gaps == ((0, 3),)
    assert stream.contiguous == b""
    assert stream.add(0, b"abc")
    assert stream.contiguous == b"abcdef"
    assert stream.gaps == ()


def test_a_repeated_piece_is_neither_growth_nor_conflict() -> None:
    """A retransmission of what is there, early or waiting, changes nothing."""
    stream = Reassembler()
    stream.add(0, b"abc")
    stream.add(5, b"fg")
    assert not stream.add(0, b"abc")
    assert not stream.add(5, b"fg")
    assert not stream.add(1, b"")
    assert stream.contiguous == b"abc"
    assert not stream.conflict


@pytest.mark.parametrize("first", [0, 2, BLOCK - 1])
def test_first_bytes_win_a_conflict(first: int) -> None:
    """An overlap with other bytes sets `conflict` and keeps what came first, in the prefix or waiting."""
    stream = Reassembler()
    stream.add(first, b"abcd")
    stream.add(first + 2, b"XYe")
    assert stream.conflict
    stream.add(0, bytes(first))
    assert stream.contiguous == bytes(first) + b"abcde"


def test_a_piece_that_begins_before_the_stream_loses_its_head() -> None:
    """A TCP keep-alive or retransmission that reaches back before offset 0 contributes only the rest."""
    stream = Reassembler()
    assert stream.add(-2, b"xxabc")
    assert not stream.add(-5, b"yyy")
    assert stream.contiguous == b"abc"
    assert not stream.conflict


def test_nothing_is_stored_past_the_limit() -> None:
    """What lies past the limit is dropped and said so; what lies before it is kept."""
    stream = Reassembler(limit=4)
    assert stream.add(0, b"ab")
    assert not stream.overflow
    assert stream.add(2, b"cdEF")
    assert stream.overflow
    assert stream.contiguous == b"abcd"
    assert not stream.add(1 << 62, b"far")
    assert stream.gaps == ()


def test_a_far_piece_costs_only_its_own_blocks() -> None:
    """Memory follows what was received, not the offset it was received at."""
    stream = Reassembler(limit=1 << 40)
    stream.add(1 << 39, b"far")
    assert len(stream._blocks) == 1


@pytest.mark.parametrize("order", ["forwards", "backwards", "shuffled", "odd ones first"])
def test_one_byte_pieces_in_any_order(order: str) -> None:
    """A stream cut into single bytes comes back whole in whatever order they arrive."""
    offsets = list(range(len(STREAM)))
    if order == "backwards":
        offsets.reverse()
    elif order == "shuffled":
        offsets.sort(key=lambda offset: hashlib.sha256(offset.to_bytes(2)).digest())
    elif order == "odd ones first":
        offsets = offsets[1::2] + offsets[::2]
    stream = Reassembler()
    grown = sum(stream.add(offset, STREAM[offset : offset + 1]) for offset in offsets)
    assert stream.contiguous == STREAM
    assert not stream.conflict
    assert not stream._blocks
    assert grown == {"forwards": len(STREAM), "backwards": 1, "odd ones first": len(STREAM) // 2}.get(order, grown)


@given(
    st.lists(
        st.tuples(st.integers(-3, 2 * BLOCK + 5), st.binary(max_size=BLOCK + 3), st.booleans()),
        max_size=12,
    )
)
def test_agrees_with_a_byte_by_byte_model(pieces: list[tuple[int, bytes, bool]]) -> None:
    """For any pieces, true to one stream or not, all that is reported equals a model that stores single bytes."""
    limit = 2 * BLOCK
    stream = Reassembler(limit)
    model: dict[int, int] = {}
    conflict = overflow = False
    for offset, noise, is_true in pieces:
        data = STREAM[max(offset, 0) :][: len(noise)] if is_true else noise
        at = max(offset, 0) if is_true else offset
        before = _prefix_length(model)
        grew = stream.add(at, data)
        for position, byte in enumerate(data, at):
            overflow = overflow or position >= limit
            if 0 <= position < limit:
                conflict = (model.setdefault(position, byte) != byte) or conflict
        assert grew == (_prefix_length(model) > before)
    length = _prefix_length(model)
    assert stream.contiguous == bytes(model[position] for position in range(length))
    assert (stream.conflict, stream.overflow) == (conflict, overflow)
    missing = {position for start, end in stream.gaps for position in range(start, end)}
    assert missing == set(range(max(model, default=-1) + 1)) - set(model)


def _prefix_length(model: dict[int, int]) -> int:
    return next(position for position in range(len(model) + 1) if position not in model)


@given(st.binary(min_size=1, max_size=3000), st.randoms(), st.integers(1, 900))
def test_what_is_taken_is_forgotten(stream: bytes, random: Random, size: int) -> None:
    """However pieces come, and come again, what is taken makes up the stream, and the window moves on with it."""
    pieces = [(at, stream[at : at + size]) for at in range(0, len(stream), size)]
    mixed = pieces + random.sample(pieces, len(pieces) // 2)
    random.shuffle(mixed)
    reassembler = Reassembler(limit=len(stream) + 9)
    taken = b""
    for offset, piece in mixed:
        if reassembler.add(offset, piece):
            taken += reassembler.take()
        assert reassembler.taken == len(taken)
    assert taken == stream
    assert reassembler.held == 0
    assert reassembler.gaps == ()
    assert not reassembler.conflict
    assert not reassembler.add(len(stream) + 1, b"x")
    assert reassembler.gaps == ((len(stream), len(stream) + 1),)
    reassembler.add(2 * len(stream) + 9, b"past the window")
    assert reassembler.overflow
