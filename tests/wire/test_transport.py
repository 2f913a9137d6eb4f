from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire.transport import ACK, FIN, PSH, RST, SYN, parse_tcp, parse_udp
from tests.wire.packets import tcp, udp


def test_udp() -> None:
    """A datagram gives its ports, its payload and that payload's length, and leaves out what follows it."""
    assert parse_udp(udp(b"hello") + b"padding", 0, 20, 20) == (50000, 443, b"hello", 5)


def test_udp_cut_by_a_snaplen() -> None:
    """The length is the header's, the payload what was captured."""
    assert parse_udp(udp(bytes(1200))[:100], 0, 100, 1208) == (50000, 443, bytes(92), 1200)


def test_udp_length_zero_is_a_jumbogram() -> None:
    """A UDP length of zero takes the packet's own (RFC 2675, section 4)."""
    assert parse_udp(udp(b"hello", length=0), 0, 13, 13)[3] == 5


def test_udp_malformed() -> None:
    """A datagram shorter than a UDP header, by its captured bytes or by its own length, is an error."""
    with pytest.raises(TruncatedError):
        parse_udp(udp()[:7], 0, 7, 12)
    with pytest.raises(DecodeError):
        parse_udp(udp(length=7), 0, 12, 12)


def test_tcp() -> None:
    """A segment gives ports, numbers, flags and payload, without its options."""
    data = tcp(b"hello", flags=SYN | ACK, options=bytes(8))
    assert parse_tcp(data, 0, len(data), len(data)) == (50000, 443, 1000, 2000, SYN | ACK, b"hello", 5)


def test_tcp_cut_inside_its_options() -> None:
    """A segment whose options were cut has no payload, and still its length."""
    data = tcp(bytes(1000), options=bytes(12))[:24]
    assert parse_tcp(data, 0, 24, 1032)[5:] == (b"", 1000)


def test_tcp_malformed() -> None:
    """A header that is cut, or whose length is below 20 bytes or beyond the segment, is an error."""
    with pytest.raises(TruncatedError):
        parse_tcp(tcp()[:19], 0, 19, 24)
    for size in (0x40, 0xF0):
        data = tcp()[:12] + bytes([size]) + tcp()[13:]
        with pytest.raises(DecodeError):
            parse_tcp(data, 0, len(data), len(data))


def test_flags() -> None:
    """The flags have the values of RFC 9293, section 3.1."""
    assert (FIN, SYN, RST, PSH, ACK) == (1, 2, 4, 8, 16)


@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 100))
def test_any_bytes(data: bytes, start: int, missing: int) -> None:
    """Any bytes at any place give a payload out of them, or a DecodeError."""
    for parse in (parse_udp, parse_tcp):
        try:
            *_, payload, length = parse(data, min(start, len(data)), len(data), max(len(data) - start, 0) + missing)
        except DecodeError:
            continue
        assert payload in data
        assert length >= 0
