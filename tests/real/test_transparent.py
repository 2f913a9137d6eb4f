"""A transparent proxy between real clients, in a network of their own, and a real server."""

import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from h3probe.events import AltSvcSeen, CaRejected, ClientHelloSeen, ConnectionEnded, Exchange, OnwardConnection
from h3probe.records import AltSvcRecord, ExchangeRecord, QuicRecord, TcpRecord, TunnelRecord, VerdictRecord

from .middle import CLIENT, CLIENT_6, MIDDLE, MIDDLE_6, PORT, Middle, Seen
from .netns import wait_until
from .parts import ADVERTISED, PLAIN, Lab, curl, java

URL = f"https://h3.test:{ADVERTISED}/"
ALT_SVC = f'h3=":{ADVERTISED}"; ma=3600'

ECHO = f"""
import socket
with socket.create_server(("{MIDDLE}", 7777)) as listener:
    connection, _ = listener.accept()
    while data := connection.recv(100):
        connection.sendall(data)
    connection.sendall(b"after the end")
"""
SPEAK = f"""
import socket
s = socket.create_connection(("{MIDDLE}", 7777), timeout=10)
for data in (b"h", b"GET foo", b"\\x16"):
    s.sendall(data)
    print(s.recv(100))
s.shutdown(socket.SHUT_WR)
print(s.recv(100))
"""


@pytest.fixture
def middle(lab: Lab) -> Iterator[Middle]:
    """A client's network before the lab's."""
    with Middle(lab) as middle:
        yield middle


def asks(*options: str, address: str = MIDDLE, port: int = ADVERTISED, trusts: str | None = None) -> list[str]:
    """A curl that finds the server at `address`, and prints the response's head."""
    where = f"[{address}]" if ":" in address else address
    plain = [each for each in curl(f"https://h3.test:{port}/", *options) if each not in {"--cacert", "ca.pem"}]
    trust = [] if trusts is None else ["--cacert", trusts]
    return [*plain, "--resolve", f"h3.test:{port}:{where}", "-D", "-", *trust]


def watch(middle: Middle, argv: Sequence[str], intercept: tuple[str, ...] | None = ()) -> Seen:
    """Run one of the real programs behind the proxy, which it trusts."""
    with middle.proxy(intercept) as proxy, middle.sniffer() as sniffer:
        env = middle.trusted(proxy, argv)
        return middle.run(proxy, sniffer, middle.lab.parts.command(argv), env=env)


@pytest.mark.parametrize(("client", "server"), [(CLIENT, MIDDLE), (CLIENT_6, MIDDLE_6)], ids=["ipv4", "ipv6"])
def test_an_exchange_on_the_sniffed_connection(middle: Middle, client: str, server: str) -> None:
    """With no setting but the CA, the exchange is known with its version, on the TCP connection that was sniffed."""
    seen = watch(middle, asks("--http2", address=server))
    assert seen.said[0].startswith("HTTP/2 200"), seen
    assert f"alt-svc: {ALT_SVC}" in seen.said
    hello, exchange = seen.one(ClientHelloSeen), seen.one(Exchange)
    assert (hello.sni, hello.alpn, hello.tunnel) == ("h3.test", ("h2", "http/1.1"), None)
    assert (hello.client.address, hello.proxy.address, hello.proxy.port) == (client, server, ADVERTISED)
    assert (exchange.origin, exchange.version, exchange.intercepted) == (URL.rstrip("/"), "HTTP/2", True)
    tcp, record = seen.one(TcpRecord), seen.one(ExchangeRecord)
    assert tcp.first_packet is not None
    assert (record.connection, record.known_from, record.version) == (tcp.id, "proxy", "HTTP/2")
    assert (tcp.client, tcp.server) == (str(hello.client), str(hello.proxy))
    assert seen.one(AltSvcRecord).value == ALT_SVC
    offered = seen.one(AltSvcSeen)
    assert offered.lines == offered.passed_on
    assert not seen.all(TunnelRecord)
    assert not seen.rules & {"proxy-downgrade", "ca-rejected"}


def test_http_3_goes_past_it(middle: Middle) -> None:
    """QUIC reaches the server as it is, since the advertised port is the server's own."""
    seen = watch(middle, asks("--http3-only"))
    assert seen.said[0].startswith("HTTP/3 200"), seen
    assert not seen.all(Exchange)
    assert seen.one(QuicRecord).outcome == "established"


def test_nothing_is_intercepted_unless_asked_for(middle: Middle) -> None:
    """Without hosts to intercept, TLS passes through: the client sees the server's own certificate."""
    for intercept in (None, ("example.org",)):
        seen = watch(middle, asks("--http2", trusts="ca.pem"), intercept)
        assert seen.said[0].startswith("HTTP/2 200"), seen
        assert seen.one(ClientHelloSeen).sni == "h3.test"
        assert not seen.all(Exchange)
        ended = seen.one(ConnectionEnded)
        assert min(ended.sent, ended.received) > 500


def test_a_host_that_is_named(middle: Middle) -> None:
    """The name in the ClientHello decides: the address alone is nobody's name."""
    assert seen_version(watch(middle, asks("--http2"), ("h3.test",))) == "HTTP/2"


def seen_version(seen: Seen) -> str:
    """The version of the one exchange."""
    return seen.one(Exchange).version


