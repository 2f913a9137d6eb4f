from __future__ import annotations

import pytest

from h3probe.filters import Filters
from tests.diagnose.scenario import CLIENT, CLIENT6, SERVER6, STATION, Network, Tcp

RULE = "proxy-downgrade"
PROXY = "192.0.2.3"


def tunnelled(network: Network, *, client: str = CLIENT, proxy: str = PROXY, at: float = 0.0) -> Tcp:
    """A client that reaches example.org through a CONNECT tunnel."""
    tcp = network.tcp(client=client, server=proxy, port=8888)
    tcp.asks_proxy(at, "example.org:443")
    tcp.proxy_answers(at + 0.05, 200, "Connection established")
    tcp.gets_ready(at + 0.06)
    tcp.exchanges(at + 0.1)
    return tcp


def test_a_tunnel_is_named_as_the_reason() -> None:
    """A CONNECT tunnel with TLS inside and no QUIC: information, with the request, the answer and the hello."""
    network = Network()
    tunnelled(network)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "info"
    assert finding.origin == "example.org:443"
    assert f"the proxy {PROXY}:8888" in finding.summary
    assert [row.frame for row in finding.evidence] == [4, 5, 6]
    assert explained.summary.exit_status == 0
    assert "cannot carry HTTP/3" in explained.sentence
    assert explained.sentence.startswith("HTTP/2 or HTTP/1.1, through a CONNECT tunnel")


def test_tunnels_to_one_target_are_one_finding() -> None:
    """A browser's six tunnels are told once."""
    network = Network()
    for at in range(6):
        tunnelled(network, at=at / 10)
    assert "6 tunnels" in network.explain().the(RULE).summary


def test_credentials_that_are_asked_for_first_change_nothing() -> None:
    """407, the same request again on the same connection, 200: the tunnel is open."""
    network = Network()
    tcp = network.tcp(server=PROXY, port=8888)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.05, 407, fields="Content-Length: 0\r\n")
    tcp.asks_again(0.06, "example.org:443")
    tcp.proxy_answers(0.1, 200)
    tcp.gets_ready(0.11)
    assert network.explain().the(RULE)


def test_a_proxy_that_refuses_is_another_matter() -> None:
    """Without a tunnel nothing was carried."""
    for status, words in ((403, "does not allow"), (407, "credentials"), (502, "could not reach")):
        network = Network()
        tcp = network.tcp(server=PROXY, port=8888)
        tcp.asks_proxy(0.0, "example.org:443")
        tcp.proxy_answers(0.05, status)
        explained = network.explain()
        assert explained.found(RULE) == []
        assert words in explained.sentence


def test_quic_past_the_proxy_is_another_matter() -> None:
    """A host whose QUIC leaves directly is not held back by the proxy."""
    network = Network()
    tunnelled(network)
    network.quic(sni="other.example", server="198.51.100.9").connects(2.0)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert not any("no QUIC packet left this host" in verdict.sentence for verdict in explained.verdicts)


def test_quic_from_the_hosts_other_address_is_past_the_proxy_too() -> None:
    """A dual-stack host asks its proxy over IPv4 and sends QUIC over IPv6."""
    network = Network(stations={CLIENT: STATION, CLIENT6: STATION})
    tunnelled(network)
    network.quic(client=CLIENT6, server=SERVER6).connects(1.0)
    assert network.explain().found(RULE) == []


def test_a_proxy_on_the_same_machine_is_asked_over_loopback() -> None:
    """An agent on 127.0.0.1 is a proxy too; QUIC that leaves from the machine's own address goes past it."""
    network = Network()
    tunnelled(network, client="127.0.0.1", proxy="127.0.0.1")
    network.quic(client=CLIENT).connects(1.0)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert not any("no QUIC packet left this host" in verdict.sentence for verdict in explained.verdicts)


