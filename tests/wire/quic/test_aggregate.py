from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.wire.quic.aggregate import LARGEST_PLAIN, SMALLEST_SEGMENT, split_aggregate

DCID = bytes.fromhex("8394c8f03e515708")


def one_rtt(size: int, dcid: bytes = DCID) -> bytes:
    """A 1-RTT packet of a size."""
    return (b"\x4a" + dcid).ljust(size, b"\x77")


def long(size: int, dcid: bytes = DCID) -> bytes:
    """A packet with a long header of a size."""
    return (b"\xc3\x00\x00\x00\x01" + bytes((len(dcid),)) + dcid).ljust(size, b"\x77")


@pytest.mark.parametrize("size", [1200, 1252, 1350, 1452, 1472])
@pytest.mark.parametrize("last", [30, 1199])
def test_trains_are_split(size: int, last: int) -> None:
    """A train is cut where each datagram begins with the connection ID; its last one may be shorter."""
    train = [one_rtt(size)] * 15 + [one_rtt(min(last, size))]
    assert split_aggregate(b"".join(train), DCID) == train


def test_a_train_of_both_kinds_of_headers() -> None:
    """A first flight, with long headers first and short ones after them, is one train."""
    train = [long(1252), long(1252), one_rtt(1252), one_rtt(80)]
    assert split_aggregate(b"".join(train), DCID) == train


@pytest.mark.parametrize("size", [LARGEST_PLAIN + 1, 4096, 9600, 65_000])
@pytest.mark.parametrize("make", [one_rtt, long])
def test_a_large_datagram_that_is_no_train_is_left_whole(make: object, size: int) -> None:
    """A path MTU probe of up to 9.6 kB, or a datagram on a path of jumbo frames, is one datagram."""
    whole = make(size)  # type: ignore[operator]
    assert split_aggregate(whole, DCID) == [whole]


def test_an_id_in_the_ciphertext_makes_no_train() -> None:
    """A connection ID that turns up by chance where no header stands does not split a datagram."""
    whole = bytearray(one_rtt(4000))
    whole[1300:1308] = DCID
    assert split_aggregate(bytes(whole), DCID) == [bytes(whole)]


def test_an_id_at_one_place_only_makes_no_train() -> None:
    """Every datagram of a train begins with the ID: one header-like place is not enough where more should follow."""
    whole = bytearray(one_rtt(5000))
    whole[1252 : 1252 + 9] = one_rtt(9)
    assert split_aggregate(bytes(whole), DCID) == [bytes(whole)]


def test_the_first_place_is_not_always_the_right_one() -> None:
    """An ID by chance before the second datagram does not hide the train."""
    first = bytearray(one_rtt(1400))
    first[1250:1259] = one_rtt(9)
    train = [bytes(first), one_rtt(1400), one_rtt(1400), one_rtt(50)]
    assert split_aggregate(b"".join(train), DCID) == train


@pytest.mark.parametrize("dcid", [b"", b"\x01\x02\x03"])
def test_ids_too_short_to_search_for(dcid: bytes) -> None:
    """IDs that turn up by chance, or are empty, cannot tell a train: it stays whole."""
    whole = one_rtt(1252, dcid) * 3
    assert split_aggregate(whole, dcid) == [whole]


def test_ordinary_datagrams_are_left_alone() -> None:
    """Below the usual MTU nothing was joined."""
    whole = one_rtt(700) + one_rtt(700)
    assert split_aggregate(whole, DCID) == [whole]


def test_an_empty_payload() -> None:
    """Nothing is one datagram of nothing."""
    assert split_aggregate(b"", DCID) == [b""]


@given(st.binary(max_size=4000), st.binary(max_size=20), st.integers(0, 6))
def test_nothing_is_lost(noise: bytes, dcid: bytes, copies: int) -> None:
    """Whatever it is, its parts in order are the payload again, and no part but the last is short."""
    payload = one_rtt(1300, dcid) * copies + noise
    parts = split_aggregate(payload, dcid)
    assert b"".join(parts) == payload
    assert all(len(part) >= SMALLEST_SEGMENT for part in parts[:-1])


@given(st.integers(SMALLEST_SEGMENT, 1472), st.integers(2, 40), st.integers(9, 1472))
def test_every_train_is_found(size: int, count: int, last: int) -> None:
    """Whatever the size of a train's datagrams, it is taken apart as it was joined."""
    train = [one_rtt(size)] * count + [one_rtt(min(last, size))]
    assert split_aggregate(b"".join(train), DCID) == train
