from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.track.tls_progress import TlsState
from h3probe.wire.packet import ACK, FIN, RST, SYN
from tests.track.builders import (
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
)

HELLO = handshake(client_hello(protocols=(b"h2", b"http/1.1")))
CONNECT = b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
CONNECT_UDP = b"GET /.well-known/masque/udp/example.com/443/ HTTP/1.1\r\nUpgrade: connect-udp\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n\r\n"
MS = 1_000_000


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
    watch.finish_tls()
    assert watch.outcome() == "established"


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
    watch.finish_tls()
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


def test_ports_used_anew_without_a_syn() -> None:
    """A ClientHello far from all that a connection sent begins another one, as where only TLS was captured."""
    watch = TcpWatch()
    watch.client(HELLO)
    watch.finish_tls()
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
    watch.finish_tls()
    assert (watch.outcome(), watch.only.mid_stream, watch.only.syns) == ("established", False, 1)


def test_keep_alive_probes_add_nothing() -> None:
    """A probe of one old byte is no payload."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.finish_tls()
    sent = watch.only.client_stream.bytes_seen
    watch.client(b"\x00", offset=watch.sent[0] - 1)
    assert watch.only.client_stream.bytes_seen == sent


def test_an_end_that_acknowledges_what_was_not_seen_proves_no_failure() -> None:
    """The same where nothing of the server's follows what was lost."""
    watch = TcpWatch()
    watch.connect()
    watch.client(HELLO)
    watch.sent[1] = len(TLS13_SERVER_FLIGHT)
    watch.end(0)
    assert watch.outcome() is None


def test_a_lost_syn_ack_is_no_refusal() -> None:
    """A client that acknowledged was let in, also where the server resets the connection in the end."""
    watch = TcpWatch()
    watch.syn()
    watch.ack()
    watch.client(HELLO)
    watch.reset(1)
    assert watch.outcome() != "refused"


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
