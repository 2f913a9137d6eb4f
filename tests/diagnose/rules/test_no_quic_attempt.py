from __future__ import annotations

import pytest

from tests.diagnose.scenario import Network, Tcp

RULE = "no-quic-attempt"
OFFER = 'h3=":443"; ma=86400'


def reverse(network: Network, at: float = 0.0) -> Tcp:
    """A connection to a reverse proxy, as it reports it."""
    tcp = network.tcp(server="127.0.0.1", port=8443)
    network.proxy().hello(at, tcp)
    return tcp


def offered(network: Network, *lines: str, passed_on: tuple[str, ...] | None = None) -> Tcp:
    """A first exchange over HTTP/2, in whose response HTTP/3 is offered."""
    tcp, proxy = reverse(network), network.proxy()
    proxy.alt_svc(0.1, tcp, *lines, passed_on=passed_on)
    proxy.exchange(0.05, tcp)
    return tcp


def test_exchanges_over_tcp_after_an_offer() -> None:
    """Alt-Svc reached the client, and two more requests went over HTTP/2."""
    network = Network()
    tcp = offered(network, OFFER)
    network.proxy().exchange(1.0, tcp)
    network.proxy().exchange(2.0, tcp)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert "2 exchanges over TCP and not one QUIC packet" in finding.summary
    assert OFFER in finding.summary
    assert [row.at for row in finding.evidence] == [0.1, 1.0]


def test_a_new_connection_after_an_offer() -> None:
    """The exchanges need not be seen: a TCP connection that begins after the offer is enough."""
    network = Network()
    offered(network, OFFER)
    reverse(network, at=3.0)
    finding = network.explain().the(RULE)
    assert "1 connection over TCP" in finding.summary
    assert [row.at for row in finding.evidence] == [0.1, 3.0]


def test_dns_offers_http3_too() -> None:
    """An HTTPS record with h3, and TCP alone after it."""
    network = Network()
    network.https_record(0.0, "example.org", "h3", "h2")
    network.tcp().connects(0.1)
    explained = network.explain()
    finding = explained.the(RULE)
    assert "DNS HTTPS record of example.org" in finding.summary
    assert [row.frame for row in finding.evidence] == [1, 2]
    assert explained.verdict.rules == [RULE]


def test_one_request_is_not_more_than_the_offer() -> None:
    """Alt-Svc is for the requests after it."""
    network = Network()
    offered(network, OFFER)
    assert network.explain().found(RULE) == []


@pytest.mark.parametrize("answered", [True, False])
def test_an_initial_is_an_attempt(*, answered: bool) -> None:
    """Whether it worked is another rule's matter."""
    network = Network()
    tcp = offered(network, OFFER)
    network.proxy().exchange(2.0, tcp)
    quic = network.quic(server="127.0.0.1", port=8443)
    if answered:
        quic.connects(1.0)
    else:
        quic.initials(1.0, 2.0, 4.0)
    assert network.explain().found(RULE) == []


def test_an_attempt_at_another_port_is_one() -> None:
    """Alt-Svc may name another port, and the client go there."""
    network = Network()
    network.https_record(0.0, "example.org", "h3")
    network.tcp().connects(0.1)
    network.quic(port=8443).connects(1.0)
    assert network.explain().found(RULE) == []


@pytest.mark.parametrize(
    "lines", [('h2=":443"',), ('h3-29=":443"',), ('h3=":443"; ma=0',), ("clear",), ("h3=:443",)], ids=str
)
def test_what_does_not_offer_http3_is_no_offer(lines: tuple[str, ...]) -> None:
    """Another protocol, a draft, a stale one, `clear`, and what the grammar does not allow."""
    network = Network()
    tcp = offered(network, *lines)
    network.proxy().exchange(1.0, tcp)
    assert network.explain().found(RULE) == []


def test_an_offer_that_did_not_reach_the_client_is_none() -> None:
    """A proxy took it away."""
    network = Network()
    tcp = offered(network, OFFER, passed_on=())
    network.proxy().exchange(1.0, tcp)
    assert network.explain().found(RULE) == []


def test_an_offer_ends_with_its_time() -> None:
    """`ma` seconds after the response the alternative is stale (RFC 7838, 3.1)."""
    network = Network()
    tcp = offered(network, 'h3=":443"; ma=5')
    network.proxy().exchange(6.0, tcp)
    assert network.explain().found(RULE) == []
    network.proxy().exchange(4.0, tcp)
    assert "1 exchange over TCP" in network.explain().the(RULE).summary