def test_a_filter_by_port_does_not_hide_quic_that_was_sent() -> None:
    """Asked about the proxy's port alone, h3probe still knows of the QUIC that left the host."""
    network = Network()
    tunnelled(network)
    network.quic().connects(1.0)
    explained = network.explain(filters=Filters(ports=frozenset({8888})))
    assert explained.found(RULE) == []
    assert "no QUIC packet left this host" not in explained.sentence


def test_the_proxys_own_leg_is_not_a_clients() -> None:
    """On the proxy's machine its connection onwards repeats the client's ClientHello: it is told of no more."""
    network = Network()
    inside = tunnelled(network)
    network.tcp(client=PROXY, hello_of=inside).connects(0.062)
    explained = network.explain()
    assert len(explained.verdicts) == 1
    assert explained.the(RULE).connections == ["tcp-1"]


def test_a_masque_tunnel_can_carry_http3() -> None:
    """connect-udp that the proxy grants is no downgrade."""
    network = Network()
    tcp = network.tcp(server=PROXY, port=8888)
    tcp.syn(0.0)
    tcp.accepts(0.001)
    tcp.asks_connect_udp(0.002, "example.org", 443)
    tcp.proxy_answers(0.01, 101, "Switching Protocols", "Connection: Upgrade\r\nUpgrade: connect-udp\r\n")
    explained = network.explain()
    assert explained.found(RULE) == []
    assert "can carry HTTP/3" in explained.sentence


def test_ssh_in_a_tunnel_is_nobodys_http() -> None:
    """A CONNECT that carries no TLS says nothing about HTTP versions."""
    network = Network()
    tcp = network.tcp(server=PROXY, port=8888)
    tcp.asks_proxy(0.0, "git.example:22")
    tcp.proxy_answers(0.05, 200)
    tcp.segment(0.06, "server", 0x10, b"SSH-2.0-OpenSSH_9.9\r\n")
    tcp.segment(0.07, "client", 0x10, b"SSH-2.0-client\r\n")
    assert network.explain().found(RULE) == []


def test_tls_that_fails_in_the_tunnel_carried_no_request() -> None:
    """A tunnel whose TLS handshake ends in an alert is no way that requests went."""
    network = Network()
    tcp = network.tcp(server=PROXY, port=8888)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.05, 200)
    tcp.hello(0.06)
    tcp.alert(0.07, 48)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert explained.sentence.startswith("No connection: TLS failed")


def test_a_direct_connection_is_none() -> None:
    """Without CONNECT there is no tunnel."""
    network = Network()
    network.tcp().connects(0.0)
    assert network.explain().findings == []


def test_connect_udp_that_was_asked_for_makes_it_a_notice() -> None:
    """The client wanted HTTP/3, and said so to the proxy."""
    network = Network()
    first = network.tcp(server=PROXY, port=8888)
    first.syn(0.0)
    first.accepts(0.001)
    first.asks_connect_udp(0.002, "example.org", 443)
    first.proxy_answers(0.01, 501)
    tunnelled(network, at=0.1)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert "had asked the proxy for connect-udp" in finding.summary


def test_a_server_that_offers_http3_makes_it_a_notice() -> None:
    """Alt-Svc was seen in the tunnel, by interception."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.carries(tcp, 0.0)
    proxy.alt_svc(0.2, tcp, 'h3=":443"; ma=60')
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert "The server offers HTTP/3" in finding.summary


def test_a_dns_record_is_an_offer_too() -> None:
    """Whoever asked for it."""
    network = Network()
    network.https_record(0.0, "example.org", "h3")
    tunnelled(network, at=0.1)
    assert network.explain().the(RULE).severity == "notice"


def test_alt_svc_without_http3_leaves_it_information() -> None:
    """An offer of something else, or of nothing any more."""
    for line in ('h2=":443"', "clear", 'h3=":443"; ma=0'):
        network = Network()
        proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
        proxy.carries(tcp, 0.0)
        proxy.alt_svc(0.2, tcp, line)
        assert network.explain().the(RULE).severity == "info"


def test_the_proxys_report_is_enough() -> None:
    """The request, the answer and the hello as the proxy saw them, without a packet."""
    network = Network()
    network.proxy().carries(network.tcp(server="127.0.0.1", port=8899), 0.0)
    finding = network.explain().the(RULE)
    assert finding.severity == "info"
    assert [(row.frame, row.at) for row in finding.evidence] == [(None, 0.0), (None, 0.05), (None, 0.06)]


@pytest.mark.parametrize(
    ("received", "after_hello", "carried"),
    [(0, None, False), (2268, 30, False), (2268, 24, False), (2268, 80, True), (2268, None, True)],
)
def test_a_reported_tunnel_whose_handshake_did_not_end(
    received: int, after_hello: int | None, *, carried: bool
) -> None:
    """A ClientHello without an answer, or with an alert after the answer, is a connection that failed."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    tunnel = proxy.asked(0.0, tcp)
    proxy.answered(0.05, tunnel)
    proxy.hello(0.06, tcp, tunnel)
    proxy.ended(5.0, tcp, tunnel, received=received, after_hello=after_hello)
    explained = network.explain()
    assert bool(explained.found(RULE)) is carried
    assert ("No connection: TLS failed in the CONNECT tunnel" in explained.sentence) is not carried


