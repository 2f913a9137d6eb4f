from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.track.tls_progress import TlsState
from h3probe.wire.packet import ACK, FIN, RST, SYN
from tests.track.builders import (
    CHANGE_CIPHER,
    CLIENT,
    SERVER,
    START,
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
MS = 1_000_000


def finish_tls(watch: TcpWatch) -> None:
    """The rest of a TLS 1.3 handshake after the ClientHello, and a request and its response."""
    watch.server(TLS13_SERVER_FLIGHT)
    watch.client(TLS13_FINISHED)
    watch.client(protected(100))
    watch.server(protected(200))


def test_a_whole_connection() -> None:
    """SYN to FIN: `connect_at`, `ready_at`, hello and the bytes of the exchange, with a line for each step."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO, at=30)
    watch.server(TLS13_SERVER_FLIGHT, at=40)
    watch.client(TLS13_FINISHED, at=50)
    watch.client(protected(100), at=51)
    watch.server(protected(200), at=60)
    watch.end(0)
    c = watch.only
    assert (c.client, c.server, c.outcome(watch.now)) == (CLIENT, SERVER, "established")
    assert c.hello is not None
    assert (c.hello.sni, c.hello.alpn, (c.ja4 or "")[:4]) == ("example.com", ("h2", "http/1.1"), "t13d")
    assert c.connected == (3, START + 20 * MS)
    assert c.ready == (6, START + 50 * MS)
    assert (c.request_bytes, c.response_bytes) == (105, 205)
    assert c.ended == ((9, START + 61 * MS), "client")
    assert watch.said() == [
        "SYN",
        "TCP connected after 20 ms",
        "ClientHello, SNI example.com, h2,http/1.1",
        "TCP ready after 50 ms",
        "closed by the client, FIN",
    ]


def test_refused() -> None:
    """A RST in answer to the SYN is `refused`, at once."""
    watch = TcpWatch()
    watch.syn()
    watch.reset(1)
    assert watch.outcome() == "refused"
    assert watch.said()[-1] == "TCP refused: RST"


@pytest.mark.parametrize(("flags", "beside"), [(RST, 0), (RST | ACK, 1), (RST | ACK, -1)])
def test_a_reset_that_acknowledges_another_syn(flags: int, beside: int) -> None:
    """RFC 9293, 3.10.7.3: a client that still waits takes no reset but for its own SYN, and so it was not refused."""
    watch = TcpWatch()
    watch.use(client_isn=1000 + beside, server_isn=0)
    watch.raw(0, SYN, seq=1000)
    watch.raw(1, flags, seq=0)
    assert (watch.outcome(), watch.said()) == (None, ["SYN"])
    watch.use(client_isn=1000, server_isn=0)
    watch.raw(1, RST | ACK, seq=0)
    assert watch.outcome() == "refused"


@pytest.mark.parametrize("flags", [RST, RST | ACK, FIN | ACK])
@pytest.mark.parametrize("side", [0, 1])
def test_an_end_somewhere_else_ends_no_handshake(flags: int, side: int) -> None:
    """Whoever guesses a sequence number, far from what was sent, ends nothing (RFC 5961, 3)."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.raw(side, flags, seq=0x7000_0000)
    assert watch.outcome() is None
    finish_tls(watch)
    assert watch.outcome() == "established"


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
    finish_tls(watch)
    assert watch.only.hello is not None
    assert (watch.only.hello.sni, watch.outcome()) == ("example.com", "established")


def test_refused_by_icmp() -> None:
    """An ICMP error about the SYN is `refused`; too big and time exceeded are not."""
    watch = TcpWatch()
    watch.syn()
    watch.icmp(kind="too-big")
    watch.icmp(kind="time-exceeded")
    assert watch.outcome() is None
    watch.icmp(kind="prohibited")
    watch.icmp(kind="prohibited")
    assert watch.outcome() == "refused"
    assert watch.said() == ["SYN", "ICMP prohibited"]


def test_icmp_about_unknown_ports() -> None:
    """A forged ICMP error about ports that nobody uses touches no connection."""
    watch = TcpWatch()
    watch.syn()
    watch.use(client_isn=1, server_isn=1, client=Endpoint(CLIENT.host, 50001))
    watch.icmp()
    assert watch.only.refusals == []


def test_unanswered_needs_a_repeated_syn() -> None:
    """One SYN and silence says nothing; a second one a second later says that the client waits."""
    watch = TcpWatch()
    watch.syn(at=0)
    assert watch.outcome(after=60_000) is None
    watch.syn(at=1000)
    assert (watch.outcome(), watch.only.syns) == ("unanswered", 2)


def test_a_syn_captured_twice_is_one() -> None:
    """The same SYN on two interfaces is no repetition."""
    watch = TcpWatch()
    watch.syn(at=0)
    watch.syn(at=0.05)
    assert (watch.only.syns, watch.outcome(after=60_000)) == (1, None)


def test_reset_during_the_handshake() -> None:
    """A RST after the ClientHello and before the connection was ready is `reset`, whoever sent it."""
    for side in (0, 1):
        watch = TcpWatch()
        watch.connect()
        watch.client(HELLO)
        watch.reset(side)
        assert watch.outcome() == "reset"


def test_closed_during_the_handshake() -> None:
    """A FIN in answer to the ClientHello is the end of the attempt as well."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.end(1)
    assert watch.outcome() == "reset"


def test_reset_after_ready_is_established() -> None:
    """How a connection ends after it was ready does not change how the attempt ended."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    finish_tls(watch)
    watch.reset(1)
    assert watch.outcome() == "established"


def test_ports_used_anew() -> None:
    """A SYN with another sequence number on the same ports is another connection; the first one is handed over."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.use(client_isn=77, server_isn=78)
    watch.syn()
    first, second = watch.opened
    assert watch.evicted == [first]
    assert watch.tracker.find(SERVER, CLIENT) is second
    assert watch.tracker.evicted == 0


def test_one_sided_capture_of_the_client() -> None:
    """Without the server's segments the client's ACK tells that there was a SYN-ACK."""
    watch = TcpWatch()
    watch.syn()
    watch.ack()
    assert watch.only.connected is not None
    assert watch.outcome(after=5000) == "established"


def test_capture_that_begins_with_the_syn_ack() -> None:
    """A SYN-ACK tells who is the server, and the next ACK when they were connected."""
    low = Endpoint(CLIENT.host, 80)
    watch = TcpWatch(client=low, server=Endpoint(SERVER.host, 8443))
    watch.synack()
    watch.ack()
    watch.client(b"GET / HTTP/1.1\r\n\r\n")
    assert (watch.only.client, watch.only.mid_stream) == (low, False)
    assert watch.only.connected is not None
    assert watch.outcome() == "established"


def test_rest_of_a_connection_without_payload() -> None:
    """ACKs and FINs of a connection that began before the capture make no record."""
    watch = TcpWatch()
    watch.ack()
    watch.end(0)
    watch.end(1)
    watch.reset(0)
    assert watch.opened == []


def test_mid_stream() -> None:
    """Encrypted data of a connection whose start was missed is `mid-stream`; the lower port is the server's."""
    watch = TcpWatch()
    watch.server(protected(100))
    watch.client(protected(100))
    assert (watch.only.client, watch.only.server, watch.outcome()) == (CLIENT, SERVER, "mid-stream")
    assert watch.only.ready is None


@pytest.mark.parametrize("before", [b"", b"old data"])
def test_mid_stream_client_hello(before: bytes) -> None:
    """A ClientHello makes its sender the client, whatever the ports say, and the handshake is followed."""
    watch = TcpWatch(client=Endpoint(CLIENT.host, 100), server=Endpoint(SERVER.host, 8443))
    if before:
        watch.client(before)
    watch.client(HELLO)
    finish_tls(watch)
    assert watch.only.client.port == 100
    assert watch.outcome() == "established"
    assert (watch.only.request_bytes, watch.only.response_bytes) == (105, 205)


def test_mid_stream_client_hello_in_tiny_segments() -> None:
    """The same in segments of one byte, from the port that a client usually has."""
    watch = TcpWatch()
    for byte in HELLO:
        watch.client(bytes((byte,)))
    finish_tls(watch)
    assert watch.outcome() == "established"


@pytest.mark.parametrize("together", [True, False], ids=["one segment", "two"])
def test_a_load_balancers_header_before_tls(*, together: bool) -> None:
    """TLS behind a header of the PROXY protocol is the server's own, in the same segment or in the next."""
    watch = TcpWatch()
    watch.connect()
    header = b"PROXY TCP4 192.0.2.9 198.51.100.2 40000 443\r\n"
    for piece in [header + HELLO] if together else [header, HELLO]:
        watch.client(piece)
    finish_tls(watch)
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


def test_ports_used_anew_without_a_syn() -> None:
    """A ClientHello far from all that a connection sent begins another one, as where only TLS was captured."""
    watch = TcpWatch()
    watch.client(HELLO)
    finish_tls(watch)
    watch.use(client_isn=0x4000_0000, server_isn=0x5000_0000)
    watch.client(handshake(client_hello(b"other.example")))
    first, second = watch.opened
    assert watch.evicted == [first]
    assert first.hello is not None
    assert second.hello is not None
    assert second.hello.sni == "other.example"


def test_a_hello_repeated_to_a_server_that_is_gone_is_no_new_connection() -> None:
    """A client repeats a lost ClientHello long after its FIN; once the connection is let go of, that is still its."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.end(0)
    watch.tracker.forget(watch.only)
    watch.client(HELLO, offset=0)
    assert len(watch.opened) == 1
    watch.client(handshake(client_hello(b"other.example")), offset=5000)
    assert len(watch.opened) == 2


def test_a_syn_that_the_capture_has_late() -> None:
    """A SYN behind the ClientHello whose sequence number it comes before is of the same connection."""
    watch = TcpWatch()
    watch.client(HELLO)
    watch.syn()
    watch.synack()
    finish_tls(watch)
    assert (watch.outcome(), watch.only.mid_stream, watch.only.syns) == ("established", False, 1)


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
    finish_tls(watch)
    assert watch.only.hello is not None
    assert watch.outcome() == "established"


def test_tls_after_a_servers_banner() -> None:
    """A server that speaks first does not hide the ClientHello at the start of the client's stream."""
    watch = TcpWatch()
    watch.connect()
    watch.server(b"hello\r\n")
    watch.client(HELLO)
    finish_tls(watch)
    assert watch.outcome() == "established"
    assert watch.only.hello is not None


PIECES = [(start, LONG_HELLO[start : start + 600]) for start in range(0, len(LONG_HELLO), 500)]


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
    finish_tls(watch)
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
    finish_tls(watch)
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
    finish_tls(watch)
    assert watch.outcome() == "established"
    assert watch.only.request_bytes == 105


def test_keep_alive_probes_add_nothing() -> None:
    """A probe of one old byte is no payload."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    finish_tls(watch)
    sent = watch.only.client_stream.bytes_seen
    watch.client(b"\x00", offset=watch.sent[0] - 1)
    assert watch.only.client_stream.bytes_seen == sent


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


def test_an_end_that_acknowledges_what_was_not_seen_proves_no_failure() -> None:
    """The same where nothing of the server's follows what was lost."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.sent[1] = len(TLS13_SERVER_FLIGHT)
    watch.end(0)
    assert watch.outcome() is None


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


def test_a_lost_syn_ack_is_no_refusal() -> None:
    """A client that acknowledged was let in, also where the server resets the connection in the end."""
    watch = TcpWatch()
    watch.syn()
    watch.ack()
    watch.client(HELLO)
    watch.reset(1)
    assert watch.outcome() != "refused"


def test_a_hello_that_the_capture_lost_is_no_plain_text() -> None:
    """Where a server answers bytes that were not captured, nothing is said of what they were."""
    watch = TcpWatch()
    watch.connect()
    watch.sent[0] = len(HELLO)
    finish_tls(watch)
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
    finish_tls(watch)
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
    finish_tls(watch)
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
    finish_tls(watch)
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
    finish_tls(watch)
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


def test_other_protocols_are_tracked_and_not_talked_about() -> None:
    """SSH and mail have nothing to do with HTTP: no lines for them."""
    watch = TcpWatch(server=Endpoint(SERVER.host, 22))
    watch.connect()
    watch.server(b"SSH-2.0-OpenSSH\r\n")
    assert (watch.said(), watch.outcome()) == ([], "established")


@pytest.mark.parametrize(("seen", "unread"), [("both", 1), ("client", 0), ("cut", 0)])
def test_what_the_capture_lacks_is_not_forgotten(seen: str, unread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that gives way is counted where more of it could have been read, and not where nothing comes."""
    monkeypatch.setattr("h3probe.track.tcp_tracker.HANDSHAKES_LIMIT", 1)
    watch = TcpWatch()
    for port in (50000, 50001):
        watch.use(client_isn=port, server_isn=5000, client=Endpoint(CLIENT.host, port))
        watch.syn()
        if seen == "both":
            watch.synack()
        watch.ack()
        watch.raw(0, ACK, HELLO[:60] if seen == "cut" else HELLO, seq=port + 1, length=len(HELLO))
    assert watch.tracker.evicted == unread


def test_connections_are_limited() -> None:
    """The connection used least recently leaves, and is counted."""
    watch = TcpWatch(limit=2)
    for port in (50000, 50001, 50002):
        watch.use(client_isn=port, server_isn=1, client=Endpoint(CLIENT.host, port))
        watch.syn()
    assert watch.evicted == watch.opened[:1]
    assert watch.tracker.evicted == 1


def test_forgotten_connections_are_gone() -> None:
    """A settled connection is let go of, but not the one that took its ports over."""
    watch = TcpWatch()
    watch.syn()
    watch.use(client_isn=77, server_isn=78)
    watch.syn()
    first, second = watch.opened
    watch.tracker.forget(first)
    assert watch.tracker.find(CLIENT, SERVER) is second
    watch.tracker.forget(second)
    assert watch.tracker.find(CLIENT, SERVER) is None


SIDES = st.sampled_from([0, 1])
CONTENT = st.sampled_from([HELLO, CONNECT, CONNECT_UDP, OK, TLS13_SERVER_FLIGHT, TLS13_FINISHED, alert(40), b""])


@given(st.lists(st.tuples(SIDES, st.integers(0, 63), CONTENT | st.binary(max_size=30), st.integers(-9, 400))))
def test_any_segments_leave_a_known_outcome(segments: list[tuple[int, int, bytes, int]]) -> None:
    """Whatever flags, offsets and bytes arrive, nothing is raised, and the streams stay within their limit."""
    watch = TcpWatch(limit=2)
    for side, flags, payload, offset in segments:
        watch.raw(side, flags, payload, seq=watch._isn[side] + offset)
    outcomes = {"established", "unanswered", "refused", "reset", "mid-stream", None}
    assert {c.outcome(watch.now) for c in watch.opened} <= outcomes
    assert all(c.tls is None or c.tls.state in TlsState for c in watch.opened)


def test_a_stray_rst_is_no_connection() -> None:
    """A RST alone opens nothing, while a SYN-ACK alone does."""
    watch = TcpWatch()
    watch.raw(1, RST, seq=1)
    assert watch.opened == []
    watch.synack()
    assert len(watch.opened) == 1
