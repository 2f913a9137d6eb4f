from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.wire.http1 import (
    MAX_HEAD,
    REDACTED,
    RequestHead,
    ResponseHead,
    connect_target,
    connect_udp_target,
    looks_like_request,
    parse_request_head,
    parse_response_head,
)

CONNECT = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nUser-Agent:  curl \r\n\r\n"
MASQUE = "/.well-known/masque/udp/{}/{}/"


def _request(target: str, method: str = "CONNECT", headers: str = "") -> RequestHead:
    head = parse_request_head(f"{method} {target} HTTP/1.1\r\n{headers}\r\n".encode())
    assert head is not None
    return head


def test_request() -> None:
    """A request's line and fields are read, names in lower case, values without the space around them."""
    assert parse_request_head(CONNECT + b"body") == RequestHead(
        "CONNECT",
        "example.com:443",
        "HTTP/1.1",
        (("host", "example.com:443"), ("user-agent", "curl")),
        len(CONNECT),
    )


def test_response() -> None:
    """A response's status and reason are read, also without a reason."""
    data = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\nbody"
    assert parse_response_head(data) == ResponseHead(
        407, "Proxy Authentication Required", "HTTP/1.1", (("proxy-authenticate", "Basic"),), len(data) - 4
    )
    assert parse_response_head(b"HTTP/1.0 200\r\n\r\n") == ResponseHead(200, "", "HTTP/1.0", (), 16)
    assert parse_response_head(b"HTTP/1.0 200 \r\n\r\n") == ResponseHead(200, "", "HTTP/1.0", (), 17)


@pytest.mark.parametrize("data", [CONNECT, CONNECT.replace(b"\r\n", b"\n"), b"\r\n" + CONNECT])
def test_incomplete_until_the_empty_line(data: bytes) -> None:
    """Every proper prefix of a head is incomplete, never an error, whatever ends its lines."""
    assert all(parse_request_head(data[:cut]) is None for cut in range(len(data)))
    head = parse_request_head(data)
    assert head is not None
    assert (head.target, head.head_length) == ("example.com:443", len(data))


def test_incomplete_response() -> None:
    """Every proper prefix of a response's head is incomplete."""
    data = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 x\r\n\r\n"
    assert all(parse_response_head(data[:cut]) is None for cut in range(len(data)))


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\0",
        b"\0",
        b"SSH-2.0-OpenSSH\r\n",
        b"GET /\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1 \r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"G(T / HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * MAX_HEAD,
    ],
)
def test_no_request(data: bytes) -> None:
    """What cannot become an HTTP/1 request is an error as soon as that is certain."""
    with pytest.raises(DecodeError):
        parse_request_head(data)


@pytest.mark.parametrize(
    "data",
    [b"\x16\x03", b"HTTP/2", b"HTTP/1.1 20\r\n\r\n", b"HTTP/1.1  200\r\n\r\n", b"HTTP/1.1 200 OK\n" + b"x" * MAX_HEAD],
)
def test_no_response(data: bytes) -> None:
    """What cannot become an HTTP/1 response is an error."""
    with pytest.raises(DecodeError):
        parse_response_head(data)


@pytest.mark.parametrize("name", ["Authorization", "proxy-authorization", "Cookie", "SET-COOKIE", "Authorization "])
def test_credentials_are_replaced(name: str) -> None:
    """Nothing of a credential is kept, folded lines included."""
    head = parse_request_head(f"GET / HTTP/1.1\r\n{name}: c2VjcmV0\r\n\tc2VjcmV0\r\nX: 1\r\n\r\n".encode())
    assert head is not None
    assert head.headers == ((name.strip().lower(), REDACTED), ("x", "1"))
    assert "c2VjcmV0" not in repr(head)


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("http://me:secret@example.com/a@b", f"http://{REDACTED}@example.com/a@b"),
        ("me:secret@example.com:443", f"{REDACTED}@example.com:443"),
        ("/a@b", "/a@b"),
        ("http://example.com/?q=a@b", "http://example.com/?q=a@b"),
    ],
)
def test_user_information_in_a_target_is_replaced(target: str, kept: str) -> None:
    """A password in a URL is a credential too; an @ elsewhere is not."""
    assert _request(target).target == kept


def test_odd_header_lines() -> None:
    """Folded lines join, and lines that are no field are left out with what is folded onto them."""
    head = parse_request_head(b"GET / HTTP/1.1\r\nA: 1\r\n  2\r\nno field\r\n folded\r\n: x\r\nB:\r\nA: 3\r\n\r\n")
    assert head is not None
    assert head.headers == (("a", "1 2"), ("b", ""), ("a", "3"))


def test_looks_like_request() -> None:
    """A usual method, or the beginning of one, is told from other protocols by a few bytes."""
    for data in (CONNECT, b"GET / HTTP/1.1", b"C", b"CONNECT", b"OPTIONS *", b"\r\nPOST /"):
        assert looks_like_request(data)
    for data in (b"", b"\r\n", b"\x16\x03\x01", b"HTTP/1.1 200 OK", b"PRI * HTTP/2.0", b"CONNECTION", b"get /"):
        assert not looks_like_request(data)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("example.com:443", ("example.com", 443)),
        ("EXAMPLE.com:8443", ("example.com", 8443)),
        ("192.0.2.1:80", ("192.0.2.1", 80)),
        ("[2001:DB8::1]:443", ("2001:db8::1", 443)),
        ("example.com", None),
        ("example.com:", None),
        (":443", None),
        ("example.com:0", None),
        ("example.com:65536", None),
        ("example.com:+44", None),
        ("2001:db8::1:443", None),
        ("[example.com]:443", None),
        ("exa/mple:443", None),
        ("http://example.com/", None),
    ],
)
def test_connect_target(target: str, expected: tuple[str, int] | None) -> None:
    """CONNECT's authority-form gives host and port, and nothing else does."""
    assert connect_target(_request(target)) == expected
    assert connect_target(_request(target, "GET")) is None


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (MASQUE.format("example.com", 443), ("example.com", 443)),
        (MASQUE.format("Example.com", 443)[:-1], ("example.com", 443)),
        ("https://proxy.example" + MASQUE.format("192.0.2.6", 4433), ("192.0.2.6", 4433)),
        (MASQUE.format("2001%3Adb8%3A%3A42", 443), ("2001:db8::42", 443)),
        (MASQUE.format("example.com", 0), None),
        (MASQUE.format("%00", 443), None),
        (MASQUE.format("example.com", "port"), None),
        ("/.well-known/masque/ip/example.com/17/", None),
    ],
)
def test_connect_udp_target(target: str, expected: tuple[str, int] | None) -> None:
    """A connect-udp request by RFC 9298's default template gives host and port, percent-decoded."""
    upgrade = "Connection: Upgrade\r\nUpgrade: foo, Connect-UDP\r\n"
    assert connect_udp_target(_request(target, "GET", upgrade)) == expected
    assert connect_udp_target(_request(target, "GET")) is None
    assert connect_udp_target(_request(target, "POST", upgrade)) is None


@given(st.binary(max_size=200), st.sampled_from([b"", b"CONNECT ", b"GET / HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n"]))
def test_any_bytes(data: bytes, start: bytes) -> None:
    """Any bytes give a head, nothing yet, or a DecodeError."""
    looks_like_request(data)
    for parse in (parse_request_head, parse_response_head):
        try:
            head = parse(start + data)
        except DecodeError:
            continue
        assert head is None or head.head_length <= len(start + data)
        if isinstance(head, RequestHead):
            connect_target(head)
            connect_udp_target(head)
