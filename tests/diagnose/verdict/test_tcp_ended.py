from __future__ import annotations

import pytest

from h3probe.wire.packet import ACK
from tests.diagnose.scenario import Network, Tcp
from tests.wire import hello_builder as tls


def hello_sent(network: Network) -> Tcp:
    """TCP that has connected, and a ClientHello on it."""
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.02)
    tcp.hello(0.021)
    return tcp


def certificate(tcp: Tcp) -> None:
    """A TLS 1.2 server's hello and certificate."""
    flight = tls.message(2, tls.server_hello([])) + tls.message(11, bytes(900)) + tls.message(14, b"")
    tcp.segment(0.04, "server", ACK, tls.record(22, flight))


@pytest.mark.parametrize(("code", "name"), [(48, "unknown_ca"), (45, "certificate_expired")])
def test_the_clients_alert_is_named(code: int, name: str) -> None:
    """A client that does not take the certificate says so in the clear, in TLS 1.2."""
    network = Network()
    tcp = hello_sent(network)
    certificate(tcp)
    tcp.alert(0.05, code, by="client")
    tcp.fin(0.051)
    network.bystander(1.0)
    sentence = network.explain().sentence
    assert sentence == (
        f"No connection: TLS over TCP ended with the alert {name} from the client, and no QUIC packet was sent."
    )


def test_the_servers_alert_is_named() -> None:
    """So does a server that speaks none of the client's protocols."""
    network = Network()
    tcp = hello_sent(network)
    tcp.alert(0.04, 120)
    tcp.fin(0.041, "server")
    assert "the alert no_application_protocol from the server" in network.explain().sentence


def test_an_alert_that_cannot_be_read() -> None:
    """TLS 1.3 encrypts the client's: that there is one is all that is said."""
    network = Network()
    tcp = hello_sent(network)
    tcp.server_flight(0.04)
    tcp.segment(0.05, "client", ACK, tls.record(20, b"\x01") + tls.record(23, bytes(19)))
    tcp.fin(0.051)
    assert "ended with an encrypted alert from the client" in network.explain().sentence


def test_a_reset_after_the_client_hello() -> None:
    """Whoever sends an RST there may stand between the two."""
    network = Network()
    for _ in range(2):
        hello_sent(network).rst(0.03)
    assert "TCP was reset from the server's side after the ClientHello" in network.explain().sentence


def test_a_client_that_waited_for_the_servers_hello() -> None:
    """It gives up after a while, and has got nothing."""
    network = Network()
    hello_sent(network).fin(30.0)
    assert "the client closed TCP, its ClientHello not answered" in network.explain().sentence


def test_a_client_hello_that_is_dropped() -> None:
    """It is sent again and again: no request can have gone over this connection."""
    network = Network()
    tcp = hello_sent(network)
    start = tcp.client_seq - len(tls.record(22, tcp.client_hello))
    for at in (0.3, 0.9, 2.1, 4.5):
        tcp.client_seq = start
        tcp.hello(at)
    network.bystander(9.0)
    explained = network.explain()
    assert explained.tcp[0].outcome == "unanswered"
    assert explained.sentence.startswith("No connection: TCP connected and its ClientHello was not answered")


def test_an_answer_that_the_capture_lacks_is_one() -> None:
    """A client that goes on after its ClientHello has got the server's, seen or not."""
    network = Network()
    tcp = hello_sent(network)
    tcp.server_flight(0.04)
    tcp.finished(0.05)
    tcp.request(5.0)
    explained = network.explain(seen=lambda packet: packet.by == "client" or packet.at < 0.03)
    assert explained.tcp[0].outcome is None
    assert not explained.sentence.startswith("No connection")


def test_syns_that_nobody_answers() -> None:
    """That is a verdict without a name and without a ClientHello."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    for at in (1.0, 3.0):
        tcp.syn_again(at)
    network.bystander(9.0)
    (verdict,) = network.explain().verdicts
    assert verdict.origin == "198.51.100.1:443"
    assert verdict.sentence == (
        "No connection: TCP was not answered (3 SYNs over 3.00 s), and no QUIC packet was sent."
    )


def test_attempts_that_ended_in_different_ways() -> None:
    """What is not the same of all of them is not said of any."""
    network = Network()
    hello_sent(network).rst(0.03)
    tcp = network.tcp()
    tcp.syn(1.0)
    tcp.refuse(1.02)
    assert "TCP ended before it was ready" in network.explain().sentence


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (tls.record(22, tls.message(2, b"\x03\x04" + bytes(20))), None, "with TLS that cannot be read"),
        (tls.record(22, tls.message(2, tls.server_hello([]))) + bytes(6), None, "with TLS that cannot be read"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "reset", "TCP ended before it was ready"),
    ],
)
def test_tls_that_cannot_be_read_has_no_known_end(answer: bytes, outcome: str | None, said: str) -> None:
    """Of what follows a message that makes no sense here nothing is known; a server that answers in HTTP has no TLS."""
    network = Network()
    tcp = hello_sent(network)
    tcp.segment(0.04, "server", ACK, answer)
    tcp.request(0.05)
    tcp.response(0.07)
    tcp.fin(0.1)
    explained = network.explain()
    assert explained.tcp[0].outcome == outcome
    assert said in explained.sentence
