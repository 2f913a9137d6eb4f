from __future__ import annotations

from tests.diagnose.scenario import Network, Proxy, Tcp

RULE = "server-distrusted"
WHY = "Certificate verify failed: self-signed certificate"


def intercepted(network: Network) -> tuple[Proxy, Tcp]:
    """A tunnel whose TLS the proxy terminates."""
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.carries(tcp, 0.0)
    return proxy, tcp


def test_a_server_that_the_proxy_does_not_believe() -> None:
    """Why, how often, and the option that names the authority; the verdict says that nothing was answered."""
    network = Network()
    proxy, tcp = intercepted(network)
    for at in (0.2, 0.3):
        proxy.exchange(at, tcp, status=None, error=WHY, intercepted=True, distrusted=True)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "problem"
    assert f"certificate of example.org:443 ({WHY}): it answered 2 requests with an error of its own" in finding.summary
    assert "--server-ca" in finding.advice
    assert [(row.frame, row.at) for row in finding.evidence] == [(None, 0.22), (None, 0.32)]
    assert explained.sentence.startswith("No response through the CONNECT tunnel")
    assert explained.summary.exit_status == 1


def test_the_reason_is_not_trusted() -> None:
    """It comes from a file that anyone may have written."""
    network = Network()
    proxy, tcp = intercepted(network)
    proxy.exchange(0.2, tcp, status=None, error="a\x1b[31mb", intercepted=True, distrusted=True)
    assert network.explain().the(RULE).summary.isprintable()


def test_another_error_is_another_matter() -> None:
    """A server that hangs up was believed, or not even asked."""
    network = Network()
    proxy, tcp = intercepted(network)
    proxy.exchange(0.2, tcp, status=None, intercepted=True)
    assert network.explain().found(RULE) == []
