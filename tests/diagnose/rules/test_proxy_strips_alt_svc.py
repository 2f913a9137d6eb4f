from __future__ import annotations

from tests.diagnose.scenario import Network, Tcp

RULE = "proxy-strips-alt-svc"
OFFER = 'h3=":443"; ma=86400'


def reverse(network: Network) -> Tcp:
    """A connection to a reverse proxy, as it reports it."""
    tcp = network.tcp(server="127.0.0.1", port=8443)
    network.proxy().hello(0.0, tcp)
    return tcp


def test_lines_that_do_not_arrive_are_told() -> None:
    """What the server sent, and that the client did not get it."""
    network = Network()
    tcp = reverse(network)
    proxy = network.proxy()
    proxy.alt_svc(0.1, tcp, OFFER, passed_on=())
    proxy.exchange(0.1, tcp)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert OFFER in finding.summary
    assert [(row.frame, row.at) for row in finding.evidence] == [(None, 0.1)]


def test_a_direct_look_is_told_as_one() -> None:
    """What a server said to h3probe's own question may be what it says to others, and that is not certain."""
    network = Network()
    tcp = reverse(network)
    proxy = network.proxy()
    proxy.exchange(0.1, tcp)
    proxy.alt_svc(0.2, tcp, OFFER, passed_on=(), directly=True)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert finding.summary.startswith("Asked directly for the same path (HEAD)")
    assert "unless the server answers others differently" in finding.summary


def test_a_direct_look_is_no_evidence_where_another_answer_brought_the_lines() -> None:
    """A server that sends Alt-Svc with some answers only is not a proxy that takes it out."""
    network = Network()
    tcp = reverse(network)
    proxy = network.proxy()
    proxy.exchange(0.1, tcp)
    proxy.alt_svc(0.2, tcp, OFFER, passed_on=(), directly=True)
    proxy.exchange(0.3, tcp)
    proxy.alt_svc(0.3, tcp, OFFER)
    assert network.explain().found(RULE) == []


def test_control_characters_are_not_repeated() -> None:
    """What a server sends may be meant for the terminal."""
    network = Network()
    tcp = reverse(network)
    network.proxy().alt_svc(0.1, tcp, "h3=\x1b]0;x\x07", passed_on=())
    assert network.explain().the(RULE).summary.isprintable()


def test_lines_that_lead_to_the_proxy_are_not_taken_away() -> None:
    """A reverse proxy that puts its own port in passes the offer on."""
    network = Network()
    tcp = reverse(network)
    network.proxy().alt_svc(0.1, tcp, OFFER, passed_on=('h3=":8443"; ma=86400',))
    assert network.explain().found(RULE) == []


def test_lines_as_they_were_sent_are_not_taken_away() -> None:
    """An explicit proxy passes them on."""
    network = Network()
    tcp = reverse(network)
    network.proxy().alt_svc(0.1, tcp, OFFER)
    assert network.explain().found(RULE) == []


def test_a_server_that_sends_none_has_nothing_to_lose() -> None:
    """No lines before the proxy, none after it."""
    network = Network()
    tcp = reverse(network)
    proxy = network.proxy()
    proxy.alt_svc(0.1, tcp)
    proxy.exchange(0.1, tcp)
    assert network.explain().found(RULE) == []