def test_an_offer_that_is_taken_back_has_ended() -> None:
    """After `clear` a client does right to stay with TCP."""
    network = Network()
    tcp = offered(network, OFFER)
    network.proxy().alt_svc(1.0, tcp, "clear")
    network.proxy().exchange(2.0, tcp)
    assert network.explain().found(RULE) == []


def test_dns_without_h3_offers_nothing() -> None:
    """An HTTPS record may name HTTP/2 alone."""
    network = Network()
    network.https_record(0.0, "example.org", "h2")
    network.tcp().connects(0.1)
    assert network.explain().found(RULE) == []


def test_a_connection_from_before_the_record_did_not_know() -> None:
    """DNS is asked after the connection is there."""
    network = Network()
    network.tcp().connects(0.0)
    network.https_record(1.0, "example.org", "h3")
    assert network.explain().found(RULE) == []


@pytest.mark.parametrize("port", [22, 8443])
def test_a_record_is_about_port_443(port: int) -> None:
    """SSH to the same host, or another HTTPS port, which has a record of its own name (RFC 9460, 2.3)."""
    network = Network()
    network.dns(0.0, "example.org", "198.51.100.1")
    network.https_record(0.0, "example.org", "h3")
    tcp = network.tcp(port=port)
    if port == 22:
        tcp.syn(0.1)
        tcp.accepts(0.12)
        tcp.segment(0.13, "client", 0x18, b"SSH-2.0-client\r\n")
    else:
        tcp.connects(0.1)
    assert network.explain().found(RULE) == []


def test_tcp_that_is_refused_is_no_preference() -> None:
    """A connection that carried nothing says nothing of how the client would go on."""
    network = Network()
    network.dns(0.0, "example.org", "198.51.100.1")
    network.https_record(0.0, "example.org", "h3")
    tcp = network.tcp()
    tcp.syn(0.1)
    tcp.refuse(0.12)
    assert network.explain().found(RULE) == []


def test_tls_that_is_not_http_needs_no_http3() -> None:
    """Another protocol by ALPN on port 443."""
    network = Network()
    network.https_record(0.0, "example.org", "h3")
    network.tcp(alpn=("mqtt",)).connects(0.1)
    assert network.explain().found(RULE) == []


def test_through_a_proxy_the_reason_is_the_proxy() -> None:
    """A CONNECT tunnel cannot carry HTTP/3: `proxy-downgrade` says so, and that it was offered."""
    network = Network()
    proxy, client = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.carries(client, 0.0)
    proxy.alt_svc(0.2, client, OFFER)
    proxy.exchange(0.3, client)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert explained.the("proxy-downgrade").severity == "notice"


def test_a_broken_alternative_is_the_reason() -> None:
    """Where the client says that it has given the alternative up, that is told, and the advice is about that."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    tcp.exchanges(3.0)
    network.told(0.5, tcp, began=0.4, broken=True)
    network.told_alt_svc(0.5, OFFER)
    network.told(2.6, tcp, began=2.5, broken=True)
    finding = network.explain().the(RULE)
    assert "marked it broken" in finding.summary
    assert "new profile" in finding.advice
    assert any("broken" in row.what for row in finding.evidence)


def test_the_clients_own_log_tells_it() -> None:
    """What the log has of Alt-Svc and of requests is as good as a proxy's word; what failed used nothing."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    tcp.exchanges(3.0)
    network.told(0.5, tcp, began=0.4)
    network.told_alt_svc(0.5, OFFER)
    assert network.explain().found(RULE) == []
    network.told(2.5, None, None)
    assert network.explain().found(RULE) == []
    network.told(2.6, tcp, began=2.5)
    assert "1 exchange over TCP and not one QUIC packet" in network.explain().the(RULE).summary


@pytest.mark.parametrize(("key", "offers"), [(3, True), (0xFF01, False)])
def test_a_record_that_its_client_must_ignore_offers_nothing(key: int, *, offers: bool) -> None:
    """A parameter that is mandatory, and that no client knows, makes the record one for others (RFC 9460, 8)."""
    network = Network()
    needed = b"\x00\x00\x00\x02" + key.to_bytes(2)
    network.https_record(0.0, "example.org", "h3", parameters=(needed, key.to_bytes(2) + b"\x00\x02\x01\xbb"))
    network.tcp().connects(1.0)
    assert bool(network.explain().found(RULE)) is offers


def test_a_record_that_another_host_got_is_told_as_that() -> None:
    """The server offers HTTP/3; that this client was told so is not seen."""
    network = Network()
    network.https_record(0.0, "example.org", "h3", client="192.0.2.77")
    network.tcp().connects(1.0)
    assert "alpn h3, sent to 192.0.2.77)" in network.explain().the(RULE).summary
