from __future__ import annotations

import pytest

from h3probe.wire.packet import ACK
from tests.diagnose.scenario import ROUTER, Network, Packet
from tests.diagnose.verdict.setups import at_the_proxy
from tests.wire import hello_builder as tls


def test_no_connection_at_all() -> None:
    """Neither way led anywhere."""
    network = Network()
    quic, tcp = network.quic(), network.tcp(sni=None)
    quic.initial(0.0)
    quic.unreachable(0.01, code=(3, 13), sender=ROUTER)
    tcp.syn(0.02)
    tcp.refuse(0.03)
    sentence = network.explain().sentence
    assert sentence.startswith("No connection")
    assert "TCP was refused" in sentence


def test_a_connection_from_before_the_capture_may_carry() -> None:
    """QUIC failed beside a TCP connection that the capture found under way: that is no `No connection`."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(-10.0)
    tcp.exchanges(3.5)
    network.quic().initials(0.0, 1.0, 3.0)
    sentence = network.explain(seen=lambda packet: packet.at >= 0).sentence
    assert not sentence.startswith("No connection")


def test_a_pending_race_is_no_failure() -> None:
    """A capture that ends while both are being tried does not claim that there was no connection."""
    network = Network()
    network.quic().initial(0.0)
    network.tcp().syn(0.1)
    assert not network.explain().sentence.startswith("No connection")


def test_only_a_refused_tcp() -> None:
    """A server that is not there."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.refuse(0.01)
    explained = network.explain()
    assert explained.sentence == "No connection is seen: TCP was refused, and the capture holds no UDP at all."
    network.bystander(0.5)
    assert network.explain().sentence == "No connection: TCP was refused, and no QUIC packet was sent."


def test_one_refusal_of_two_is_not_all_of_tcp() -> None:
    """TCP was refused at one address and reset at the other: that is not `TCP was refused`."""
    network = Network()
    one, two = network.tcp(sni=None), network.tcp()
    one.syn(0.0)
    one.refuse(0.01)
    two.syn(0.1)
    two.accepts(0.11)
    two.hello(0.12)
    two.rst(0.13)
    network.bystander(0.5)
    assert network.explain().sentence.startswith("No connection: TCP ended before it was ready")


def test_a_failed_tls_handshake_is_no_connection() -> None:
    """An alert, and the end."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.hello(0.02)
    tcp.alert(0.03, 40)
    tcp.fin(0.04, "server")
    assert network.explain().sentence.startswith("No connection")


def test_quic_from_before_the_capture_is_told_as_that() -> None:
    """A handshake whose beginning is missing."""
    network = Network()
    network.quic().connects(0.0)

    def late(packet: Packet) -> bool:
        return packet.at > 0.020_05

    sentence = network.explain(seen=late).sentence
    assert sentence.startswith("QUIC, under way already when it was first seen")


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_attempt_without_an_end_is_left_open(*, goes_on: bool) -> None:
    """One Initial, and nothing more: neither a failure nor, when the capture goes on, its end."""
    network = Network()
    network.quic().initial(0.0)
    if goes_on:
        network.bystander(100.0)
    sentence = network.explain().sentence
    assert "capture ends" not in sentence
    assert not sentence.startswith("No connection")


@pytest.mark.parametrize(
    ("transports", "names"),
    [("t", "HTTP/2 or HTTP/1.1"), ("q", "HTTP/3"), ("tq", "HTTP/3 and HTTP/2 or HTTP/1.1")],
)
def test_tls_that_passes_a_reverse_proxy_untouched(transports: str, names: str) -> None:
    """What was offered is known, what it carried is not, and no capture is spoken of where there is none."""
    network = Network()
    proxy = network.proxy()
    tcp, quic = network.tcp(server="127.0.0.1", port=8443), network.quic(server="127.0.0.1", port=8443)
    if "t" in transports:
        proxy.hello(0.0, tcp)
        proxy.ended(1.0, tcp, after_hello=400)
    if "q" in transports:
        proxy.hello(0.0, quic)
        proxy.ended(1.0, quic, closed_by="idle")
    what = "was offered in TLS that passed the proxy untouched: what it carried is not seen there."
    assert at_the_proxy(network) == f"{names} {what}"


def test_a_reverse_proxy_whose_server_is_down() -> None:
    """Why there was no connection, with the address that was tried."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.unreached(0.01, tcp, "localhost:443")
    proxy.ended(0.02, tcp, received=0, closed_by="proxy", after_hello=0)
    assert at_the_proxy(network) == "No connection: the proxy could not connect to localhost:443 (connection refused)."


