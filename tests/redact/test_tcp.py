"""TCP connections: hellos, heads, records, noise."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact import Mapping, Redactor
from h3probe.wire.http1 import connect_target, parse_request_head, parse_response_head
from h3probe.wire.proxy_protocol import header_length
from h3probe.wire.tls import handshake_messages, records
from h3probe.wire.tls_hello import parse_client_hello
from tests.redact.flows import KEY, NAME, Wire, hello, payloads, redacted, server_hello
from tests.wire.hello_builder import message, record, vector

NEW_NAME = Mapping(KEY).host(NAME).decode()
HELLO = record(22, hello(protocol=b"h2"))
CCS = record(20, b"\x01", 0x0303)
DATA = record(23, b"the user's own data" * 20, 0x0303)
CONNECT = b"CONNECT " + NAME + b":443 HTTP/1.1\r\nHost: " + NAME + b":443\r\n\r\n"
CERTIFICATE = message(11, vector(3, vector(3, b"CN=" + NAME + bytes(700))))


def sni(stream: bytes) -> str | None:
    """The name in the ClientHello that a stream begins with."""
    first = records(stream)[0][0]
    return parse_client_hello(handshake_messages(first.payload)[0][0][1]).sni


@settings(deadline=None)
@given(st.lists(st.integers(1, len(HELLO) - 1), max_size=5), st.randoms(use_true_random=False))
def test_a_hello_cut_anywhere(cuts: list[int], random: object) -> None:
    """However a ClientHello is cut into segments, in whatever order, twice, the name is the new one."""
    wire = Wire()
    bounds = [0, *sorted(set(cuts)), len(HELLO)]
    pieces = [(begin, HELLO[begin:end]) for begin, end in pairwise(bounds)]
    pieces += pieces[-1:]
    random.shuffle(pieces)  # type: ignore[attr-defined]
    frames = wire.connected()
    start = wire.sequence[True]
    frames += [wire.tcp(data, seq=start + begin) for begin, data in pieces]
    made = payloads(redacted(frames, Mapping(KEY)))[3:]
    stream = bytearray(len(HELLO))
    for (begin, data), new in zip(pieces, made, strict=True):
        assert len(new) == len(data)
        stream[begin : begin + len(new)] = new
    assert sni(bytes(stream)) == NEW_NAME


def test_tls13() -> None:
    """Record headers stay to the end, hellos are readable, data is noise, a retransmission is the same."""
    wire = Wire()
    frames = [*wire.connected(), wire.tcp(HELLO)]
    frames.append(wire.tcp(record(22, server_hello(), 0x0303) + CCS + DATA[:100], back=True))
    frames.append(wire.tcp(DATA[100:] + DATA[:3], back=True))
    frames.append(wire.tcp(DATA[3:] + DATA, back=True))
    again = wire.sequence[False] - 2 * len(DATA) + 3
    frames.append(wire.tcp(DATA[3:] + DATA, back=True, seq=again))
    _, _, _, first, *answers, last = payloads(redacted(frames, Mapping(KEY)))
    assert sni(first) == NEW_NAME
    assert answers[-1] == last
    stream = b"".join(answers)
    found, end = records(stream)
    assert [(r.content_type, r.length) for r in found] == [
        (22, len(server_hello())), (20, 1), *[(23, len(DATA) - 5)] * 3
    ]  # fmt: skip
    assert end == len(stream)
    assert b"user" not in stream


def test_tls12() -> None:
    """Certificates are gone, message types and lengths stay, and everything after ChangeCipherSpec is noise."""
    wire = Wire()
    flight = record(22, server_hello(0x0303) + CERTIFICATE + message(14, b""), 0x0303)
    finished = CCS + record(22, b"finished, encrypted", 0x0303)
    frames = [*wire.connected(), wire.tcp(HELLO), wire.tcp(flight[:200], back=True), wire.tcp(flight[200:], back=True)]
    frames += [wire.tcp(finished), wire.tcp(finished + DATA, back=True)]
    made = payloads(redacted(frames, Mapping(KEY)))[4:]
    first = records(made[0] + made[1])[0][0]
    assert [(kind, len(body)) for kind, body in handshake_messages(first.payload)[0]] == [
        (2, len(server_hello(0x0303)) - 4), (11, len(CERTIFICATE) - 4), (14, 0)
    ]  # fmt: skip
    whole = b"".join(made)
    for hidden in (NAME, b"encrypted", b"user"):
        assert hidden not in whole
    assert made[2][:6] == CCS


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


@pytest.mark.parametrize("first", [b"SSH-2.0-OpenSSH ann", b"220 mail.secret-host.org ESMTP"])
def test_other_protocols(first: bytes) -> None:
    """What is not known is noise from its first byte, whoever speaks first; STARTTLS is noticed."""
    wire = Wire()
    frames = [*wire.connected(), wire.tcp(first, back=True), wire.tcp(b"EHLO ann\r\n"), wire.tcp(HELLO)]
    greeting, reply, inner = payloads(redacted(frames, Mapping(KEY)))[3:]
    assert len(greeting) == len(first)
    assert greeting[0] & 0x80
    assert b"ann" not in greeting + reply
    assert sni(inner) == NEW_NAME


@pytest.mark.parametrize("together", [True, False], ids=["one segment", "two"])
@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 203.0.113.7 203.0.113.8 40000 443\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + b"\xcb\0\x71\x07" * 3,
    ],
    ids=["text", "binary"],
)
def test_a_header_of_the_proxy_protocol(header: bytes, *, together: bool) -> None:
    """What a load balancer says of a client is gone, the header stands, and TLS behind it is read."""
    wire = Wire()
    frames = [*wire.connected(), *map(wire.tcp, [header + HELLO] if together else [header, HELLO])]
    stream = b"".join(payloads(redacted(frames, Mapping(KEY)))[3:])
    assert header_length(stream) == len(header)
    assert b"203.0.113" not in stream
    assert b"\xcb\0\x71" not in stream[: len(header)]
    assert sni(stream[len(header) :]) == NEW_NAME


def test_a_capture_that_began_late() -> None:
    """Without its SYN a connection is read from its first hello on; what is under way is noise."""
    wire = Wire()
    hellos = payloads(redacted([wire.tcp(HELLO)], Mapping(KEY)))
    assert sni(hellos[0]) == NEW_NAME
    (data,) = payloads(redacted([Wire().tcp(DATA, back=True)]))
    assert b"user" not in data


def test_a_hole_in_the_records() -> None:
    """After lost segments no data is let through; headers are found again where a segment begins with one."""
    wire = Wire()
    frames = [*wire.connected(), wire.tcp(HELLO), wire.tcp(record(22, server_hello(), 0x0303) + DATA, back=True)]
    wire.sequence[False] += 5000
    frames += [wire.tcp(b"the user's own" + DATA, back=True), wire.tcp(DATA, back=True)]
    torn, sound = payloads(redacted(frames, Mapping(KEY)))[5:]
    assert b"user" not in torn + sound
    assert sound[:5] == DATA[:5]


def test_a_snaplen() -> None:
    """A hello that was cut is still seen to be one, and holds no name."""
    wire = Wire()
    frame = wire.tcp(HELLO)
    cut = type(frame)(frame.number, frame.time_ns, frame.link_type, frame.data[:-20], frame.length)
    (made,) = payloads(redacted([*wire.connected(), cut], Mapping(KEY))[3:])
    assert made[:11] == HELLO[:11]
    assert NAME[:8] not in made


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=8))
def test_any_bytes(sent: list[tuple[bytes, bool]]) -> None:
    """Whatever goes to and fro, each segment is as long afterwards."""
    wire = Wire()
    frames = [*wire.connected(), *(wire.tcp(data, back=back) for data, back in sent)]
    assert [len(p) for p in payloads(redacted(frames))] == [len(p) for p in payloads(frames)]


@settings(deadline=None)
@given(st.lists(st.integers(1, 600), max_size=4), st.sampled_from((HELLO, CONNECT, DATA + DATA)))
def test_any_cut(cuts: list[int], stream: bytes) -> None:
    """The cuts between segments change nothing in what is written."""
    wire = Wire()
    bounds = [0, *sorted({cut for cut in cuts if cut < len(stream)}), len(stream)]
    frames = wire.connected()
    frames += [wire.tcp(stream[begin:end]) for begin, end in pairwise(bounds)]
    whole = [*(other := Wire()).connected(), other.tcp(stream)]
    assert b"".join(payloads(redacted(frames, Mapping(KEY)))) == b"".join(payloads(redacted(whole, Mapping(KEY))))
