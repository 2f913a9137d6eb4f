from __future__ import annotations

from itertools import permutations

import pytest

from h3probe.events import Endpoint
from h3probe.wire.packet import ACK, SYN
from tests.track.builders import (
    CHANGE_CIPHER,
    CLIENT,
    SERVER,
    TLS13_FINISHED,
    TLS13_SERVER_FLIGHT,
    TcpWatch,
    alert,
    client_hello,
    handshake,
    protected,
    server_hello,
)
from tests.wire.hello_builder import message

HELLO = handshake(client_hello(protocols=(b"h2", b"http/1.1")))
LONG_HELLO = handshake(client_hello(protocols=(b"h2",), pad=1500))
CONNECT = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
CONNECT_UDP = b"GET /.well-known/masque/udp/example.com/443/ HTTP/1.1\r\nUpgrade: connect-udp\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n\r\n"
PIECES = [(start, LONG_HELLO[start : start + 600]) for start in range(0, len(LONG_HELLO), 500)]


def test_hellos_somewhere_else_begin_nothing() -> None:
    """Neither an ACK far from the SYN connects, nor does a ClientHello far from the stream count for one."""
    watch = TcpWatch()
    watch.syn(0)
    watch.raw(0, ACK, handshake(client_hello(b"other.example")), seq=0x7000_0000, at=1)
    assert watch.only.connected is None
    watch.synack(10)
    watch.ack(20)
    watch.raw(0, ACK, handshake(client_hello(b"other.example")), seq=0x9000_0000)
    watch.client(HELLO)
    watch.finish_tls()
    assert watch.only.hello is not None
    assert (watch.only.hello.sni, watch.outcome()) == ("example.com", "established")


@pytest.mark.parametrize("before", [b"", b"old data"])
def test_mid_stream_client_hello(before: bytes) -> None:
    """A ClientHello makes its sender the client, whatever the ports say, and the handshake is followed."""
    watch = TcpWatch(client=Endpoint(CLIENT.host, 100), server=Endpoint(SERVER.host, 8443))
    if before:
        watch.client(before)
    watch.client(HELLO)
    watch.finish_tls()
    assert watch.only.client.port == 100
    assert watch.outcome() == "established"
    assert (watch.only.request_bytes, watch.only.response_bytes) == (105, 205)


def test_mid_stream_client_hello_in_tiny_segments() -> None:
    """The same in segments of one byte, from the port that a client usually has."""
    watch = TcpWatch()
    for byte in HELLO:
        watch.client(bytes((byte,)))
    watch.finish_tls()
    assert watch.outcome() == "established"


@pytest.mark.parametrize("together", [True, False], ids=["one segment", "two"])
def test_a_load_balancers_header_before_tls(*, together: bool) -> None:
    """TLS behind a header of the PROXY protocol is the server's own, in the same segment or in the next."""
    watch = TcpWatch()
    watch.connect()
    header = b"PROXY TCP4 192.0.2.9 198.51.100.2 40000 443\r\n"
    for piece in [header + HELLO] if together else [header, HELLO]:
        watch.client(piece)
    watch.finish_tls()
    assert watch.only.hello is not None
    assert (watch.outcome(), watch.only.inner, watch.only.plain) == ("established", False, False)


