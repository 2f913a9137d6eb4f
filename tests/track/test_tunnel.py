from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.track.mark import Mark
from h3probe.track.tunnel import TUNNELS_PER_CONNECTION, Tunnel, Tunnels

CONNECT = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
CONNECT_UDP = (
    b"GET /.well-known/masque/udp/example.com/443/ HTTP/1.1\r\nHost: proxy\r\n"
    b"Connection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n"
)
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
AUTHENTICATE = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 6\r\n\r\nsorry\n"


class Exchange:
    """A client and a proxy, fed as two streams that grow."""

    def __init__(self) -> None:
        self.tunnels = Tunnels()
        self.sent = b""
        self.received = b""
        self._ids = count(1)
        self._frames = count(1)

    def client(self, data: bytes) -> Tunnel | None:
        """More bytes of the client."""
        self.sent += data
        mark = Mark(next(self._frames), 0)
        return self.tunnels.feed_client(self.sent, len(self.received), mark, lambda: f"tunnel-{next(self._ids)}")

    def proxy(self, data: bytes) -> Tunnel | None:
        """More bytes of the proxy."""
        self.received += data
        return self.tunnels.feed_server(self.received, Mark(next(self._frames), 0))


def test_connect() -> None:
    """CONNECT and a 2xx open a tunnel, and say where its bytes begin on both sides."""
    talk = Exchange()
    asked = talk.client(CONNECT)
    assert asked is not None
    assert (asked.id, asked.target, asked.method, asked.asked) == ("tunnel-1", "example.com:443", "CONNECT", Mark(1, 0))
    assert talk.tunnels.open is None
    assert talk.proxy(OK + b"banner") is asked
    assert (asked.status, asked.answered, asked.open) == (200, Mark(2, 0), True)
    assert (asked.client_start, asked.server_start) == (len(CONNECT), len(OK))
    assert talk.tunnels.open is asked
    assert talk.tunnels.over


def test_one_byte_at_a_time() -> None:
    """However slowly it comes, a request is one tunnel, and an answer one status."""
    talk = Exchange()
    asked = [tunnel for byte in CONNECT if (tunnel := talk.client(bytes((byte,)))) is not None]
    answered = [tunnel for byte in OK if (tunnel := talk.proxy(bytes((byte,)))) is not None]
    assert asked == answered == talk.tunnels.asked
    assert asked[0].status == 200


def test_refused_and_asked_again() -> None:
    """After 407 with a body the client asks again on the same connection: two tunnels, each with its own answer."""
    talk = Exchange()
    talk.client(CONNECT)
    talk.proxy(AUTHENTICATE)
    assert not talk.tunnels.over
    talk.client(CONNECT)
    talk.proxy(OK)
    assert [(t.status, t.open) for t in talk.tunnels.asked] == [(407, False), (200, True)]
    assert talk.tunnels.asked[1].client_start == 2 * len(CONNECT)
    assert talk.tunnels.asked[1].server_start == len(AUTHENTICATE + OK)


@pytest.mark.parametrize(("status", "is_open"), [(101, True), (200, False), (501, False)])
def test_connect_udp(status: int, *, is_open: bool) -> None:
    """connect-udp over HTTP/1.1 is agreed to with 101 only (RFC 9298, 3.3)."""
    talk = Exchange()
    asked = talk.client(CONNECT_UDP)
    talk.proxy(b"HTTP/1.1 %d x\r\n\r\n" % status)
    assert asked is not None
    assert (asked.method, asked.target, asked.open) == ("connect-udp", "example.com:443", is_open)


def test_connect_udp_declined_then_connect() -> None:
    """A client whose connect-udp was declined goes on with CONNECT on the same connection (curl 8.23 does)."""
    talk = Exchange()
    talk.client(CONNECT_UDP)
    talk.proxy(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    talk.client(CONNECT)
    talk.proxy(OK)
    assert [(t.method, t.status) for t in talk.tunnels.asked] == [("connect-udp", 400), ("CONNECT", 200)]


def test_interim_answers_are_skipped() -> None:
    """A 1xx before the final answer is not the answer (RFC 9110, 15.2)."""
    talk = Exchange()
    talk.client(CONNECT)
    answered = talk.proxy(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + OK)
    assert answered is not None
    assert answered.status == 200


def test_ipv6_target() -> None:
    """An IPv6 target is written with brackets again."""
    asked = Exchange().client(b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n")
    assert asked is not None
    assert (asked.host, asked.target) == ("2001:db8::1", "[2001:db8::1]:443")


@pytest.mark.parametrize(
    "request_head", [b"GET / HTTP/1.1\r\n\r\n", b"CONNECT nonsense HTTP/1.1\r\n\r\n", b"\x16\x03\x01\n"]
)
def test_what_asks_for_no_tunnel(request_head: bytes) -> None:
    """Another request, or garbage, ends the search."""
    talk = Exchange()
    assert talk.client(request_head) is None
    assert (talk.tunnels.over, talk.tunnels.asked) == (True, [])


def test_an_answer_that_is_none() -> None:
    """A proxy that answers with garbage leaves the status null."""
    talk = Exchange()
    asked = talk.client(CONNECT)
    assert talk.proxy(b"SSH-2.0-OpenSSH\r\n\r\n") is None
    assert asked is not None
    assert (asked.status, talk.tunnels.over) == (None, True)


def test_bytes_of_a_proxy_that_nobody_asked() -> None:
    """What a proxy sends before a request is not an answer to it."""
    talk = Exchange()
    assert talk.proxy(b"220 hello\r\n\r\n") is None
    talk.client(CONNECT)
    assert talk.proxy(OK) is not None


def test_tunnels_on_one_connection_are_limited() -> None:
    """A client that asks for ever on one connection stops being followed."""
    talk = Exchange()
    for _ in range(TUNNELS_PER_CONNECTION + 5):
        talk.client(CONNECT)
        talk.proxy(b"HTTP/1.1 403 Forbidden\r\n\r\n")
    assert len(talk.tunnels.asked) == TUNNELS_PER_CONNECTION
    assert talk.tunnels.over


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([CONNECT, CONNECT_UDP, OK, AUTHENTICATE]) | st.binary())))
def test_anything_is_a_tunnel_or_none(turns: list[tuple[bool, bytes]]) -> None:
    """Whatever both say, nothing is raised, and only the last tunnel can be open."""
    talk = Exchange()
    for from_client, data in turns:
        (talk.client if from_client else talk.proxy)(data)
    assert not any(tunnel.open for tunnel in talk.tunnels.asked[:-1])