def test_tls_that_fails_at_a_reverse_proxy() -> None:
    """A handshake that the client did not finish carried nothing."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.ended(0.1, tcp, after_hello=30)
    assert at_the_proxy(network).startswith("No connection: TLS ended before it was ready")


def test_tcp_on_which_nothing_was_asked_carried_nothing() -> None:
    """A client that closes as soon as TLS is ready has not used HTTP of any version."""
    network = Network()
    tcp = network.tcp()
    tcp.opens(0.0)
    tcp.rst(0.1, by="client")
    network.bystander(0.2)
    assert network.explain().sentence == (
        "No request is seen: TLS over TCP was ready, and closed before anything was asked; no QUIC packet was sent."
    )


def test_neither_quic_nor_tcp_came_to_anything() -> None:
    """A capture that ends with the client's exit is too short to say what became of QUIC; it was not ready."""
    network = Network()
    quic, tcp = network.quic(), network.tcp()
    quic.initial(0.0)
    quic.answers(0.01)
    quic.server_handshake(0.011)
    quic.client_handshake(0.02)
    tcp.opens(0.03)
    tcp.rst(0.2, by="client")
    assert network.explain().sentence == (
        "No request is seen: QUIC was not ready, and TLS over TCP was ready, and closed before anything was asked."
    )


def test_tcp_that_failed_beside_quic_that_was_not_finished() -> None:
    """What the capture shows of both is said, and not that it does not show it."""
    network = Network()
    quic, tcp = network.quic(), network.tcp()
    quic.initial(0.0)
    quic.answers(0.01)
    quic.server_handshake(0.011)
    quic.client_handshake(0.02)
    tcp.syn(0.03)
    tcp.accepts(0.04)
    tcp.hello(0.05)
    tcp.server_flight(0.06)
    tcp.fin(0.07)
    assert network.explain().sentence == "No connection is seen: QUIC was not ready, and TCP did not get ready."


def test_what_is_asked_with_the_finished_is_asked() -> None:
    """A client may send its request in the segment that ends the handshake."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.hello(0.02)
    tcp.server_flight(0.03)
    tcp.segment(0.04, "client", ACK, tls.record(23, bytes(53)) + tls.record(23, bytes(200)))
    tcp.response(0.05)
    tcp.fin(0.06)
    assert network.explain().sentence.startswith("HTTP/2 or HTTP/1.1: no QUIC packet was sent")


def test_what_is_known_of_one_side_is_said() -> None:
    """A capture that lacks the end of TCP has QUIC's all the same."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0, 7.0)
    network.tcp().connects(8.0)
    sentence = network.explain(seen=lambda packet: packet.by == "client").sentence
    assert sentence == "QUIC was not answered (4 Initials over 7.00 s), and what became of TCP is not in the capture."


def test_a_question_for_versions_that_is_not_answered() -> None:
    """A reserved version carries nothing, whether it can be read or not."""
    network = Network()
    network.quic(version=0x1A2A3A4A).initial(0.0)
    alone = network.explain().sentence
    assert alone == "With QUIC the client asked for the server's versions, and got no answer that is seen."
    network.tcp().connects(1.0)
    assert "cannot be told" not in network.explain().sentence
