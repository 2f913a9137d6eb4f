from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.wire.proxy_protocol import header_length

TEXT = b"PROXY TCP6 2001:db8::1 2001:db8::2 50000 443\r\n"
BINARY = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)
HEADERS = {"text": TEXT, "unknown": b"PROXY UNKNOWN\r\n", "binary": BINARY, "local": BINARY[:12] + b"\x20\0\0\0"}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_header(header: bytes) -> None:
    """A header of either version has its length, once it is whole; nothing is said before."""
    assert header_length(header + b"\x16\x03\x01") == len(header)
    assert header_length(header) == len(header)
    assert [header_length(header[:cut]) for cut in range(len(header))] == [None] * len(header)


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\n",
        b"PROXY " + b"x" * 120,
        BINARY[:12] + b"\x11" + bytes(20),
        BINARY[:14] + b"\xff\xff",
    ],
    ids=["GET", "POST", "a line without an end", "version 1 in binary", "too long"],
)
def test_no_header(stream: bytes) -> None:
    """What begins otherwise, or goes on otherwise, is no header."""
    assert header_length(stream) == 0


@given(st.binary(max_size=300) | st.binary(max_size=100).map(BINARY[:13].__add__))
def test_any_bytes(stream: bytes) -> None:
    """A header lies within the stream."""
    length = header_length(stream)
    assert length is None or 0 <= length <= len(stream)
