from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.wire.http_fields import LONGEST_VALUE, Request, Response, request, response

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"example.com"), (b":path", b"/a?b=c")]


def test_a_request() -> None:
    """The pseudo-header fields and alt-used are kept, the query's values are not, nor is any other field."""
    found = request(3, [*GET, (b"cookie", b"secret"), (b"alt-used", b"alt.example.com:8443")])
    assert found == Request(3, "GET", "https", "example.com", "/a?b=…", "alt.example.com:8443")
    assert found.url == "https://example.com:443/a?b=…"


@pytest.mark.parametrize(
    ("scheme", "authority", "origin"),
    [
        (b"https", b"example.com:8443", "https://example.com:8443"),
        (b"http", b"example.com", "http://example.com:80"),
        (b"https", b"[::1]", "https://[::1]:443"),
        (b"https", b"[::1]:4433", "https://[::1]:4433"),
        (b"https", b"name:password@example.com", "https://example.com:443"),
        (b"https", b"example.com:", "https://example.com:443"),
    ],
)
def test_origins(scheme: bytes, authority: bytes, origin: str) -> None:
    """An origin has its port, and nobody's name or password."""
    fields = [(b":method", b"GET"), (b":scheme", scheme), (b":authority", authority), (b":path", b"/")]
    found = request(0, fields)
    assert found is not None
    assert found.origin == origin


def test_host_stands_in_for_the_authority() -> None:
    """RFC 9113, 8.3.1: what was HTTP/1.1 once may have a Host field instead."""
    found = request(0, [(b":method", b"GET"), (b":path", b"/"), (b"host", b"example.com")])
    assert found is not None
    assert found.origin == "https://example.com:443"


def test_a_response() -> None:
    """Status and Alt-Svc lines are kept, in order and bounded."""
    lines = [(b"alt-svc", b'h3=":443"'), (b"set-cookie", b"secret"), (b"alt-svc", b"x" * 10_000)]
    found = response(1, [(b":status", b"200"), *lines])
    assert found == Response(1, 200, ('h3=":443"', "x" * LONGEST_VALUE))


def test_trailers_are_none() -> None:
    """Fields without a method or a status are trailers."""
    assert request(0, [(b"grpc-status", b"0")]) is None
    assert response(0, [(b"grpc-status", b"0")]) is None


@pytest.mark.parametrize("status", [b"", b"20", b"2000", b"abc", b"099", "²00".encode("latin-1")])
def test_a_status_that_is_none(status: bytes) -> None:
    """A malformed status says nothing."""
    with pytest.raises(DecodeError):
        response(0, [(b":status", status)])


def test_malformed_requests() -> None:
    """A request without an authority, or with two methods, is malformed."""
    for fields in (GET[:2], [*GET, GET[0]]):
        with pytest.raises(DecodeError):
            request(0, fields)


@pytest.mark.parametrize("authority", [b"a/b", b"h:" + b"4" * 5000, b"h:99999", b"a" * 300])
def test_an_authority_that_makes_no_origin(authority: bytes) -> None:
    """What could be read as another host, port or path than the sender's is malformed."""
    with pytest.raises(DecodeError):
        request(0, [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", authority), (b":path", b"/")])


NAMES = st.sampled_from([b":method", b":status", b":authority", b":path", b":scheme", b"alt-svc", b"host", b"x"])


@given(st.lists(st.tuples(NAMES, st.binary(max_size=20))))
def test_any_fields(fields: list[tuple[bytes, bytes]]) -> None:
    """Fields of any kind raise nothing but `DecodeError`."""
    for read in (request, response):
        try:
            head = read(0, fields)
        except DecodeError:
            continue
        assert head is None or isinstance(head, Request | Response)
        if isinstance(head, Request):
            assert head.url