def test_a_client_that_does_not_trust_it(middle: Middle) -> None:
    """It fails once, and is passed through from its next connection on, as other hosts at that address are not."""
    with middle.proxy(()) as proxy, middle.sniffer() as sniffer:
        own = middle.lab.parts.command(asks("--http2", trusts="ca.pem"))
        first = middle.run(proxy, sniffer, own, linger=1.5)
        assert first.complained, first
        assert first.one(CaRejected).host == "h3.test"
        assert "ca-rejected" in first.rules
        second = middle.run(proxy, sniffer, own)
        assert second.said[0].startswith("HTTP/2 200"), second
        assert not second.all(Exchange)
        other = asks("--http2", "--connect-to", f"other.test:{PLAIN}:{MIDDLE}:{PLAIN}", "-k", port=PLAIN)
        argv = [each.replace("h3.test", "localhost") if each.startswith("https://") else each for each in other]
        argv += ["--resolve", f"localhost:{PLAIN}:{MIDDLE}"]
        third = middle.run(proxy, sniffer, middle.lab.parts.command(argv))
        assert third.one(Exchange).origin == f"https://localhost:{PLAIN}", third


@pytest.mark.parametrize("where", ["client", "request"])
def test_a_race_that_quic_wins_is_no_refusal(middle: Middle, where: str) -> None:
    """The JDK drops its TCP when QUIC is first, which looks like a refusal to a proxy that sees TCP alone."""
    argv = [each for each in java(URL, where, "ANY", 3) if not each.startswith("-Djavax")]
    argv.insert(1, "-Djdk.net.hosts.file=hosts")
    with middle.proxy(()) as proxy, middle.sniffer() as sniffer:
        env = middle.trusted(proxy, argv)
        seen = middle.run(proxy, sniffer, middle.lab.parts.command(argv), env=env, linger=1.5)
    versions = [line.split()[2] for line in seen.said if line.startswith("request ")]
    assert versions[1:] == ["HTTP_3", "HTTP_3"], seen
    assert not seen.all(CaRejected)
    over_tcp = [version for version in versions if version == "HTTP_2"]
    assert [exchange.version for exchange in seen.all(Exchange)] == ["HTTP/2" for _ in over_tcp]
    if over_tcp:
        assert "QUIC went past the proxy" in seen.one(VerdictRecord).sentence


def test_what_is_neither_tls_nor_http(middle: Middle) -> None:
    """Bytes of any other protocol go through as they come, without waiting for more, and half an end is half an end."""
    middle.lab.netns.start([sys.executable, "-c", ECHO], cwd=middle.lab.folder, stderr=subprocess.DEVNULL)
    with middle.proxy(()) as proxy, middle.sniffer() as sniffer:
        seen = middle.run(proxy, sniffer, [sys.executable, "-c", SPEAK])
    assert seen.said == ["b'h'", "b'GET foo'", "b'\\x16'", "b'after the end'"], seen
    ended = seen.one(ConnectionEnded)
    assert (ended.sent, ended.received, ended.proxy.port) == (9, 22, 7777)


def test_an_address_in_place_of_another(middle: Middle) -> None:
    """Without a name, the server's certificate is held against the address that the client meant."""
    url = f"https://127.0.0.1:{ADVERTISED}/"
    argv = [*asks("--http2", "--connect-to", f"::{MIDDLE}:"), url]
    argv = [each for each in argv if not each.startswith("https://h3.test")]
    exchange = watch(middle, argv, ("127.0.0.1",)).one(Exchange)
    assert (exchange.origin, exchange.status) == (url.rstrip("/"), 200)


def test_requests_in_the_clear(middle: Middle) -> None:
    """They are seen as they are, where their host is one to be intercepted; a CONNECT is for another proxy."""
    serve = [sys.executable, "-m", "http.server", "--bind", MIDDLE, "8080"]
    server = middle.lab.netns.start(serve, cwd=middle.lab.folder, stderr=subprocess.DEVNULL)
    wait_until(lambda: ("tcp", 8080) in middle.lab.netns.listening(), "http.server", server)
    argv = [*curl("http://h3.test:8080/ca.pem"), "--resolve", f"h3.test:8080:{MIDDLE}"]
    exchange = watch(middle, argv, ("h3.test",)).one(Exchange)
    assert (exchange.origin, exchange.status, exchange.version) == ("http://h3.test:8080", 200, "HTTP/1.1")
    assert not exchange.intercepted
    assert not watch(middle, argv, ("example.org",)).all(Exchange)
    through = watch(middle, [*curl(URL), "--proxytunnel", "--proxy", f"http://{MIDDLE}:8080"])
    assert through.one(TunnelRecord).status == 501  # by http.server, which has no CONNECT
    assert not through.all(Exchange)


def test_a_server_that_is_not_there(middle: Middle) -> None:
    """The proxy's failure to connect is told of the client's connection, whose packets show a server that hangs up."""
    seen = watch(middle, asks(port=4999))
    assert seen.complained, seen
    onward = seen.one(OnwardConnection)
    assert (onward.error, onward.client is not None) == ("connection refused", True)


def test_it_does_not_connect_to_itself(middle: Middle) -> None:
    """A client that connects to the proxy's own port gets nothing, and one connection is all there is."""
    seen = watch(middle, curl(f"http://{MIDDLE}:{PORT}/"))
    assert seen.complained, seen
    assert len(seen.all(ConnectionEnded)) == 1
