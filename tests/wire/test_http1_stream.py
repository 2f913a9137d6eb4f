from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.wire.http1_stream import REQUESTS_LIMIT, Http1Reader
from h3probe.wire.http_fields import Request, Response

HOST = b"Host: example.com\r\n"


def read(data: bytes, *asked: str, step: int = 0) -> list[Request | Response]:
    """What the server's reader (where something was asked), or the client's, finds in bytes."""
    reader = Http1Reader(from_client=not asked, asked=deque(asked))
    step = step or len(data) or 1
    return [head for at in range(0, len(data), step) for head in reader.feed(data[at : at + step])]


@pytest.mark.parametrize("step", [0, 1, 3])
def test_requests(step: int) -> None:
    """Requests are numbered, with the bodies between them passed over, in whatever pieces they come."""
    data = b"POST /a?b=c HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nGET "
    data += b"PUT https://other.example:8443/b HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n"
    data += b"3\r\nabc\r\n0;x\r\nTrailer: x\r\n\r\nGET / HTTP/1.1\r\n" + HOST + b"Alt-Used: alt\r\n\r\n"
    assert read(data, step=step) == [
        Request(0, "POST", "https", "example.com", "/a?b=…"),
        Request(1, "PUT", "https", "other.example:8443", "/b"),
        Request(2, "GET", "https", "example.com", "/", "alt"),
    ]


@pytest.mark.parametrize("step", [0, 1, 3])
def test_responses(step: int) -> None:
    """What has a body is as RFC 9112, 6.3 says: not interim ones, 204, 304, nor the answer to HEAD."""
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\nAlt-Svc: clear\r\n\r\nabc"
    data += b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + b"HTTP/1.1 204 No Content\r\n\r\n"
    data += (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n" + b"HTTP/1.1 404 No\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
    )
    assert read(data, "GET", "HEAD", "GET", "GET", "GET", step=step) == [
        Response(0, 100),
        Response(0, 200, ("clear",)),
        Response(1, 200),
        Response(2, 204),
        Response(3, 304),
        Response(4, 404),
    ]


def test_another_protocol_after_an_upgrade_or_a_tunnel() -> None:
    """Behind 101, and behind CONNECT, is no more HTTP."""
    assert read(b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x05hello", "GET") == [Response(0, 101)]
    assert read(b"HTTP/1.1 200 OK\r\n\r\n\x16\x03", "CONNECT") == [Response(0, 200)]
    (asked,) = read(b"CONNECT example.com:443 HTTP/1.1\r\n\r\n\x16\x03\x01")
    assert isinstance(asked, Request)
    assert (asked.method, asked.authority) == ("CONNECT", "example.com:443")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n\r\n",
        b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 10_000,
        (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n") * (REQUESTS_LIMIT + 1),
    ],
    ids=["binary", "no-host", "length", "lengths", "chunk", "line", "many"],
)
def test_what_is_no_http(data: bytes) -> None:
    """What breaks the framing ends the reading."""
    with pytest.raises(DecodeError):
        read(data)


def test_a_response_to_nothing() -> None:
    """A response that nobody asked for cannot be framed."""
    with pytest.raises(DecodeError):
        Http1Reader(from_client=False, asked=deque()).feed(b"HTTP/1.1 200 OK\r\n\r\n")


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from(
                [
                    b"GET / HTTP/1.1\r\n",
                    HOST,
                    b"\r\n",
                    b"HTTP/1.1 200 OK\r\n",
                    b"transfer-encoding: chunked\r\n",
                    b"1\r\n",
                ]
            ),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_any_bytes(pieces: list[bytes], from_client: bool) -> None:  # noqa: FBT001 - hypothesis's
    """Bytes of any kind give heads or `DecodeError`."""
    reader = Http1Reader(from_client=from_client, asked=deque(["GET"] * 3))
    try:
        for piece in pieces:
            reader.feed(piece)
    except DecodeError:
        pass