def test_a_header_of_the_proxy_protocol_and_no_tls() -> None:
    """Plain text behind it is plain text."""
    watch = TcpWatch()
    watch.connect()
    watch.client(b"PROXY UNKNOWN\r\n")
    watch.client(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
    assert (watch.only.plain, watch.only.hello) == (True, None)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_hello_cut_into_small_records(size: int) -> None:
    """A client may cut its hello into records that end before the version does (RFC 8446, 5.1)."""
    watch = TcpWatch()
    watch.connect()
    hello = client_hello()
    watch.client(b"".join(handshake(hello[at : at + size]) for at in range(0, len(hello), size)))
    assert watch.only.hello is not None


def test_late_tls() -> None:
    """TLS that begins after plain text, as STARTTLS, is followed from its ClientHello on."""
    watch = TcpWatch()
    watch.connect()
    watch.server(b"220 ready\r\n")
    watch.client(b"STARTTLS\r\n")
    watch.server(b"220 go\r\n")
    ready_before = watch.only.ready
    watch.client(HELLO)
    assert ready_before is not None
    assert watch.only.ready is None
    watch.finish_tls()
    assert watch.only.hello is not None
    assert watch.outcome() == "established"


def test_tls_after_a_servers_banner() -> None:
    """A server that speaks first does not hide the ClientHello at the start of the client's stream."""
    watch = TcpWatch()
    watch.connect()
    watch.server(b"hello\r\n")
    watch.client(HELLO)
    watch.finish_tls()
    assert watch.outcome() == "established"
    assert watch.only.hello is not None


@pytest.mark.parametrize("order", list(permutations(range(len(PIECES)))))
def test_hello_in_overlapping_segments_in_any_order(order: tuple[int, ...]) -> None:
    """Segments that overlap, repeat and overtake each other give one ClientHello, also across the sequence's wrap."""
    watch = TcpWatch()
    watch.connect()
    for index in (*order, order[0]):
        offset, piece = PIECES[index]
        watch.client(piece, offset=offset)
    assert watch.only.hello is not None
    assert watch.only.client_stream.bytes_seen == len(LONG_HELLO)
    watch.finish_tls()
    assert watch.outcome() == "established"


def test_everything_in_one_byte_segments() -> None:
    """A handshake of which every byte has its own segment is ready with the last byte of the Finished."""
    watch = TcpWatch()
    watch.connect()
    for byte in HELLO:
        watch.client(bytes((byte,)))
    for byte in TLS13_SERVER_FLIGHT:
        watch.server(bytes((byte,)))
    for byte in TLS13_FINISHED:
        assert watch.only.ready is None
        watch.client(bytes((byte,)))
    assert watch.only.ready == (watch.facts[-1].frame, watch.now)


def test_an_alert_instead_of_a_finished() -> None:
    """A client that answers the server's flight with an encrypted alert was never ready: `reset`."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.server(TLS13_SERVER_FLIGHT)
    watch.client(CHANGE_CIPHER + protected(19))
    assert (watch.only.ready, watch.outcome()) == (None, "reset")
    assert watch.said()[-1] == "TLS failed: an encrypted alert"


def test_an_alert_in_the_clear_is_named() -> None:
    """A fatal alert of the client in the clear is named in the timeline."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.server(handshake(server_hello(tls12=True) + message(11, bytes(3))))
    watch.client(alert(48))
    assert watch.outcome() == "reset"
    assert watch.said()[-1] == "TLS failed: alert unknown_ca"


def test_tls12_names_the_protocol_chosen() -> None:
    """TLS 1.2 is ready with the server's Finished, and the protocol chosen is known."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.server(handshake(server_hello(tls12=True, alpn=b"h2") + message(14, b"")))
    watch.client(handshake(message(16, bytes(33))) + CHANGE_CIPHER + protected(40, 22))
    watch.server(CHANGE_CIPHER + protected(40, 22), at=100)
    assert watch.outcome() == "established"
    assert watch.said()[-1] == "TCP ready after 100 ms, h2"


def test_hello_retry_request() -> None:
    """A HelloRetryRequest and a second ClientHello lead to the same connection being ready."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.server(handshake(server_hello(retry=True)) + CHANGE_CIPHER)
    watch.client(CHANGE_CIPHER + HELLO)
    watch.finish_tls()
    assert watch.outcome() == "established"


def test_plain_http() -> None:
    """A request in the clear is ready when connected, and its bytes are counted though nobody keeps them."""
    watch = TcpWatch()
    watch.connect()
    watch.client(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
    watch.server(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(100))
    assert watch.only.ready == watch.only.connected
    assert (watch.only.request_bytes, watch.only.response_bytes) == (37, 119)
    assert watch.only.client_stream.data is None
    assert "HTTP/1.1 in the clear" in watch.said()


def test_data_in_the_syn() -> None:
    """With TCP Fast Open the ClientHello begins one behind the SYN's sequence number (RFC 7413; RFC 9293, 3.4)."""
    watch = TcpWatch()
    watch.raw(0, SYN, HELLO, seq=watch._isn[0])
    watch.sent[0] = len(HELLO)
    watch.synack()
    watch.ack()
    assert watch.only.hello is not None
    watch.finish_tls()
    assert watch.outcome() == "established"
    assert watch.only.request_bytes == 105


def test_bytes_are_counted_beyond_the_sequence_space() -> None:
    """A transfer of more than 2 GiB is counted in full, although sequence numbers wrap around."""
    watch = TcpWatch()
    watch.connect()
    watch.client(b"GET / HTTP/1.1\r\n\r\n")
    step = 1 << 28
    for number in range(20):
        seq = watch._isn[1] + 1 + number * step
        watch.raw(1, ACK, b"x", seq=seq, length=step)
    assert watch.only.response_bytes == 20 * step


def test_a_snaplen_that_cuts_the_handshake_proves_no_failure() -> None:
    """Where the handshake was cut by a snaplen, a FIN does not mean that it failed: no outcome, never `reset`."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    seq = watch._isn[1] + 1
    watch.raw(1, ACK, TLS13_SERVER_FLIGHT[:50], seq=seq, length=len(TLS13_SERVER_FLIGHT))
    watch.sent[1] = len(TLS13_SERVER_FLIGHT)
    watch.client(TLS13_FINISHED + protected(100))
    watch.server(protected(100))
    watch.end(0)
    assert watch.outcome() != "reset"


def test_a_lost_segment_proves_no_failure() -> None:
    """Where the capture missed a segment of the server's flight, a FIN does not mean that the handshake failed."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.sent[1] = len(TLS13_SERVER_FLIGHT)
    watch.client(TLS13_FINISHED + protected(100))
    watch.server(protected(100))
    watch.end(0)
    assert watch.outcome() != "reset"


def test_a_one_sided_capture_proves_no_failure() -> None:
    """Where the server's side is missing, a client that sent protected data and a FIN was not `reset`."""
    watch = TcpWatch()
    watch.syn()
    watch.ack()
    watch.client(HELLO)
    watch.sent[1] = len(TLS13_SERVER_FLIGHT)
    watch.client(TLS13_FINISHED + protected(100))
    watch.end(0)
    assert watch.outcome() != "reset"


def test_a_one_sided_capture_of_tls_that_ends_with_an_alert() -> None:
    """The client's encrypted close_notify is no failure where the server's side is missing."""
    watch = TcpWatch()
    watch.syn()
    watch.ack()
    watch.client(HELLO)
    watch.sent[1] = 3000
    watch.client(handshake(message(16, bytes(33))) + CHANGE_CIPHER + protected(40, 22))
    watch.client(protected(26, 21))
    watch.end(0)
    assert watch.outcome() is None


def test_an_alert_behind_a_hole_proves_no_failure() -> None:
    """Where the server's Finished was lost by the capture, an encrypted alert may be a close_notify."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.server(handshake(server_hello(tls12=True) + message(14, b"")))
    watch.client(handshake(message(16, bytes(33))) + CHANGE_CIPHER + protected(40, 22))
    watch.sent[1] += 51
    watch.server(protected(300))
    watch.client(protected(26, 21))
    watch.end(0)
    assert watch.outcome() is None
    assert not any("TLS failed" in line for line in watch.said())


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (TLS13_FINISHED, TLS13_SERVER_FLIGHT),
        (
            handshake(message(16, bytes(33))) + CHANGE_CIPHER + protected(40, 22),
            handshake(server_hello(tls12=True) + message(14, b"")) + CHANGE_CIPHER + protected(40, 22),
        ),
    ],
    ids=["TLS 1.3", "TLS 1.2"],
)
def test_a_finished_that_the_capture_has_before_the_answer(client: bytes, server: bytes) -> None:
    """A client's records that follow an answer wait for it, and make it ready then."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.client(client)
    assert watch.only.ready is None
    watch.server(server)
    assert watch.outcome() == "established"


def test_a_hello_that_the_capture_lost_is_no_plain_text() -> None:
    """Where a server answers bytes that were not captured, nothing is said of what they were."""
    watch = TcpWatch()
    watch.connect()
    watch.sent[0] = len(HELLO)
    watch.finish_tls()
    assert (watch.only.plain, watch.only.http, watch.outcome()) == (False, False, None)


def test_connect_in_single_bytes_and_tls_inside() -> None:
    """A CONNECT of which every byte has its own segment opens a tunnel; the TLS inside makes the connection ready."""
    watch = TcpWatch()
    watch.connect()
    for byte in CONNECT:
        watch.client(bytes((byte,)))
    for byte in OK:
        watch.server(bytes((byte,)))
    for byte in HELLO:
        watch.client(bytes((byte,)))
    assert watch.only.ready is None
    watch.finish_tls()
    c = watch.only
    assert c.tunnels is not None
    assert [(t.id, t.target, t.status) for t in c.tunnels.asked] == [("tunnel-1", "example.com:443", 200)]
    assert c.hello is not None
    assert (c.hello.sni, watch.outcome()) == ("example.com", "established")
    assert [text for text in watch.said() if "tunnel" in text or "CONNECT" in text or "proxy" in text] == [
        "CONNECT example.com:443",
        "proxy answered 200 to example.com:443",
        "ClientHello in the tunnel, SNI example.com, h2,http/1.1",
    ]


def test_authentication_asked_for_first() -> None:
    """After 407 a second CONNECT on the same connection opens the tunnel, and TLS is found where it begins."""
    watch = TcpWatch()
    watch.connect()
    watch.client(CONNECT)
    watch.server(b"HTTP/1.1 407 Authenticate\r\nContent-Length: 5\r\n\r\nsorry")
    watch.client(CONNECT)
    watch.server(OK)
    watch.client(HELLO)
    watch.finish_tls()
    assert watch.only.tunnels is not None
    assert [t.status for t in watch.only.tunnels.asked] == [407, 200]
    assert watch.outcome() == "established"
    assert watch.only.hello is not None


def test_a_tunnel_whose_answer_was_not_captured() -> None:
    """A client that acknowledges an answer and says hello is in its tunnel, whatever became of the answer's packet."""
    watch = TcpWatch()
    watch.connect()
    watch.client(CONNECT)
    watch.sent[1] += len(OK)
    watch.client(HELLO)
    watch.server(TLS13_SERVER_FLIGHT)
    watch.client(TLS13_FINISHED)
    assert watch.only.tunnels is not None
    (tunnel,) = watch.only.tunnels.asked
    assert (tunnel.status, tunnel.entered) == (None, True)
    assert watch.only.hello is not None
    assert watch.outcome() != "reset"


def test_an_answer_that_the_capture_has_before_the_request() -> None:
    """A proxy's answer and the request for it open the tunnel in either order."""
    watch = TcpWatch()
    watch.connect()
    watch.sent[0] = len(CONNECT)
    watch.server(OK)
    watch.client(CONNECT, offset=0)
    watch.client(HELLO)
    watch.finish_tls()
    assert watch.only.tunnels is not None
    assert [tunnel.status for tunnel in watch.only.tunnels.asked] == [200]
    assert (watch.outcome(), watch.only.hello is not None) == ("established", True)


def test_a_hello_before_the_answer_is_no_answer() -> None:
    """A client that does not wait says hello into a connection that may still be refused."""
    watch = TcpWatch()
    watch.connect()
    watch.client(CONNECT + HELLO)
    assert watch.only.tunnels is not None
    (tunnel,) = watch.only.tunnels.asked
    assert not tunnel.entered
    watch.server(OK)
    assert watch.only.hello is not None


def test_connect_udp_declined_then_connect() -> None:
    """A client that was declined connect-udp goes on with CONNECT on the same connection."""
    watch = TcpWatch()
    watch.connect()
    watch.client(CONNECT_UDP)
    watch.server(b"HTTP/1.1 501 Not Implemented\r\n\r\n")
    watch.client(CONNECT)
    watch.server(OK)
    watch.client(HELLO)
    watch.finish_tls()
    assert watch.only.tunnels is not None
    assert [(t.method, t.status) for t in watch.only.tunnels.asked] == [("connect-udp", 501), ("CONNECT", 200)]
    assert watch.outcome() == "established"


def test_connect_udp_agreed_to() -> None:
    """In a connect-udp tunnel no TLS is looked for: what it carries are datagrams."""
    watch = TcpWatch()
    watch.connect()
    watch.client(CONNECT_UDP)
    watch.server(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    watch.client(b"\x00\x05\x00data")
    assert watch.only.tunnels is not None
    assert watch.only.tunnels.open is not None
    assert (watch.only.tls, watch.outcome()) == (None, "established")


def test_a_tunnel_that_carries_no_tls() -> None:
    """Plain HTTP through CONNECT fails no handshake: the connection to the proxy is established."""
    watch = TcpWatch()
    watch.connect()
    watch.client(CONNECT)
    watch.server(OK)
    watch.client(b"GET / HTTP/1.1\r\n\r\n")
    assert (watch.only.hello, watch.outcome()) == (None, "established")


def test_tls_failed_inside_a_tunnel() -> None:
    """A RST after the ClientHello inside a tunnel is `reset`, and the tunnel stays open."""
    watch = TcpWatch()
    watch.connect()
    watch.client(CONNECT)
    watch.server(OK)
    watch.client(HELLO)
    watch.reset(1)
    assert watch.outcome() == "reset"
    assert watch.only.tunnels is not None
    assert watch.only.tunnels.open is not None


@pytest.mark.parametrize(
    "garbage", [b"\x00" * 50, b"CONNEXION\r\n\r\n", b"CONNECT \x00\r\n\r\n", b"\x16\x03\x01\xff\xff\x01" + bytes(60)]
)
def test_garbage(garbage: bytes) -> None:
    """A client that sends garbage makes no tunnel, no hello, and no failure."""
    watch = TcpWatch()
    watch.connect()
    watch.client(garbage)
    watch.server(garbage)
    assert watch.only.hello is None
    assert watch.only.tunnels is None or not watch.only.tunnels.asked
    assert watch.outcome() == "established"


def test_names_from_the_network_are_made_harmless() -> None:
    """SNI, ALPN and targets reach the timeline without control characters."""
    watch = TcpWatch()
    watch.connect()
    watch.client(handshake(client_hello(b"\x1b[2Jevil", (b"\r\n\x07",))))
    lines = watch.said()
    assert any("evil" in text for text in lines)
    assert all(text.isprintable() for text in lines)


@pytest.mark.parametrize(("seen", "unread"), [("both", 1), ("client", 0), ("cut", 0)])
def test_what_the_capture_lacks_is_not_forgotten(seen: str, unread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that gives way is counted where more of it could have been read, and not where nothing comes."""
    monkeypatch.setattr("h3probe.track.tcp_payload.HANDSHAKES_LIMIT", 1)
    watch = TcpWatch()
    for port in (50000, 50001):
        watch.use(client_isn=port, server_isn=5000, client=Endpoint(CLIENT.host, port))
        watch.syn()
        if seen == "both":
            watch.synack()
        watch.ack()
        watch.raw(0, ACK, HELLO[:60] if seen == "cut" else HELLO, seq=port + 1, length=len(HELLO))
    assert watch.tracker.evicted == unread
