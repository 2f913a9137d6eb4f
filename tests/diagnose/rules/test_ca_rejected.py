from __future__ import annotations

from tests.diagnose.scenario import Network, Tcp

RULE = "ca-rejected"


def intercepted(network: Network) -> Tcp:
    """A tunnel whose TLS the proxy terminates."""
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    tunnel = proxy.asked(0.0, tcp)
    proxy.answered(0.01, tunnel)
    proxy.hello(0.02, tcp, tunnel)
    return tcp


def test_an_alert_is_a_refusal() -> None:
    """The client's alert, the host, and what happens next."""
    network = Network()
    tcp = intercepted(network)
    network.proxy().rejected(0.05, tcp)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "problem"
    assert "shown for example.org, over TCP: alert unknown_ca" in finding.summary
    assert "passed through" in finding.summary
    assert [(row.frame, row.at) for row in finding.evidence] == [(None, 0.05)]
    assert explained.summary.exit_status == 1


def test_a_refusal_is_not_called_a_downgrade() -> None:
    """The connection that the client refused carried nothing."""
    network = Network()
    tcp = intercepted(network)
    network.proxy().rejected(0.05, tcp)
    network.proxy().ended(0.06, tcp, "t1", after_hello=24)
    explained = network.explain()
    assert explained.rules == [RULE]
    assert explained.sentence.startswith("No connection: the client does not take the certificate that the proxy")


def test_a_refusal_after_the_handshake_is_no_downgrade_either() -> None:
    """Curl finishes the handshake, looks at the certificate, and leaves: packets show TLS that got ready."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    tcp.asks_proxy(0.0, "example.org:443")
    tunnel = proxy.asked(0.01, tcp)
    tcp.proxy_answers(0.05, 200)
    proxy.answered(0.05, tunnel)
    tcp.gets_ready(0.06)
    tcp.fin(0.2)
    proxy.ended(0.2, tcp, tunnel, after_hello=88)
    proxy.rejected(0.21, tcp, None)
    explained = network.explain()
    assert explained.rules == [RULE]
    assert explained.sentence.startswith("No connection: the client does not take the certificate that the proxy")


def test_a_proxy_that_goes_on_intercepting_is_not_said_to_stop() -> None:
    """Somebody else's mitmdump shows the same certificate the next time."""
    network = Network()
    network.proxy().rejected(0.05, intercepted(network), let_alone=False)
    assert network.explain().the(RULE).summary.endswith("over TCP: alert unknown_ca.")


def test_a_client_that_only_closes_is_told_as_that() -> None:
    """Without an alert nothing more than the close is known."""
    network = Network()
    network.proxy().rejected(0.05, intercepted(network), alert=None)
    assert "closed the connection" in network.explain().the(RULE).summary


def test_over_quic_alone() -> None:
    """Browsers take an installed CA over TCP, and not over QUIC."""
    network = Network()
    quic = network.quic(server="127.0.0.1", port=8443)
    network.proxy().hello(0.0, quic)
    network.proxy().rejected(0.05, quic, "certificate_unknown")
    assert "over QUIC: alert certificate_unknown" in network.explain().the(RULE).summary


def test_over_both_is_one_finding() -> None:
    """One host, refused twice."""
    network = Network()
    proxy = network.proxy()
    quic, tcp = network.quic(server="127.0.0.1", port=8443), network.tcp(server="127.0.0.1", port=8443)
    for connection in (quic, tcp):
        proxy.hello(0.0, connection)
        proxy.rejected(0.05, connection)
    finding = network.explain().the(RULE)
    assert "over TCP and QUIC" in finding.summary
    assert len(finding.evidence) == 2


def test_the_alerts_name_is_not_trusted() -> None:
    """It comes from a file that anyone may have written."""
    network = Network()
    network.proxy().rejected(0.05, intercepted(network), "\x1b[31m", "ex\x07ample")
    assert network.explain().the(RULE).summary.isprintable()


def test_a_client_that_trusts_it_is_not_told() -> None:
    """An exchange that was intercepted is a certificate that was taken."""
    network = Network()
    tcp = intercepted(network)
    network.proxy().exchange(0.1, tcp, intercepted=True)
    assert network.explain().found(RULE) == []


def test_another_clients_refusal_is_not_this_ones() -> None:
    """A refusal belongs to the connection on which it came."""
    network = Network()
    proxy = network.proxy()
    proxy.rejected(0.05, intercepted(network))
    other = network.tcp(client="192.0.2.77", server="127.0.0.1", port=8899)
    proxy.carries(other, 0.1)
    (finding,) = network.explain().found(RULE)
    assert finding.connections == ["tcp-1"]


def test_a_real_servers_certificate_is_another_matter() -> None:
    """An alert inside of a tunnel that nobody opens says nothing of h3probe's CA."""
    network = Network()
    tcp = network.tcp(server="192.0.2.3", port=3128)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.05, 200)
    tcp.hello(0.06)
    tcp.alert(0.1, 48, by="client")
    assert network.explain().found(RULE) == []
