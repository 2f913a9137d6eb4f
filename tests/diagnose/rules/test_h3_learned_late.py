from __future__ import annotations

from tests.diagnose.scenario import Network, Quic, Tcp

RULE = "h3-learned-late"
OFFER = 'h3=":8443"; ma=86400'


def ends(network: Network) -> tuple[Tcp, Quic]:
    """A client's two ways to a reverse proxy."""
    return network.tcp(server="127.0.0.1", port=8443), network.quic(server="127.0.0.1", port=8443)


def first_over_tcp(network: Network, tcp: Tcp) -> None:
    """HTTP/2 for the first request."""
    network.proxy().hello(0.0, tcp)
    network.proxy().exchange(0.05, tcp)


def test_the_first_response_told_of_http3() -> None:
    """HTTP/2, Alt-Svc in its response, then QUIC."""
    network = Network()
    tcp, quic = ends(network)
    first_over_tcp(network, tcp)
    network.proxy().alt_svc(0.06, tcp, OFFER)
    quic.connects(0.26)
    network.proxy().exchange(0.4, quic, "HTTP/3")
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "info"
    assert "used HTTP/2" in finding.summary
    assert "QUIC began 200 ms after that" in finding.summary
    assert [row.at for row in finding.evidence] == [0.05, 0.06, 0.26]
    assert explained.verdict.versions == {"HTTP/2": 1, "HTTP/3": 1}
    assert explained.sentence.startswith("HTTP/2 for the first request, then HTTP/3 for 1")


def test_the_proxys_reports_alone_tell_it() -> None:
    """Without any packet: the ClientHello and the exchange of QUIC are its beginning and its success."""
    network = Network()
    tcp, quic = ends(network)
    first_over_tcp(network, tcp)
    network.proxy().alt_svc(0.06, tcp, OFFER)
    network.proxy().hello(0.26, quic)
    network.proxy().exchange(0.4, quic, "HTTP/3")
    assert "QUIC began 200 ms after" in network.explain().the(RULE).summary


def test_a_race_that_began_before_the_offer_learned_nothing_from_it() -> None:
    """QUIC was tried at once, and TCP was faster."""
    network = Network()
    tcp, quic = ends(network)
    quic.connects(0.01)
    first_over_tcp(network, tcp)
    network.proxy().alt_svc(0.06, tcp, OFFER)
    network.proxy().exchange(0.4, quic, "HTTP/3")
    assert network.explain().found(RULE) == []


def test_http3_from_the_first_request_was_known_before() -> None:
    """Alt-Svc in a response over HTTP/3 is no news."""
    network = Network()
    _, quic = ends(network)
    network.proxy().hello(0.0, quic)
    network.proxy().exchange(0.05, quic, "HTTP/3")
    network.proxy().alt_svc(0.06, quic, OFFER)
    assert network.explain().found(RULE) == []


def test_a_client_that_never_tries_has_not_learned() -> None:
    """That is `no-quic-attempt`."""
    network = Network()
    tcp, _ = ends(network)
    first_over_tcp(network, tcp)
    network.proxy().alt_svc(0.06, tcp, OFFER)
    network.proxy().exchange(0.4, tcp)
    assert network.explain().rules == ["no-quic-attempt"]


def test_quic_without_an_offer_came_from_elsewhere() -> None:
    """No Alt-Svc was seen: who told the client is not known."""
    network = Network()
    tcp, quic = ends(network)
    first_over_tcp(network, tcp)
    quic.connects(0.26)
    assert network.explain().found(RULE) == []


def test_a_dns_record_is_no_response() -> None:
    """A client that could have known from DNS did not learn it from its first response."""
    network = Network()
    network.https_record(0.0, "example.org", "h3")
    tcp, quic = network.tcp(), network.quic()
    tcp.connects(0.1)
    network.proxy().exchange(0.15, tcp)
    quic.connects(1.0)
    assert network.explain().found(RULE) == []


def test_quic_that_fails_is_not_what_was_learned() -> None:
    """An attempt that nobody answers is another rule's matter."""
    network = Network()
    tcp, quic = ends(network)
    first_over_tcp(network, tcp)
    network.proxy().alt_svc(0.06, tcp, OFFER)
    quic.initials(0.26, 1.26, 3.26)
    assert network.explain().found(RULE) == []


def test_the_clients_own_log_tells_it() -> None:
    """The first request and the offer in its response are known from the log; one that failed is no first request."""
    network = Network()
    tcp, quic = network.tcp(), network.quic()
    tcp.connects(0.0)
    network.told(0.05, None, None)
    network.told(0.1, tcp, began=0.06)
    network.told_alt_svc(0.1, OFFER)
    quic.connects(0.3)
    assert "used HTTP/2" in network.explain().the(RULE).summary