def test_a_handshake_without_a_request_is_told_as_what_it_is() -> None:
    """A client that only looks at the certificate sends no request, and none is claimed."""
    network = Network()
    tcp = network.tcp(server=PROXY, port=8888)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.05, 200)
    tcp.gets_ready(0.06)
    tcp.fin(0.2)
    explained = network.explain()
    assert "example.org:443 was reached through" in explained.the(RULE).summary
    assert "equest" not in explained.the(RULE).summary


def test_a_tunnel_that_works_after_one_that_failed_is_the_one_told() -> None:
    """Of a client that refused a certificate first, the later connection is what it came to."""
    network = Network()
    proxy = network.proxy()
    for at, after_hello in ((0.0, 30), (2.0, 400)):
        tcp = network.tcp(server="127.0.0.1", port=8899)
        tunnel = proxy.asked(at, tcp)
        proxy.answered(at + 0.05, tunnel)
        proxy.hello(at + 0.06, tcp, tunnel)
        proxy.ended(at + 1.0, tcp, tunnel, after_hello=after_hello)
    explained = network.explain()
    assert explained.the(RULE).connections == ["tcp-2"]
    assert explained.sentence.startswith("HTTP/2 or HTTP/1.1, through a CONNECT tunnel")


def test_requests_of_which_none_was_answered_used_no_version() -> None:
    """What the proxy could not pass on is no downgrade."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.carries(tcp, 0.0)
    proxy.exchange(0.2, tcp, status=None, intercepted=True)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert explained.sentence.startswith("No response through the CONNECT tunnel of the proxy 127.0.0.1:8899:")


def test_quic_of_another_process_is_not_denied() -> None:
    """That this client sent none is true; that none left the host is not."""
    network = Network()
    tcp, other = tunnelled(network), network.quic(sni="other.example", server="198.51.100.9")
    other.connects(0.5)
    network.owns(0.01, tcp, 7, "java")
    network.owns(0.51, other, 8, "firefox")
    explained = network.explain()
    assert explained.the(RULE).summary.endswith("cannot carry HTTP/3, and this client sent no QUIC packet.")
    assert not any("no QUIC packet left this host" in verdict.sentence for verdict in explained.verdicts)


def test_quic_of_a_process_that_nobody_asked_about_is_not_denied() -> None:
    """Where only a command is watched, others' QUIC is not told, and it did leave the host."""
    network = Network()
    tcp, other = tunnelled(network), network.quic(sni="other.example", server="198.51.100.9")
    other.connects(0.5)
    network.owns(0.01, tcp, 7, "java")
    network.owns(0.51, other, 8, "firefox")
    explained = network.explain(filters=Filters(wanted=lambda c: c.process is None or c.process.pid == 7))
    assert explained.the(RULE).summary.endswith("cannot carry HTTP/3, and this client sent no QUIC packet.")
    assert explained.sentence.endswith("and this client sent no QUIC packet.")
