"""Heads and bodies, one after the other."""

from __future__ import annotations

from h3probe.redact import Mapping, Redactor
from h3probe.wire.http1 import connect_target, parse_request_head, parse_response_head
from tests.redact.flows import KEY, NAME, Wire, payloads, redacted
from tests.redact.streams import CONNECT, DATA, HELLO, NEW_NAME, sni


def test_a_tunnel() -> None:
    """CONNECT, a refusal with a body, CONNECT again, and the hello inside the tunnel are all rewritten."""
    wire = Wire()
    refusal = (
        b'HTTP/1.1 407 Ann\'s proxy\r\nProxy-Authenticate: Basic realm="acme"\r\nContent-Length: 10\r\n\r\nask ann at'
    )
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    frames = [*wire.connected(), wire.tcp(CONNECT[:30]), wire.tcp(CONNECT[30:]), wire.tcp(refusal, back=True)]
    frames += [wire.tcp(CONNECT), wire.tcp(established, back=True), wire.tcp(HELLO), wire.tcp(DATA, back=True)]
    one, two, refused, three, answer, inner, _ = payloads(redacted(frames, Mapping(KEY)))[3:]
    for request in (one + two, three):
        head = parse_request_head(request)
        assert head is not None
        assert connect_target(head) == (NEW_NAME, 443)
    response = parse_response_head(refused)
    assert response is not None
    assert response.status == 407
    assert b"acme" not in refused
    assert b"ann" not in refused.lower()
    assert answer == established
    assert sni(inner) == NEW_NAME


def test_plain_http() -> None:
    """Heads on one connection are rewritten one after the other; bodies are not kept."""
    wire = Wire()
    request = b"GET /home/ann HTTP/1.1\r\nHost: " + NAME + b"\r\nCookie: id=ann\r\n\r\n"
    response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi an\r\n0\r\n\r\n"
    frames = [*wire.connected()]
    for _ in range(2):
        frames += [wire.tcp(request), wire.tcp(response, back=True)]
    made = payloads(redacted(frames, Mapping(KEY)))[3:]
    for data in (made[0], made[2]):
        head = parse_request_head(data)
        assert head is not None
        assert dict(head.headers)["host"] == NEW_NAME
    for data in (made[1], made[3]):
        assert data.startswith(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert b"ann" not in b"".join(made)


def test_requests_after_a_long_body() -> None:
    """Once the answers are not read any more, nobody waits for them."""
    wire, redactor = Wire(), Redactor(Mapping(KEY))
    request = b"GET /home/ann HTTP/1.1\r\nHost: " + NAME + b"\r\n\r\n"
    frames = [*wire.connected(), wire.tcp(request)]
    frames.append(wire.tcp(b"HTTP/1.1 200 OK\r\nContent-Length: 120000\r\n\r\n", back=True))
    frames += [wire.tcp(b"body of ann " * 4000, back=True) for _ in range(3)]
    frames += [wire.tcp(request) for _ in range(4)]
    made = [out for frame in frames for out in redactor.frame(frame)]
    assert len(made) == len(frames)
    assert not any(b"ann" in payload or NAME in payload for payload in payloads(made))
